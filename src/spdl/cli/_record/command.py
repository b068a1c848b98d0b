"""`spdl record`: a trace of a program, or of a process that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.cli._common.errors import CommandError

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["record"]


def record(options: Namespace) -> int:
    """Record the program or the process that the command line names.

    Returns:
        The exit status of the program; 0 for a process.

    Raises:
        CommandError: There is no trace. The message says why.
    """
    if options.pid is not None:
        from spdl.cli._record.process import record_process  # noqa: PLC0415 - each needs what the other does not.

        return record_process(options)
    for name in ("seconds", "wait"):
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} is for a process, as in: spdl record PID. A program is recorded to its end")
    from spdl.cli._record.program import record_program  # noqa: PLC0415 - as above.

    return record_program(options)

"""`spdl record`: a trace of a program, or of a process that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spdl._trace_file import join_traces
from spdl.cli._common.console import FAILED, CommandError, say
from spdl.cli._common.text import several
from spdl.cli._record.output import UnwrittenError, check_output, writing
from spdl.observe._trace.folder import SUFFIX
from spdl.pipeline._declare.defaults import TRACE_FOLDER

if TYPE_CHECKING:
    from argparse import Namespace


# The exit status of shells for a program that cannot be run, and for one that does not exist.
_CANNOT_RUN, _NOT_FOUND = 126, 127
_SIGNALLED = 128


def record_program(options: Namespace) -> int:
    """Run the program that the command line names, and write one trace of all its processes.

    Returns:
        The exit status of the program; 128 and the number of the signal if one has ended it.

    Raises:
        CommandError: The trace cannot be written, the program cannot be run, or it has built no pipeline. If the
            program has run, its status is the command's, but for a success of one that has built no pipeline.
    """
    command: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise CommandError(
            "which program? Such as: spdl record -- python train.py. Or which process? Such as: spdl record 4711"
        )
    check_output(options.output)
    with tempfile.TemporaryDirectory(prefix="spdl-record-") as folder:
        status = _run(command, folder)
        parts = sorted(Path(folder).glob(f"*{SUFFIX}"))
        if not parts:
            raise CommandError(
                f"{command[0]} built no pipeline, or was killed before it could write what was recorded: "
                "nothing to show.",
                exit_status=status or FAILED,
            )
        try:
            with writing(options.output) as content:
                join_traces(parts, content)
        except UnwrittenError as error:
            # The program has done its work, whether or not its trace can be written.
            raise CommandError(str(error), exit_status=status) from error
    processes = several(len(parts), "process")
    say(f"wrote {options.output} with the pipelines of {processes}; open it at https://ui.perfetto.dev")
    return status


def _run(command: Sequence[str], folder: str) -> int:
    with _signals_left_to_the_program() as begin:
        try:
            process = begin(command, {**os.environ, TRACE_FOLDER: folder})
        except FileNotFoundError as error:
            raise CommandError(f"there is no program {command[0]}", exit_status=_NOT_FOUND) from error
        except OSError as error:
            raise CommandError(f"{command[0]}: {error.strerror}", exit_status=_CANNOT_RUN) from error
        status = process.wait()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _signals_left_to_the_program() -> Iterator[Callable[[Sequence[str], dict[str, str]], subprocess.Popen[bytes]]]:
    """Let the program decide the meaning of Ctrl-C and SIGTERM. Its trace is written afterwards."""
    process: subprocess.Popen[bytes] | None = None

    def begin(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        nonlocal process
        process = subprocess.Popen(command, env=environment)
        return process

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if process is None:
            raise SystemExit(_SIGNALLED + number)
        process.send_signal(number)

    # A terminal sends Ctrl-C to both. If the signal were ignored, the program would ignore it, too.
    handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: pass_on}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield begin
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def record(options: Namespace) -> int:
    """Record the program or the process that the command line names.

    Returns:
        The exit status of the program; 0 for a process.

    Raises:
        CommandError: The trace could not be made. The message has the reason.
    """
    if options.pid is not None:
        from spdl.cli._record.process import record_process  # noqa: PLC0415 - a program needs none of it.

        return record_process(options)
    for name in ("seconds", "wait"):
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} is for a process, as in: spdl record PID. A program is recorded to its end")
    return record_program(options)

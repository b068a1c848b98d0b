"""Run the job that is measured: with its own arguments and signals, and the streams of this command."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.cli._common.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_ON_PATH = Path(__file__).parent / "on_path"

# What people and batch systems send to a job.
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2")

_STANDARD_ERROR = 2
"""Its file descriptor: that of `sys.stderr` may be another one, or none, where a program calls this command."""


def run_job(command: Sequence[str], records: Path, trial_seconds: float, *, output_to_stderr: bool = False) -> int:
    """Run a command whose Python processes measure their loaders.

    Args:
        command: The command and its arguments.
        records: A folder for the measurements.
        trial_seconds: How long other ways to load are tried, each; 0 for not at all.
        output_to_stderr: Whether what it writes to standard output goes to standard error.

    Returns:
        Its exit status: 128 and the signal's number if a signal ended it, as shells report it.

    Raises:
        CommandError: The command cannot be run.
    """
    path = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": str(_ON_PATH) + (os.pathsep + path if path else ""),
        "SPDL_ADVISE": str(records),
        "SPDL_ADVISE_TRIAL": str(trial_seconds),
    }
    try:
        process = subprocess.Popen(command, env=environment, stdout=_STANDARD_ERROR if output_to_stderr else None)
    except OSError as error:
        raise CommandError(
            f"{command[0]!r} cannot be run: {error.strerror}. Give the command as in a shell."
        ) from error
    with process, _signals_go_to(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _signals_go_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        # A terminal sends its signals to the job, too.
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Return whether this process belongs to those that get the signals of its terminal."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False

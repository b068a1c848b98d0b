"""Runs a program for a command: the program gets the signals, and its exit status is the command's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from spdl.cli._common.console import CommandError

# The exit status of shells for a program that cannot be run, and for one that does not exist.
_CANNOT_RUN, _NOT_FOUND = 126, 127
_SIGNALLED = 128


def run_program(
    words: Sequence[str], environment: Mapping[str, str], signals: Sequence[str], *, stdout: int | None = None
) -> int:
    """Run a program with more in its environment, and return its exit status as shells report it.

    Signals of these names are passed on to it. `stdout` is a file descriptor that takes the place of its output.
    """
    try:
        process = subprocess.Popen(words, env=os.environ | environment, stdout=stdout)
    except FileNotFoundError as error:
        raise CommandError(f"there is no program {words[0]}", exit_status=_NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"{words[0]} cannot be run: {error.strerror}", exit_status=_CANNOT_RUN) from error
    with process, _passed_on(process, [getattr(signal, name) for name in signals if hasattr(signal, name)]):
        status = process.wait()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _passed_on(process: subprocess.Popen[bytes], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        # A terminal sends its signals to the program, too.
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False

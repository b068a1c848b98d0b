"""The file into which a process writes the stacks of its threads when it is asked for them by a signal."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from .page_folder import is_private, page_folder
from .process_identity import pid_namespace, started_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["STACKS", "caught_signals", "enable_stacks"]

STACKS = ".stacks"

_ENABLED: set[int] = set()


def enable_stacks() -> bool:
    r"""Let ``spdl stack PID`` show the stacks of this process, also where ``py-spy`` is not installed or not permitted.

    A signal that nothing else in this process uses then has all threads' stacks written into a file in memory, which
    only this user can read. `faulthandler` does that without the GIL and without a thread: it works while the process
    hangs. It costs nothing until it is asked for. ``SPDL_STACKS=1`` in the environment does the same when the first
    pipeline starts. A process that is forked calls it again, or has that variable.

    Returns:
        Whether it can be asked for: not on systems other than Linux, and not where there is no place for the file.

    Example:
        >>> import subprocess, sys
        >>> program = "from spdl.observe import enable_stacks; print(enable_stacks())"
        >>> subprocess.check_output([sys.executable, "-c", program])
        b'True\n'
    """
    pid = os.getpid()
    # A forked process has a file of its own.
    if pid in _ENABLED:
        return True
    folder = page_folder()
    try:
        # One that the program uses for something else keeps its meaning.
        caught = caught_signals(pid)
        number = next(each for each in _signals() if not caught >> (each - 1) & 1)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if not is_private(folder):
            return False
        _register(folder / f"{pid}{STACKS}", pid, number)
    except (ImportError, OSError, AttributeError, RuntimeError, StopIteration):
        return False
    _ENABLED.add(pid)
    return True


def _signals() -> Iterator[int]:
    # The real-time signals, without those at both ends, which debuggers and C libraries like.
    yield from range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1)


def caught_signals(pid: int) -> int:
    """Return which signals a process has handlers for, as the system's mask: bit 0 is signal 1.

    Raises:
        OSError: There is no such process, or the system does not say.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return int(line.split()[1], 16)
    raise OSError("the system does not say which signals are caught")


def _register(path: Path, pid: int, number: int) -> None:
    import faulthandler  # noqa: PLC0415 - not to be had in sub-interpreters.

    path.unlink(missing_ok=True)
    # Nobody sends the signal before it has a handler.
    about = {
        "pid": pid,
        "started_ticks": started_ticks(pid),
        "pid_namespace": pid_namespace(),
        "signal": number,
    }
    # It stays open for as long as the process runs.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        faulthandler.register(number, descriptor, all_threads=True)
        os.write(descriptor, json.dumps(about).encode() + b"\n")
    except BaseException:
        os.close(descriptor)
        path.unlink()
        raise
    atexit.register(_remove, path, pid)


def _remove(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        path.unlink(missing_ok=True)

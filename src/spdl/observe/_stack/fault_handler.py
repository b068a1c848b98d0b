"""Stacks that a process writes down itself at a signal, as `enable_stacks` has prepared it."""

from __future__ import annotations

import contextlib
import json
import os
import re
from time import monotonic, sleep
from typing import TYPE_CHECKING

from spdl.pipeline._report.page_file import (
    STACKS,
    caught_signals,
    is_private,
    page_folder,
    pid_namespace,
    started_ticks,
)

from .thread_stack import Frame, NoStacksError, ThreadStack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["by_signal"]

# A process answers within so many seconds or not at all, and has answered if the file grows no more for that long.
_SECONDS, _SETTLED, _LOOK = 3.0, 0.1, 0.01
_MOST_HEAD = 4096
_MOST = 4 << 20

_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def by_signal(pid: int, folder: Path | None = None) -> list[ThreadStack]:
    """Return the stacks of a process that has called `enable_stacks`. It works while the process hangs.

    Args:
        pid: The process.
        folder: Where its file is, if not in the user's folder.

    Raises:
        NoStacksError: If it has not called it, or does not answer.
    """
    folder = page_folder() if folder is None else folder
    try:
        if not is_private(folder):
            raise FileNotFoundError
        descriptor = os.open(folder / f"{pid}{STACKS}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise NoStacksError(
            "the process has not called `spdl.observe.enable_stacks()` or been started with SPDL_STACKS=1"
        ) from None
    try:
        with _alone(descriptor):
            return _parse(_ask(descriptor, pid))
    except OSError as error:
        raise NoStacksError(f"the process cannot be asked for its stacks: {error.strerror}") from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    """Keep others who ask away."""
    import fcntl  # noqa: PLC0415 - as in `is_unlocked`.

    deadline = monotonic() + _SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if monotonic() > deadline:
                raise NoStacksError("another program asks the process for its stacks all the time") from None
            sleep(_LOOK)
    yield


def _ask(descriptor: int, pid: int) -> bytes:
    head, found, _ = os.pread(descriptor, _MOST_HEAD, 0).partition(b"\n")
    try:
        about = json.loads(head) if found else {}
        number, started, namespace = (int(about[name]) for name in ("signal", "started_ticks", "pid_namespace"))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise NoStacksError("the file in which the process writes its stacks is damaged") from None
    # A process without a handler for the signal would be ended by it.
    ours = namespace == pid_namespace() and started == started_ticks(pid) and number > 0
    if not ours or not caught_signals(pid) >> (number - 1) & 1:
        raise NoStacksError("the process that prepared it is another one")
    begin = len(head) + 1
    os.ftruncate(descriptor, begin)
    os.kill(pid, number)
    size, changed = begin, monotonic()
    deadline = changed + _SECONDS
    while size == begin or monotonic() - changed < _SETTLED:
        if monotonic() > deadline:
            if size == begin:
                raise NoStacksError(f"the process has not answered within {_SECONDS:g} s: is it stopped?")
            break
        sleep(_LOOK)
        now = os.fstat(descriptor).st_size
        if now != size:
            size, changed = now, monotonic()
    answer = os.pread(descriptor, min(size - begin, _MOST), begin)
    os.ftruncate(descriptor, begin)
    return answer


def _parse(answer: bytes) -> list[ThreadStack]:
    stacks: list[tuple[int, str, list[Frame]]] = []
    for line in answer.decode(errors="replace").splitlines():
        if match := _THREAD.fullmatch(line):
            stacks.append((int(match[1], 16), match[2] or "", []))
        elif stacks and (match := _FRAME.fullmatch(line)):
            stacks[-1][2].append(Frame(match[3], match[1], int(match[2]) if match[2].isdecimal() else 0))
    return [ThreadStack(0, identity, name, tuple(frames)) for identity, name, frames in stacks]

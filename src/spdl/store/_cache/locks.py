"""Locks that processes share, and that end with their holder."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["holding"]

_OPEN_FILE = getattr(fcntl, "F_OFD_SETLKW", None)
"""Locks of parts of a file that belong to the open file, and so to a thread; those of POSIX belong to the process."""

_held: set[int] = set()
"""The descriptors that hold locks. A forked process closes its copies: the lock has to end with the parent."""

_noting = threading.RLock()
"""Held while a descriptor is opened or closed, and by a fork: a copy that nobody knows of would keep the lock for ever.

A thread may hold it twice: if a signal's handler forks.
"""


@contextmanager
def holding(path: str, numbers: Iterable[int] = ()) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is missing, and the folder, too; or the locks of numbers in it."""
    descriptor = _open(path)
    try:
        ordered = sorted(set(numbers))  # In one order everywhere, so that nobody waits in a circle.
        if not ordered or _OPEN_FILE is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            for number in ordered:
                fcntl.fcntl(descriptor, _OPEN_FILE, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        yield
    finally:
        _close(descriptor)


def _open(path: str) -> int:
    try:
        return _open_noted(path)
    except FileNotFoundError:  # Somebody has removed the folder.
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
        return _open_noted(path)


def _open_noted(path: str) -> int:
    with _noting:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _held.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    with _noting:
        if descriptor in _held:  # A forked process has closed it already.
            _held.discard(descriptor)
            os.close(descriptor)


def _begin_anew() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()
    _noting.release()


os.register_at_fork(before=_noting.acquire, after_in_parent=_noting.release, after_in_child=_begin_anew)

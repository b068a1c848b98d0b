"""Locks that processes share, and that end with their holder."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["holding", "holding_numbers"]

_OPEN_FILE = getattr(fcntl, "F_OFD_SETLKW", None)
"""Locks of parts of a file that belong to the open file, and so to a thread; those of POSIX belong to the process."""

_held: set[int] = set()
"""The descriptors that hold locks. A forked process closes its copies: the lock has to end with the parent."""


@contextmanager
def holding(path: str, kind: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Hold the lock of a file, which is made if it is missing; the folder, too. Yield its descriptor."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        _close(descriptor)


@contextmanager
def holding_numbers(path: str, numbers: Iterable[int]) -> Iterator[None]:
    """Hold the locks of numbers: all of them belong to one file."""
    descriptor = _open(path)
    try:
        for number in sorted(set(numbers)):  # In one order everywhere, so that nobody waits in a circle.
            if _OPEN_FILE is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                break
            fcntl.fcntl(descriptor, _OPEN_FILE, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        yield
    finally:
        _close(descriptor)


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileNotFoundError:  # Somebody has removed the folder.
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        descriptor = os.open(path, flags, 0o666)
    _held.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    if descriptor in _held:  # A forked process has closed it already.
        _held.discard(descriptor)
        os.close(descriptor)


def _close_all() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_all)

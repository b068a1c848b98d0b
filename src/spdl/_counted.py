"""Objects that count their reads in this process, such as stores, so that the statistics of pipelines can show them.

They tell it in two ways: each has its counters (`show_counters`), and notes for the thread that has called it what that
has read (`note_read`). The pipeline that runs an op in that thread takes it for the op's stage (`bytes_of_thread`).
"""

from __future__ import annotations

import itertools
import weakref
from threading import get_ident
from typing import NamedTuple, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


class _Counting(Protocol):
    def _counters(self) -> dict[str, float]: ...


class Counted(NamedTuple):
    """The counts of one object.

    Attributes:
        name: The object's name.
        counters: Its counters, which only grow.
    """

    name: str
    counters: dict[str, float]


_ALL: dict[int, tuple[str, weakref.ref[_Counting]]] = {}
_NUMBERS = itertools.count()
# The bytes that threads have read since they were last taken, by thread identity; each changes its own number alone.
_READ: dict[int, int] = {}


def show_counters(counting: _Counting, name: str) -> None:
    """Have ``_counters`` of an object called as long as it lives, for the statistics of pipelines.

    It must take no lock: signal handlers and finalizers call it, in the middle of anything. If it has counters named
    ``requests``, ``retries``, ``hedges`` and by the kinds of failed attempts, ``misses`` and ``uncached``, the verdict
    speaks of them.

    Args:
        counting: The object.
        name: The name that users know it by.
    """
    number = next(_NUMBERS)

    # At the interpreter's exit, the names of this module may be gone.
    def forget(_: object, forget: object = _ALL) -> None:
        assert isinstance(forget, dict)
        forget.pop(number, None)

    _ALL[number] = name, weakref.ref(counting, forget)


def counted_now() -> dict[int, Counted]:
    """Return the counts of all such objects, by their numbers. It takes no lock."""
    found = {}
    for number, (name, reference) in _ALL.copy().items():
        counting = reference()
        if counting is not None:
            found[number] = Counted(name, counting._counters())  # noqa: SLF001 - for this module alone.
    return found


def note_read(num_bytes: int) -> None:
    """Note that the current thread has read that many bytes."""
    thread = get_ident()
    _READ[thread] = _READ.get(thread, 0) + num_bytes


def bytes_of_thread() -> int:
    """Return how many bytes the current thread has read since this was asked last."""
    return _READ.pop(get_ident(), 0) if _READ else 0

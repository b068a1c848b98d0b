"""What counts its reading in this process, such as stores, so that the statistics of pipelines can show it."""

from __future__ import annotations

import itertools
import weakref
from typing import NamedTuple, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["Counted", "counted_now", "show_counters"]


class _Counting(Protocol):
    def _counters(self) -> dict[str, float]: ...


class Counted(NamedTuple):
    """What something has counted.

    Attributes:
        name: What it is.
        counters: Its counters, which only grow.
    """

    name: str
    counters: dict[str, float]


_ALL: dict[int, tuple[str, weakref.ref[_Counting]]] = {}
_NUMBERS = itertools.count()


def show_counters(counting: _Counting, name: str) -> None:
    """Have ``_counters`` of an object called as long as it lives, for the statistics of pipelines.

    It must take no lock: signal handlers and finalizers call it, in the middle of anything. If it has counters named
    ``requests``, ``retries``, ``hedges`` and by the kinds of failed attempts, ``misses`` and ``uncached``, the verdict
    speaks of them.

    Args:
        counting: The object.
        name: What users know it by.
    """
    number = next(_NUMBERS)

    # At the interpreter's exit, the names of this module may be gone.
    def forget(_: object, forget: object = _ALL) -> None:
        assert isinstance(forget, dict)
        forget.pop(number, None)

    _ALL[number] = name, weakref.ref(counting, forget)


def counted_now() -> dict[int, Counted]:
    """Return what all such objects have counted, by numbers of theirs. It takes no lock."""
    found = {}
    for number, (name, reference) in _ALL.copy().items():
        counting = reference()
        if counting is not None:
            found[number] = Counted(name, counting._counters())  # noqa: SLF001 - for this module alone.
    return found

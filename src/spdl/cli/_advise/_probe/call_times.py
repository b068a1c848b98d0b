"""What the calls of a dataset spend their time on, seen in a few of its batches."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .call_kinds import kind_of_builtin, kind_of_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

__all__ = ["CallTimes"]

# An observation ends after this many calls, some 20 ms of its own time. Observations are this many seconds apart.
_MOST_CALLS = 40_000
_PAUSE = 3.0
# How many calls the cost of an observed call is measured on. Every worker does that, and some live a second.
_TRIALS = 150


class CallTimes:
    """Sums the time in functions that read, decode, transform or wait, by Python's profiling hook.

    Attributes:
        seconds: The time observed, without the cost of observing.
        by_kind: The part of it in functions of each kind. The rest is other code.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.by_kind: dict[str, float] = {}
        self._due_at = 0.0
        self._cost: float | None = None
        self._functions: dict[CodeType, str | None] = {}
        self._builtins: dict[tuple[Any, ...], str | None] = {}
        self._clear(0.0)

    def _clear(self, now: float) -> None:
        self._depth = self._calls = self._counted_calls = 0
        # What has begun and not ended, with its depth and what surrounds it.
        self._within: list[tuple[int, str | None]] = []
        self._kind: str | None = None
        self._since = now

    def begin(self, now: float) -> bool:
        """Begin an observation of this thread if one is due.

        Args:
            now: The present, by `time.perf_counter`.
        """
        if now < self._due_at or sys.getprofile() is not None:
            return False
        if self._cost is None:
            self._cost = _cost_of_a_call()
        self._clear(perf_counter())
        sys.setprofile(self._note)
        return True

    def end(self) -> None:
        """End the observation, unless it has ended by itself."""
        if sys.getprofile() == self._note:
            sys.setprofile(None)
            self._close(perf_counter())

    def _close(self, now: float) -> None:
        self._add(now)
        self._due_at = now + _PAUSE

    def _note(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            kind = self._kind_of_function(frame)
        elif event == "c_call":
            kind = self._kind_of_builtin(function)
        else:
            self._leave()
            return
        self._calls += 1
        if kind is not None and kind is not self._kind:
            self._add(perf_counter())
            self._within.append((self._depth, self._kind))
            self._kind = kind
        self._depth += 1
        if self._calls > _MOST_CALLS:
            sys.setprofile(None)
            self._close(perf_counter())

    def _leave(self) -> None:
        self._depth -= 1
        if self._within and self._within[-1][0] == self._depth:
            self._add(perf_counter())
            self._kind = self._within.pop()[1]

    def _add(self, now: float) -> None:
        """Count the time since the last change for what has been done since."""
        cost = (self._calls - self._counted_calls) * (self._cost or 0.0)
        seconds = max(0.0, now - self._since - cost)
        self._counted_calls, self._since = self._calls, now
        self.seconds += seconds
        if self._kind is not None:
            self.by_kind[self._kind] = self.by_kind.get(self._kind, 0.0) + seconds

    def _kind_of_function(self, frame: FrameType) -> str | None:
        try:
            return self._functions[frame.f_code]
        except KeyError:
            return self._functions.setdefault(frame.f_code, kind_of_function(frame))

    def _kind_of_builtin(self, function: Any) -> str | None:
        key = (function.__module__, type(function.__self__), function.__name__)
        try:
            return self._builtins[key]
        except KeyError:
            return self._builtins.setdefault(key, kind_of_builtin(function))


def _cost_of_a_call() -> float:
    """Return the seconds by which a call takes longer when it is observed."""
    times = CallTimes()

    def take(observe: Callable[..., None] | None) -> float:
        began = perf_counter()
        sys.setprofile(observe)
        for _ in range(_TRIALS):
            _do_nothing()
        sys.setprofile(None)
        return perf_counter() - began

    take(times._note)  # noqa: SLF001 - of this class.
    return max(0.0, min(take(times._note) for _ in range(3)) - min(take(None) for _ in range(3))) / _TRIALS  # noqa: SLF001


def _do_nothing() -> None:
    pass

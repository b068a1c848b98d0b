"""Results of items of which others are still to come: which of them are on their way, and which are delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ranges import Ranges, ranges_from_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .ranges import Range

__all__ = ["Parts"]


class Parts:
    """Results by their names: the position of the item, and then numbers of results.

    To deliver and forget the same again, after Ctrl-C has interrupted it, changes nothing.

    What is known of an item is forgotten when it is delivered as a whole, so it takes memory for what is under way.

    Args:
        state: What `to_state` has returned in an earlier run: results that were delivered.

    Raises:
        ValueError: If it is something else.
    """

    def __init__(self, state: object = ()) -> None:
        # By all but the last number of a name: the last numbers of those that were received, and of these delivered.
        self._received: dict[tuple[int, ...], Ranges] = {}
        self._delivered: dict[tuple[int, ...], Ranges] = {}
        for of, numbers in _read(state):
            self._received[of] = Ranges(numbers)
            self._delivered[of] = Ranges(numbers)

    def receive(self, parts: Iterable[Sequence[int]]) -> None:
        """Note results that nobody is to make again."""
        for *of, number in parts:
            self._received.setdefault(tuple(of), Ranges()).add(number, number + 1)

    def deliver(self, parts: Iterable[Sequence[int]]) -> None:
        """Note results that the consumer has."""
        for *of, number in parts:
            self._delivered.setdefault(tuple(of), Ranges()).add(number, number + 1)

    def forget(self, ranges: Sequence[Range]) -> None:
        """Note that items are delivered as a whole."""
        for known in (self._delivered, self._received):
            if known:
                for start, stop in ranges:
                    for of in [of for of in known if start <= of[0] < stop]:
                        del known[of]

    def received_of(self, start: int, stop: int) -> list[tuple[int, ...]]:
        """Return the received results of items from one position to before another."""
        return [
            (*of, number)
            for of, numbers in self._received.items()
            if start <= of[0] < stop
            for first, last in numbers
            for number in range(first, last)
        ]

    def to_state(self) -> list[Any]:
        """Return what was delivered, as JSON can hold it."""
        return [[list(of), [list(run) for run in numbers]] for of, numbers in sorted(self._delivered.items())]


def _read(state: object) -> Iterable[tuple[tuple[int, ...], list[Range]]]:
    for entry in state if isinstance(state, (list, tuple)) else [state]:
        match entry:
            case [[_, *_] as of, [_, *_] as runs]:
                numbers = tuple(number for number in of if type(number) is int and number >= 0)
                if len(numbers) < len(of):
                    raise ValueError("the name of a result has other parts than numbers")
                yield numbers, ranges_from_state(runs)
            case _:
                raise ValueError("a result of an item has no name")

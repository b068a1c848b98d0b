"""The items of an aggregator that may keep some of them past a result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.pipeline._engine.groups import Root

__all__ = ["Kept"]


class Kept:
    """The items in hand, and which of them the aggregator has said it keeps.

    Items are told by their identity: a list that the user compares in a way of his own is still that list.
    """

    __slots__ = ("_held", "_items")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._held: list[Any] = []

    def add(self, item: Any) -> None:
        """Note an item that the aggregator is given."""
        self._items.append(item)

    def note(self, held: Iterable[Any] | None) -> None:
        """Note what the aggregator keeps past the result that it has just returned. Runs code of the user's.

        Raises:
            ValueError: If it was not given one of these objects.
        """
        self._held = [] if held is None else list(held)
        missing = Counter(map(id, self._held)) - Counter(map(id, self._items))
        if missing:
            raise ValueError(
                "The aggregator's `held_back()` returned an object that it was not given, or one twice: it must return "
                "the very objects that `accumulate` received and that no result has contained yet."
            )

    def held(self) -> list[Any]:
        """Return what the aggregator keeps past its last result."""
        return self._held

    def divide(self, roots: Sequence[Root], *, flushed: bool) -> tuple[list[Root], list[Root], list[Any]]:
        """Return the roots of the items that were passed on, of those that are kept, and what is to be dropped."""
        held = Counter(map(id, () if flushed else self._held))
        passed_on: list[Root] = []
        kept: list[Root] = []
        items: list[Any] = []
        # Where an object was given several times, the latest ones are kept.
        for root, item in zip(reversed(roots), reversed(self._items), strict=True):
            if held[id(item)] > 0:
                held[id(item)] -= 1
                kept.append(root)
                items.append(item)
            else:
                passed_on.append(root)
        dropped = [self._items, self._held]
        self._items, self._held = items[::-1], []
        return passed_on[::-1], kept[::-1], dropped

    def let_go(self) -> list[Any]:
        """Forget the items, and return them."""
        dropped = [self._items, self._held]
        self._items, self._held = [], []
        return dropped

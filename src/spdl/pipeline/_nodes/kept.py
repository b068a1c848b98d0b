"""The items of an aggregator that may keep some of them past a result."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.pipeline._engine.groups import Form, Root

__all__ = ["Kept"]

# Items are looked for no further in.
_DEEPEST = 4


class Kept:
    """The items in hand, and which of them the aggregator has said it keeps.

    Items are told by their identity: a list that the user compares in a way of his own is still that list.

    Attributes:
        form: How the last result is made of the very items that left with it; None if it is not seen to be.
    """

    __slots__ = ("_counted_from", "_ends", "_held", "_holds", "_items", "_last", "_leaves", "_resumed", "form")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._held: list[Any] = []
        self.form: Form | None = None
        # The items in the last result, in its order.
        self._leaves: list[Any] = []
        # Whether a result of this epoch has left items behind. Then their number and order decide what comes next.
        self._holds = False
        # The number of the first epoch, and how many have ended.
        self._counted_from = self._ends = 0
        # The last epoch in which it had kept items past a result, here and in an earlier run.
        self._last: int | None = None
        self._resumed: int | None = None

    def begin(self, epoch: int) -> None:
        """Note the number of the first epoch."""
        self._counted_from = epoch

    def resume(self, last: int | None) -> None:
        """Note the last epoch in which an earlier run kept items past a result, if it did."""
        self._last = self._resumed = last

    def last_epoch(self) -> int | None:
        """Return the last epoch in which it kept items past a result."""
        return self._last

    def add(self, item: Any) -> None:
        """Note an item that the aggregator is given."""
        self._items.append(item)

    def note(self, result: Any, held: Iterable[Any] | None) -> bool:
        """Note a result, and what the aggregator keeps past it. Runs code of the user's.

        Returns:
            Whether an aggregator that gets the items once more loses and repeats none: it has kept nothing in this
            epoch, or the result is made of exactly the items that it no longer keeps.

        Raises:
            ValueError: If it was not given one of the objects that it says it keeps.
        """
        self._held = [] if held is None else list(held)
        missing = Counter(map(id, self._held)) - Counter(map(id, self._items))
        if missing:
            raise ValueError(
                "The aggregator's `held_back()` returned an object that it was not given, or one twice: it must return "
                "the very objects that `accumulate` received and that no result has contained yet."
            )
        self._look_at(result)
        self._holds = self._holds or bool(self._held)
        return self.form is not None or not self._holds

    def note_flushed(self, result: Any) -> bool:
        """Note what the aggregator has flushed. Return as `note` does."""
        self._held = []
        self._look_at(result)
        return self.form is not None or not (self._items and (self._holds or self.is_resumed()))

    def is_resumed(self) -> bool:
        """Return whether an earlier run had kept items past a result of this epoch."""
        return self._resumed is not None and self._counted_from + self._ends <= self._resumed

    def _look_at(self, result: Any) -> None:
        """Note whether a result is made of exactly the items that have left with it."""
        passed = Counter(map(id, self._items)) - Counter(map(id, self._held))
        leaves: list[Any] = []
        whole = _gather(result, passed, leaves) and Counter(map(id, leaves)) == passed
        self._leaves = leaves if whole else []
        self.form = _form_of(result, passed) if whole else None

    def held(self) -> list[Any]:
        """Return what the aggregator keeps past its last result."""
        return self._held

    def divide(self, roots: Sequence[Root], *, flushed: bool) -> tuple[list[Root], list[Root], list[Any]]:
        """Return the roots of the items that were passed on, of those that are kept, and what is to be dropped.

        The former are in the order of the result, if that is made of the items.
        """
        held = Counter(map(id, () if flushed else self._held))
        if held:
            self._last = self._counted_from + self._ends
        passed_on: dict[int, list[Root]] = defaultdict(list)
        kept: list[Root] = []
        items: list[Any] = []
        # Where an object was given several times, the latest ones are kept.
        for root, item in zip(reversed(roots), reversed(self._items), strict=True):
            if held[id(item)] > 0:
                held[id(item)] -= 1
                kept.append(root)
                items.append(item)
            else:
                passed_on[id(item)].append(root)
        order = self._leaves or self._items
        passed = [passed_on[id(item)].pop() for item in order if passed_on[id(item)]]
        dropped = [self._items, self._held, self._leaves]
        self._items, self._held, self._leaves = items[::-1], [], []
        return passed, kept[::-1], dropped

    def end_epoch(self) -> list[Any]:
        """Forget the items at the end of an epoch, and return them."""
        self._ends += 1
        self._holds = False
        return self.let_go()

    def let_go(self) -> list[Any]:
        """Forget the items, and return them."""
        dropped = [self._items, self._held, self._leaves]
        self._items, self._held, self._leaves = [], [], []
        return dropped


def _gather(value: Any, items: Counter[int], leaves: list[Any], depth: int = 0) -> bool:
    """Add the items that a result contains, in order. Return whether there is nothing else in it."""
    if id(value) in items:
        leaves.append(value)
        return True
    if depth > _DEEPEST or type(value) not in (list, tuple, dict):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return all(_gather(part, items, leaves, depth + 1) for part in parts)


def _form_of(result: Any, items: Counter[int]) -> Form:
    if id(result) in items:
        return "item"
    return "list" if type(result) is list and all(id(part) in items for part in result) else "nest"

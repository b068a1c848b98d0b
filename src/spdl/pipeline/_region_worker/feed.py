"""The source of a worker's pipeline: the items that were sent to the worker."""

from __future__ import annotations

from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Feed"]


class Feed:
    """An iterable without an end. Each iteration ends with an epoch.

    Attributes:
        taken: How many items the stages have taken.
    """

    def __init__(self) -> None:
        self.taken = 0
        # Batches of numbers and items; None is the end of an epoch.
        self._arrived: SimpleQueue[list[tuple[int, Any]] | None] = SimpleQueue()
        self._waiting: deque[tuple[int, Any]] = deque()
        # The numbers of the items under way, by their positions here. They differ if an item could not be unpickled.
        self._numbers: dict[int, int] = {}
        self._tell_at = 1
        self._told = 0
        self._wake: Callable[[], None] | None = None

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Have somebody woken when it is to be told how many items were taken."""
        self._wake = wake

    def put(self, batch: list[tuple[int, Any]], tell_at: int) -> None:
        """Add items with their numbers."""
        self._tell_at = tell_at
        self._arrived.put(batch)

    def end_epoch(self) -> None:
        """End the epoch behind what was added."""
        self._arrived.put(None)

    def number_of(self, position: int) -> int:
        """Return the number of the item at a position."""
        return self._numbers[position]

    def forget(self, position: int) -> int:
        """Return the number of an item of which nothing is left."""
        return self._numbers.pop(position)

    def is_to_be_told(self) -> bool:
        """Return whether so many items were taken that more should be sent."""
        return self.taken - self._told >= self._tell_at

    def tell(self) -> int:
        """Return how many more items were taken since the last call."""
        told, self._told = self._told, self.taken
        return self._told - told

    def __iter__(self) -> Iterator[Any]:
        return _Epoch(self)

    def take(self) -> Any:
        """Return the next item.

        Raises:
            StopIteration: At the end of an epoch.
        """
        while not self._waiting:
            batch = self._arrived.get()
            if batch is None:
                raise StopIteration
            self._waiting.extend(batch)
        number, item = self._waiting.popleft()
        self._numbers[self.taken] = number
        self.taken += 1
        if self._wake is not None and self.is_to_be_told():
            self._wake()
        return item


class _Epoch:
    """An iterator that is not the iterable itself, or an epoch without items would look like an exhausted source."""

    def __init__(self, feed: Feed) -> None:
        self._take = feed.take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._take()

"""The source of a worker's pipeline: the items that were sent to the worker."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.one_pass import OnePass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spdl.pipeline._declare.item_context import ItemContext

__all__ = ["Feed"]


class Feed:
    """An iterable without an end. Each iteration ends with an epoch.

    The thread that pulls it receives what was sent: one more thread between would have to be woken for each batch.

    Attributes:
        taken: How many items the stages have taken.
    """

    def __init__(self) -> None:
        self.taken = 0
        # Numbers and items.
        self._waiting: deque[tuple[int, Any]] = deque()
        # Where items come from, by their numbers, if an op asks for it.
        self._contexts: dict[int, ItemContext] = {}
        # The numbers of the items under way, by their positions here. They differ if an item could not be unpickled.
        self._numbers: dict[int, int] = {}
        self._tell_at = 1
        self._told = 0
        # Items that were sent and could not be unpickled.
        self._skipped = 0
        self._receive: Callable[[], bool] | None = None
        self._wake: Callable[[], None] | None = None

    def receive_by(self, receive: Callable[[], bool]) -> None:
        """Have somebody wait for more and `put` it, who returns False at the end of an epoch."""
        self._receive = receive

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Have somebody woken when it is to be told how many items were taken."""
        self._wake = wake

    def put(self, batch: list[tuple[int, Any]], tell_at: int) -> None:
        """Add items with their numbers."""
        self._tell_at = tell_at
        self._waiting.extend(batch)

    def skip(self) -> None:
        """Note that an item was sent that nobody will take."""
        self._skipped += 1

    def number_of(self, position: int) -> int:
        """Return the number of the item at a position."""
        return self._numbers[position]

    def forget(self, position: int) -> int:
        """Return the number of an item of which nothing is left."""
        number = self._numbers.pop(position)
        if self._contexts:
            self._contexts.pop(number, None)
        return number

    def note_contexts(self, contexts: Mapping[int, ItemContext]) -> None:
        """Note where items come from that will be put, by their numbers."""
        self._contexts.update(contexts)

    def context_of(self, position: int) -> ItemContext:
        """Return where the item at a position comes from."""
        return self._contexts[self._numbers[position]]

    def has_more(self) -> bool:
        """Return whether more small items follow at once."""
        return bool(self._waiting) and self._tell_at > 1

    def is_to_be_told(self) -> bool:
        """Return whether so many items were taken that more should be sent."""
        return self.taken + self._skipped - self._told >= self._tell_at

    def tell(self) -> int:
        """Return how many more items than at the last call are not waiting to be taken any more."""
        told, self._told = self._told, self.taken + self._skipped
        return self._told - told

    def __iter__(self) -> Iterator[Any]:
        return OnePass(self.take)

    def take(self) -> Any:
        """Return the next item.

        Raises:
            StopIteration: At the end of an epoch.
        """
        while not self._waiting:
            assert self._receive is not None
            if self._wake is not None:
                # What was made of them is complete, as far as this thread carries items on.
                self._wake()
            if not self._receive():
                raise StopIteration
        number, item = self._waiting.popleft()
        self._numbers[self.taken] = number
        self.taken += 1
        if self._wake is not None and self.is_to_be_told():
            self._wake()
        return item

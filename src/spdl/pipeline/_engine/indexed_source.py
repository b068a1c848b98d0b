"""Sources whose items in flight are remembered if they are indices: for ops that ask for the contexts of items."""

from __future__ import annotations

from typing import Any

from .async_source import AsyncSource
from .source import Source

__all__ = ["IndexedAsyncSource", "IndexedSource", "Placed", "PlacedSource"]

# So many indices are kept before those are looked for whose items are gone.
_FEW = 1_000


class IndexedSource(Source):
    """A source that keeps the items in flight that are ints, by their roots."""

    __slots__ = ("_indices", "_most")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._indices: dict[int, int] = {}
        self._most = _FEW

    def pull(self, hand: list[Any]) -> int | None:
        root = super().pull(hand)
        if root is not None:
            self._note(root, hand[0])
        return root

    def put(self, root: int, value: Any) -> None:
        if self.on_loop:
            self._note(root, value)
        super().put(root, value)

    def _note(self, root: int, item: Any) -> None:
        if type(item) is not int:
            return
        self._indices[root] = item
        if len(self._indices) >= self._most:
            is_out = self.engine.lineage.is_out
            self._indices = {each: index for each, index in self._indices.items() if is_out(each)}
            self._most = 2 * len(self._indices) + _FEW

    def index_of(self, root: int, place: int) -> int:
        return self._indices.get(root, place)


class IndexedAsyncSource(IndexedSource, AsyncSource):
    """The same for a source that the event loop's thread pulls."""

    __slots__ = ()


class Placed:
    """An iterable whose items come from another source, and which knows from where."""

    def place_of(self, position: int) -> tuple[int, int]:
        """Return the epoch of the item at a position here, which is in flight, and its place in that pass there."""
        raise NotImplementedError


class PlacedSource(IndexedSource):
    """The same for what knows where its items come from: `ItemContext` tells of that place."""

    __slots__ = ()

    def locate(self, position: int) -> tuple[int, int]:
        placed: Placed = self.iterable
        return placed.place_of(position)

"""The source at run time: an iterator, and the token that says who may pull it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from ._lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable

    from ._engine import Engine
    from ._node import Node

__all__ = ["SOURCE", "Source"]

SOURCE = "src"


class Source:
    """The iterator that feeds the first stage.

    Whoever holds the token (``pulling``) pulls one item without the lock. ``iter()`` and ``next()`` calls are thus
    serialised, but may come from different threads.
    """

    __slots__ = (
        "busy_seconds",
        "ended",
        "ended_at",
        "engine",
        "exhausted",
        "first",
        "iterable",
        "iterator",
        "lineage",
        "on_loop",
        "pulling",
        "pulling_since",
        "wants_room",
    )

    def __init__(self, engine: Engine, iterable: Iterable[Any] | AsyncIterable[Any], first: Node | None) -> None:
        self.engine = engine
        self.iterable = iterable
        self.iterator: Any = None
        self.first = first
        self.lineage = Lineage()
        self.on_loop = hasattr(iterable, "__aiter__")
        self.pulling = False
        self.pulling_since = 0.0
        # No more pulls: it ran out, it failed, or the pipeline does not want more.
        self.ended = False
        self.ended_at = 0.0
        # It ran out or failed by itself, so there is nothing to close.
        self.exhausted = False
        self.busy_seconds = 0.0
        # Served by the event loop, and it found no room: whoever makes room tells the loop.
        self.wants_room = False

    def pullable(self) -> bool:
        """Whether a worker may take the token now."""
        return not (self.pulling or self.ended or self.on_loop) and self.has_place()

    def has_place(self) -> bool:
        """Whether there is a place for one more item."""
        if self.first is not None:
            return self.first.has_place()
        sink = self.engine.sink
        if len(sink.entries) < sink.size:
            return True
        sink.full = True
        return len(sink.entries) < sink.size

    def next(self) -> Any:
        """Pull one item. Called by the token's holder without the lock.

        Raises:
            StopIteration: At the end.
        """
        if self.iterator is None:
            self.iterator = iter(self.iterable)  # type: ignore[arg-type]
        return next(self.iterator)

    def admit(self, value: Any) -> None:
        """Put an item in front of the first stage. Called with the lock held."""
        entry = (self.lineage.admit(), value)
        engine = self.engine
        if self.first is None:
            engine.sink.put(entry)
        else:
            engine.enqueue(self.first, entry)

    def end(self) -> None:
        """Pull no more. Called with the lock held."""
        if not self.ended:
            self.ended = True
            self.ended_at = perf_counter()

    def close(self) -> None:
        """Close the iterator after an early end. Called by the token's holder without the lock."""
        iterator, self.iterator = self.iterator, None
        if not self.exhausted and iterator is not None and hasattr(iterator, "close"):
            iterator.close()

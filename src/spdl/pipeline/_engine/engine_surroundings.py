"""What the budget of bytes asks of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["EngineSurroundings"]


class EngineSurroundings:
    """Answers for an engine; see `Surroundings`. All of it is called with the lock held."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def is_failing(self) -> bool:
        """Return whether a stage has failed, so that nothing more is pulled and what is left passes."""
        return bool(self._engine.failures)

    def leave_word_at_sink(self) -> bool:
        """Have the consumer tell when it takes an item. Return whether there is none for it to take."""
        self._engine.sink.set_full(full=True)
        return not self._engine.sink.entries

    def nothing_else_goes_on(self, maker: object) -> bool:
        """Return whether nobody but this source or stage has anything to do."""
        if any(node.in_ops() for node in self._engine.nodes):
            return False
        if maker not in self._engine.sources:
            return True
        if any(source.pulling for source in self._engine.sources):
            return False
        # Where no more ops may run, a worker that is between two of them goes on.
        full = self._engine.workers.permits <= 0
        if self._engine.waiting and (full or self._engine.select() is not None):
            return False
        return not any(node.goes_on_elsewhere() for node in self._engine.nodes)

    def bytes_freed(self) -> None:
        """Have everybody look who may have found no bytes left."""
        if self._engine.event_loop is not None:
            self._engine.event_loop.wake()
        for source in self._engine.sources:
            self._engine.made_room(source)

    def note_excess(self, held: int, limit: int) -> None:
        """Tell the user, once, that one item alone takes more than all may."""
        self._engine.reporter.warn(
            f"The items in the pipeline keep {held:,} bytes, more than the {limit:,} that `max_bytes` allows: one "
            "result was larger than those before it, or one item, with what is gathered for it, does not fit alone."
        )

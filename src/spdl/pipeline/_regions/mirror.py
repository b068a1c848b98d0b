"""A stage that runs in the workers of a region, as statistics, limits and failures see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._failures.tally import Tally
from spdl.pipeline._metrics.extract import MirroredCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._declare.policy import OnFailure
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source
    from spdl.pipeline._metrics.extract import Extract

__all__ = ["MirrorNode"]


class MirrorNode(Node):
    """Runs nothing: its counters are the sums of what the workers tell.

    Args:
        engine: The engine.
        pattern: A node of the stage as it would run here.
        place: Its place among the region's stages.
        workers: How many workers there are.
    """

    counters: MirroredCounters

    __slots__ = ("_keeps_order", "_limit", "adjustable", "has_tasks", "place", "policy", "processes")

    def __init__(self, engine: Engine, pattern: Node, place: int, workers: int) -> None:
        super().__init__(engine, pattern.name, pattern.op, pattern.concurrency * workers)
        self.counters = MirroredCounters()
        self.identify(pattern.info)
        self.order = pattern.order
        self.adjustable = pattern.adjustable
        self.has_tasks = pattern.has_tasks
        self.place = place
        self.processes = workers
        self.policy = getattr(pattern, "policy", None)
        self._keeps_order = pattern.keeps_order()
        # Tells the workers of a new concurrency.
        self._limit: Callable[[int, int], None] | None = None
        if pattern.tally is not None:
            own = self.policy is not None and self.policy.max_failures is not None
            self.tally = Tally(pattern.tally.limit) if own else engine.failures.tally
            self.tally.add(self.counters)

    def connect(self, feeders: list[Node | Source], limit: Callable[[int, int], None]) -> None:
        """Note what its items come from, and what tells the workers how many the stage may work on at once."""
        self.feeders = feeders
        self._limit = limit

    def on_failure(self) -> OnFailure | None:
        """Return who is told of each failed item."""
        return None if self.policy is None else self.policy.on_failure

    def keeps_order(self) -> bool:
        return self._keeps_order

    def for_workers(self) -> Node | None:
        return None

    def ready(self) -> bool:
        return False

    def drained(self) -> bool:
        return True

    def set_concurrency(self, concurrency: int) -> None:
        each = -(-concurrency // self.processes)
        self.concurrency = each * self.processes
        if each > 1:
            self.may_overtake()
        if self._limit is not None:
            self._limit(self.place, each)

    def note_failed(self) -> None:
        """Count an item that a worker has given up."""
        self.counters.failed += 1

    def add(self, told: Extract, before: Extract | None) -> None:
        """Count what a worker has told."""
        self.counters.add(told, before)

    def let_go(self) -> list[Any]:
        policy, self.policy = self.policy, None
        return [*super().let_go(), policy]

"""A stage that runs in the workers of a region, as statistics, limits and failures see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._failures.tally import Tally
from spdl.pipeline._metrics.extract import MirroredCounters

if TYPE_CHECKING:
    from spdl.pipeline._declare.policy import OnFailure
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.source import Source
    from spdl.pipeline._metrics.extract import Extract

    from .region_node import RegionNode

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

    __slots__ = ("_keeps_order", "adjustable", "has_tasks", "place", "policy", "region", "workers")

    def __init__(self, engine: Engine, pattern: Node, place: int, workers: int) -> None:
        super().__init__(engine, pattern.name, pattern.op, pattern.concurrency * workers)
        self.counters = MirroredCounters()
        self.identify(pattern.info)
        self.order = pattern.order
        self.adjustable = pattern.adjustable  # type: ignore[misc] - of the class elsewhere.
        self.has_tasks = pattern.has_tasks  # type: ignore[misc]
        self.place = place
        self.workers = workers
        self.policy = getattr(pattern, "policy", None)
        self._keeps_order = pattern.keeps_order()
        self.region: RegionNode | None = None
        if pattern.tally is not None:
            own = self.policy is not None and self.policy.max_failures is not None
            self.tally = Tally(pattern.tally.limit) if own else engine.failures.tally
            self.tally.add(self.counters)

    def belongs_to(self, region: RegionNode, feeders: list[Node | Source]) -> None:
        """Note the region that it is a part of, and what its items come from."""
        self.region = region
        self.feeders = feeders

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
        each = -(-concurrency // self.workers)
        self.concurrency = each * self.workers
        if each > 1:
            self.may_overtake()
        if self.region is not None:
            self.region.limit(self.place, each)

    def note_failed(self) -> None:
        """Count an item that a worker has given up."""
        self.counters.failed += 1

    def add(self, told: Extract, before: Extract | None) -> None:
        """Count what a worker has told."""
        self.counters.add(told, before)

    def let_go(self) -> list[Any]:
        policy, self.policy = self.policy, None
        return [*super().let_go(), policy]

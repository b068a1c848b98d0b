"""A stage that runs in the workers of a region, as statistics, limits and failures see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from spdl.pipeline._engine.node import Node
from spdl.pipeline._failures.tally import Tally
from spdl.pipeline._metrics.extract import MirroredCounters

if TYPE_CHECKING:
    from spdl.pipeline._declare.policy import OnFailure
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.order import Order
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

    __slots__ = (
        "_in_use",
        "_inexact",
        "_keeps_order",
        "_region",
        "adjustable",
        "copies",
        "has_tasks",
        "on_threads_of_copies",
        "place",
        "policy",
    )

    def __init__(self, engine: Engine, pattern: Node, place: int, workers: int) -> None:
        super().__init__(engine, pattern.name, pattern.op, pattern.concurrency * workers)
        # The product of a number that nobody chose is a number as any other.
        self.left_open = pattern.left_open
        self.overtaking = pattern.overtaking
        self.counters = MirroredCounters()
        self.identify(pattern.info)
        self.order = pattern.order
        self.adjustable = pattern.adjustable
        self.has_tasks = pattern.has_tasks
        self.place = place
        self.copies = workers
        served = pattern.for_workers()
        self.on_threads_of_copies = served is not None and served.on_workers
        self.policy = getattr(pattern, "policy", None)
        self._keeps_order = pattern.keeps_order()
        self._inexact = pattern.inexact_elsewhere()
        # How many slots are in use, as the workers have told.
        self._in_use = 0
        self._region: Surroundings | None = None
        if pattern.tally is not None:
            own = self.policy is not None and self.policy.max_failures is not None
            self.tally = Tally(pattern.tally.limit) if own else engine.failures.tally
            self.tally.add(self.counters)

    def connect(self, feeders: list[Node | Source], region: Surroundings) -> None:
        """Note what its items come from, and its region."""
        self.feeders = feeders
        self._region = region

    def on_failure(self) -> OnFailure | None:
        """Return who is told of each failed item."""
        return None if self.policy is None else self.policy.on_failure

    def keeps_order(self) -> bool:
        if self._region is not None and self._region.order is not None:
            # What overtakes in here waits at the region's end.
            return self._keeps_order
        return self._keeps_order and super().keeps_order()

    def inexact(self) -> str | None:
        # What its counters say comes late.
        lineage = self.engine.lineage
        return self._inexact if any(map(lineage.next_position, range(lineage.sources))) else None

    def for_workers(self) -> Node | None:
        return None

    def ready(self) -> bool:
        return False

    def drained(self) -> bool:
        return True

    def set_concurrency(self, concurrency: int) -> None:
        each = -(-concurrency // self.copies)
        self.concurrency = each * self.copies
        if each > 1:
            self.may_overtake()
        if self._region is not None:
            self._region.limit(self.place, each)

    def num_processes(self) -> int:
        return 0 if self._region is None else self._region.num_processes()

    def num_copies(self) -> int:
        return self.copies

    def slots_in_use(self) -> int:
        return self._in_use

    def note_failed(self) -> None:
        """Count an item that a worker has given up."""
        self.counters.failed += 1

    def add(self, told: Extract, before: Extract | None) -> None:
        """Count what a worker has told."""
        self.counters.add(told, before)
        self._in_use += told.running - (0 if before is None else before.running)

    def is_outdated(self, told: Extract) -> bool:
        """Return whether a worker uses all slots that it knows of, and has yet to learn of another number."""
        return told.running >= told.slots != self.concurrency // self.copies

    def forget(self, told: Extract) -> None:
        """Forget what a worker works on that is gone."""
        self._in_use -= told.running

    def let_go(self) -> list[Any]:
        policy, self.policy = self.policy, None
        return [*super().let_go(), policy]


class Surroundings(Protocol):
    """What a stage wants of its region."""

    @property
    def order(self) -> Order | None: ...

    def num_processes(self) -> int: ...

    def limit(self, place: int, concurrency: int) -> None:
        """Tell the workers how many items the stage at a place may work on at once in each of them."""

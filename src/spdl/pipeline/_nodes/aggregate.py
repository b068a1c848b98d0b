"""Stages that gather items: what they have in common, and the built-in batcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._metrics.counters import STARVED
from spdl.pipeline._world import perf_counter

from .regrouping import Regrouping

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.groups import Gathering, Group, Root
    from spdl.pipeline._engine.records import Record, Restored

    from .regrouping import Regrouped

__all__ = ["CollateNode", "GatheringNode"]


class GatheringNode(Node):
    """The common part of both kinds: items in hand, and a flush once the input has ended."""

    __slots__ = ("drop_last", "flush_due", "flushed", "gathering", "roots")

    def __init__(self, engine: Engine, name: str, op: Any, *, drop_last: bool) -> None:
        super().__init__(engine, name, op, concurrency=1)
        self.drop_last = drop_last
        self.flush_due = False
        # With drop_last, too: what is left is dropped then, and an aggregator, which may serve another pipeline, starts
        # that one afresh.
        self.flushed = False
        # Where the items in hand came from, and the list that the roots of new ones are appended to.
        self.gathering = self._begin_gathering()
        self.roots: list[Root] = self.gathering.parents

    def drained(self) -> bool:
        return super().drained() and not self.flush_due

    def end_input(self) -> bool:
        if self.flushed:
            self._release_roots()
            return True
        self.flush_due = True
        self.engine.add_turns()
        return False

    def _begin_flush(self) -> None:
        self.flush_due = False
        self.flushed = True
        self.engine.remove_turns()

    def _release_roots(self) -> None:
        gathering = self._take_gathering()
        if not (self.engine.failures or self.engine.stopping):
            # Else the input has not come to its end: a resumed run gathers these items again.
            self.engine.lineage.drop(gathering)

    def _take_gathering(self) -> Group:
        gathering, self.gathering = self.gathering, self._begin_gathering()
        self.roots = self.gathering.parents
        return gathering

    def _begin_gathering(self, record: Record | None = None) -> Gathering:
        return self.engine.lineage.begin_gathering(record)

    def _emit(self, value: Any) -> None:
        self.counters.emitted += 1
        gathering = self._take_gathering()
        if self.engine.budget is not None:
            self.engine.budget.move(gathering.parents, gathering)
            if self.makes_items:
                self.engine.budget.note(self.output, gathering, value)
        self.engine.emit(self, (gathering, value))


class CollateNode(GatheringNode):
    """Gathers lists of ``n`` items. No code of the user's is involved, so it works under the lock."""

    on_workers = False

    __slots__ = ("batch", "n", "offers", "regrouping")

    def __init__(self, engine: Engine, name: str, n: int, *, drop_last: bool) -> None:
        super().__init__(engine, name, None, drop_last=drop_last)
        self.n = n
        self.batch: list[Any] = []
        self.offers = True
        # The batches of an earlier run that have to be made again as they were.
        self.regrouping: Regrouping | None = None

    def regroup(self, restored: Restored) -> None:
        self.regrouping = Regrouping(restored)
        self.offers = False

    def ready(self) -> bool:
        if self.cancelled or not (self.queue or self.flush_due):
            return False
        if self.flush_due:
            # Dropped items need no place, and a pipeline that nobody reads any more must end.
            return self.drop_last or self.has_room(0)
        passes_on = self.queue[0] is MARK or len(self.batch) + 1 == self.n or self.regrouping is not None
        return not passes_on or self.has_room(0)

    def offer(self, root: Root, value: Any) -> bool:
        if self.cancelled or len(self.batch) + 1 == self.n:
            return False
        self.roots.append(root)
        self.batch.append(value)
        counters = self.counters
        if counters.completed >= counters.sample_at:
            counters.note_arrival()
        counters.completed += 1
        return True

    def turn(self) -> None:  # noqa: C901 - one step after the other, without a call for each item.
        # Its work takes no time, so it is short of items whenever it is not short of room.
        counters = self.counters
        if counters.waiting_for != STARVED:
            counters.wait(STARVED)
        if self.flush_due:
            self._begin_flush()
            self._end_batch()
            return
        if self.regrouping is not None:
            self._end_regrouping(self.regrouping)
        queue, batch = self.queue, self.batch
        while queue:
            if queue[0] is MARK:
                if not self.has_room(0):
                    break
                self._end_batch()
                self.pass_mark()
                batch = self.batch
                continue
            if (len(batch) + 1 == self.n or self.regrouping is not None) and not self.has_room(0):
                break
            root, value = self.dequeue()
            if self.regrouping is not None and self._regrouped(root, value):
                continue
            self.roots.append(root)
            batch.append(value)
            if counters.completed >= counters.sample_at:
                counters.note_arrival()
            counters.completed += 1
            if len(batch) == self.n:
                self._pass_on()
                batch = self.batch
        # All of them were taken at once.
        self.input.counters.took_uncounted(perf_counter(), self.input.excess(), item=False)

    def _end_regrouping(self, regrouping: Regrouping) -> None:
        if regrouping.is_over():
            self.regrouping = None
            self.offers = True

    def _regrouped(self, root: Root, value: Any) -> bool:
        """Take an item for a batch of an earlier run, and pass that on if it is complete."""
        assert self.regrouping is not None
        self.counters.completed += 1
        found = self.regrouping.take(self.engine.lineage.record_of(root), root, value)
        if found is None:
            self.counters.completed -= 1
            return False
        if found.complete():
            self._pass_on_again(found)
        return True

    def _pass_on_again(self, found: Regrouped) -> None:
        assert self.regrouping is not None
        gathering = self._begin_gathering(found.batch.record)
        gathering.parents.extend(found.roots())
        self.counters.emitted += 1
        if self.engine.budget is not None:
            self.engine.budget.move(gathering.parents, gathering)
        self.engine.emit(self, (gathering, found.values()))
        self.regrouping.end(found)

    def _end_batch(self) -> None:
        if self.regrouping is not None:
            # Not all members came, since an op has dropped one this time.
            for found in self.regrouping.begun():
                self._pass_on_again(found)
        if self.drop_last:
            self.engine.drops.extend(self.batch)
            self.batch = []
            self._release_roots()
        elif self.batch:
            self._pass_on()

    def _pass_on(self) -> None:
        batch, self.batch = self.batch, []
        self._emit(batch)

    def discard(self) -> list[Any]:
        batch, self.batch = self.batch, []
        if self.regrouping is not None:
            batch += [value for found in self.regrouping.begun() for value in found.values()]
        return [*super().discard(), *batch]

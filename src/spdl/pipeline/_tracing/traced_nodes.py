"""Stages that are traced: what differs from stages that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from spdl.pipeline._engine.groups import Results
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.sentinel import MARK
from spdl.pipeline._nodes.aggregate import CollateNode, GatheringNode
from spdl.pipeline._nodes.aggregator_node import AggregateNode
from spdl.pipeline._nodes.asynchronous import AsyncNode
from spdl.pipeline._nodes.op_node import OpNode
from spdl.pipeline._world import perf_counter

from .origins import origins
from .traced_op import TracedOp, untraced_op

if TYPE_CHECKING:
    from spdl.pipeline._engine.attempt import Attempt
    from spdl.pipeline._engine.channel import Entry
    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.order import Ticket
    from spdl.pipeline._nodes.aggregator_node import Call
    from spdl.pipeline._nodes.op_node import Parked

    from .recorder import Lanes, Track
    from .tracer import Tracer

__all__ = ["traced_kind"]


class _Traced(Node):
    """A stage whose queue is counted. Each is of a class of its own, which holds what would be fields of others.

    The stage stops being of that class whenever tracing ends, which happens with the engine's lock held.
    """

    __slots__ = ()

    tracer: ClassVar[Tracer]
    queue_name: ClassVar[str]
    untraced: ClassVar[type[Node]]
    was_plain: ClassVar[bool]

    def begin_tracing(self) -> None:
        """Take items one by one, where each can be noted. Called with the engine's lock held."""
        # Workers take the items of plain nodes without asking.
        type(self).was_plain = self.plain
        self.plain = False

    def end_tracing(self) -> None:
        """Undo that, if nothing has happened meanwhile for which it would have been done anyhow."""
        self.plain = self.was_plain and not self.cancelled

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        self.tracer.recorder.count(self.queue_name, perf_counter(), len(self.queue))
        return entry


class _TracedFunction(_Traced, OpNode):
    """A stage whose op runs on the thread that takes the item."""

    __slots__ = ()

    def begin_tracing(self) -> None:
        super().begin_tracing()
        self.op = TracedOp(self.tracer, self.name, self.op, awaits=False)

    def end_tracing(self) -> None:
        super().end_tracing()
        self.op = untraced_op(self.op)

    def await_results(self, attempt: Attempt, value: Any) -> None:
        # From now on it is not plain, traced or not.
        type(self).was_plain = False
        super().await_results(attempt, value)

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is not MARK:
            self.tracer.thread().took(origins(entry[0]))
        return entry

    def attempt(self, attempt: Attempt) -> None:
        # One that is tried again was taken by another thread, or before other items.
        self.tracer.thread().took(origins(attempt.root))
        super().attempt(attempt)

    def advance(self, parked: Parked) -> None:
        # Meanwhile the lock is released, and tracing may end.
        tracer = self.tracer
        track = tracer.thread()
        tracer.begin(track, self.name, origins(parked.root))
        try:
            super().advance(parked)
        finally:
            tracer.end(track)


class _TracedAsync(_Traced, AsyncNode):
    """A stage whose op the event loop calls right after it has taken the item."""

    __slots__ = ()

    def begin_tracing(self) -> None:
        super().begin_tracing()
        self.op = TracedOp(self.tracer, self.name, self.op, awaits=True)

    def end_tracing(self) -> None:
        super().end_tracing()
        self.op = untraced_op(self.op)

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is not MARK:
            self.tracer.thread().took(origins(entry[0]))
        return entry

    async def _serve_one(self, hand: list[Any]) -> None:
        # It is called without the lock, so tracing may have ended since it was looked up, or end now.
        kind: Any = type(self)
        if issubclass(kind, _TracedAsync):
            kind.tracer.thread().took(origins(hand[0].root))
            kind = kind.untraced
        await kind._serve_one(self, hand)  # noqa: SLF001 - what it is besides, or was before.


class _TracedElsewhere(_Traced, OpNode):
    """A stage whose op runs where nobody sees it: a slice is from taking an item to having its result.

    Of an item that is tried again, only the first attempt is seen.
    """

    __slots__ = ()

    lanes: ClassVar[Lanes]
    # What is under way, by the root of its item.
    under_way_on: ClassVar[dict[Root, tuple[int, Track]]]

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is not MARK:
            lane, track = self.lanes.take()
            self.under_way_on[entry[0]] = lane, track
            self.tracer.begin(track, self.name, origins(entry[0]))
        return entry

    def _came_back(self, root: Root, error: BaseException | None = None) -> None:
        found = self.under_way_on.pop(root.parents[0] if isinstance(root, Results) else root, None)
        if found is not None:
            lane, track = found
            self.tracer.end(track, error)
            self.lanes.give_back(lane)

    def deliver(self, root: Root, ticket: Ticket | None, value: Any) -> None:
        self._came_back(root)
        super().deliver(root, ticket, value)

    def await_results(self, attempt: Attempt, value: Any) -> None:
        self._came_back(attempt.root)
        super().await_results(attempt, value)

    def end(self, root: Root, ticket: Ticket | None) -> None:
        self._came_back(root)
        super().end(root, ticket)

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        self._came_back(attempt.root, error)
        super().fail(attempt, error)

    def advance(self, parked: Parked) -> None:
        # Meanwhile the lock is released, and tracing may end.
        tracer = self.tracer
        track = tracer.thread()
        tracer.begin(track, self.name, origins(parked.root))
        try:
            super().advance(parked)
        finally:
            tracer.end(track)


class _TracedGathering(_Traced, GatheringNode):
    """A stage that gathers: each batch is an instant at which the flows of its items come together."""

    __slots__ = ()

    def _emit(self, value: Any) -> None:
        self.tracer.instant(self.name, origins(self.gathering))
        super()._emit(value)


class _TracedAggregate(_TracedGathering, AggregateNode):
    """One that calls the user's aggregator."""

    __slots__ = ()

    def _make(self, call: Call) -> None:
        # It is called without the lock, and tracing may end meanwhile.
        tracer, name = self.tracer, self.name
        roots = origins(self.roots[-1]) if call.accumulates and self.roots else ()

        def function(value: Any) -> Any:
            track = tracer.thread()
            tracer.begin(track, name, roots)
            try:
                result = call.function(value)
            except BaseException as error:
                tracer.end(track, error)
                raise
            tracer.end(track)
            return result

        super()._make(call._replace(function=function))


def traced_kind(node: Node, tracer: Tracer) -> type[_Traced] | None:
    """Return what a stage of this kind becomes where it is traced; None where it runs nothing and waits for nothing."""
    kind = type(node)
    fields: dict[str, Any] = {
        "__slots__": (),
        "tracer": tracer,
        "queue_name": tracer.queue_name(node.name),
        "untraced": kind,
        "was_plain": False,
    }
    mixin: type[_Traced]
    if issubclass(kind, AggregateNode):
        mixin = _TracedAggregate
    elif issubclass(kind, CollateNode):
        mixin = _TracedGathering
    elif not issubclass(kind, OpNode):
        return None
    elif kind.calls_op_itself:
        mixin = _TracedAsync if issubclass(kind, AsyncNode) else _TracedFunction
    else:
        mixin = _TracedElsewhere
        fields |= {"lanes": tracer.lanes(node.name), "under_way_on": {}}
    made: Any = type(f"Traced{kind.__name__}", (mixin, kind), fields)
    traced: type[_Traced] = made
    return traced

"""Has a pipeline note what each of its threads does when."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import AsyncGeneratorType, CoroutineType
from typing import Any, ClassVar

from spdl.pipeline._engine.channel import EPOCH_END, MARK, Entry, Sink, Ticket
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Attempt, Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._report.page_file import engines
from spdl.pipeline._report.recorder import Lanes, Recorder, Slice, ThreadTrack, Track, TrackOfThread
from spdl.pipeline._stages.aggregate import AggregateNode, AggregatorCall, CollateNode, GatheringNode
from spdl.pipeline._stages.function import AsyncNode
from spdl.pipeline._stages.op_node import OpNode, Parked
from spdl.pipeline._state.origins import Results, Root, origins
from spdl.pipeline._world import current_thread, perf_counter


class Tracer:
    """Records what the parts of one pipeline do."""

    def __init__(self, recorder: Recorder, pipeline: int) -> None:
        self.recorder = recorder
        self.pipeline = pipeline
        self._queues: dict[str, int] = {}

    def thread(self) -> ThreadTrack:
        return self.recorder.thread()

    def lanes(self, name: str) -> Lanes:
        return Lanes(self.recorder, f"{name} ({self.pipeline})")

    def queue_name(self, stage: str) -> str:
        """Return what the queue in front of a stage is called. Stages may have the same name."""
        number = self._queues[stage] = self._queues.get(stage, 0) + 1
        return f"queue of {stage}{f' {number}' if number > 1 else ''} ({self.pipeline})"

    def begin(self, track: Track, name: str, roots: tuple[int, ...]) -> float:
        now = perf_counter()
        track.begin(name, now, self.pipeline, roots)
        return now

    def end(self, track: Track, error: BaseException | None = None) -> None:
        open_ = track.open
        if open_ is None:
            return
        track.end()
        kind = None if error is None else type(error).__name__
        self.recorder.add(
            Slice(track.number, open_.name, open_.begin, perf_counter(), self.pipeline, open_.roots, kind)
        )

    def instant(self, name: str, roots: tuple[int, ...]) -> None:
        now = perf_counter()
        self.recorder.add(Slice(self.thread().number, name, now, now, self.pipeline, roots))


class TracedOp:
    """Calls an op, and records when it ran on which thread. Awaitables that it returns have their own lanes.

    The item is the one that the current thread took last: the stage notes it.
    """

    def __init__(self, tracer: Tracer, name: str, op: Callable[[Any], Any], *, awaits: bool) -> None:
        self._tracer = tracer
        self._name = name
        self._op = op
        # A call that makes a coroutine does nothing yet.
        self._awaits = awaits
        self._lanes: Lanes | None = None

    def __call__(self, item: Any) -> Any:
        track = self._tracer.thread()
        roots = track.roots
        if self._awaits:
            return self._traced(roots, self._op(item))
        self._tracer.begin(track, self._name, roots)
        try:
            value = self._op(item)
        except BaseException as error:
            self._tracer.end(track, error)
            raise
        self._tracer.end(track)
        return self._traced(roots, value)

    def _traced(self, roots: tuple[int, ...], value: Any) -> Any:
        made: Any
        if type(value) is CoroutineType:
            made = self._await(roots, value)
            # If it is not wanted, it is closed before it has begun, and so must be what it would have awaited.
            weakref.finalize(made, value.close).atexit = False
        elif type(value) is AsyncGeneratorType:
            made = self._iterate(roots, value)
        else:
            return value
        # Messages about it show its name.
        made.__qualname__ = value.__qualname__
        return made

    async def _await(self, roots: tuple[int, ...], coroutine: Awaitable[Any]) -> Any:
        with _Lane(self, roots):
            return await coroutine

    async def _iterate(self, roots: tuple[int, ...], results: AsyncGeneratorType[Any, Any]) -> AsyncIterator[Any]:
        try:
            while True:
                with _Lane(self, roots):
                    try:
                        value = await anext(results)
                    except StopAsyncIteration:
                        return
                yield value
                del value
        finally:
            await results.aclose()

    def untraced(self) -> Callable[[Any], Any]:
        return self._op

    def lanes(self) -> Lanes:
        if self._lanes is None:
            self._lanes = self._tracer.lanes(self._name)
        return self._lanes


class _Lane:
    """Records what happens in the body of a ``with`` statement, on a lane of an op."""

    __slots__ = ("_lane", "_op", "_roots", "_track")

    def __init__(self, op: TracedOp, roots: tuple[int, ...]) -> None:
        self._op = op
        self._roots = roots

    def __enter__(self) -> None:
        op = self._op
        self._lane, self._track = op.lanes().take()
        op._tracer.begin(self._track, op._name, self._roots)  # noqa: SLF001 - the two classes belong together.

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._op._tracer.end(self._track, error)  # noqa: SLF001
        self._op.lanes().give_back(self._lane)


class _TracedSource(Source):
    """A source whose pulls are recorded. Each has its own class, since the class holds the source's own values."""

    __slots__ = ()

    tracer: ClassVar[Tracer]
    untraced: ClassVar[type[Source]]
    # The row of pulls that the event loop awaits: other things happen on its thread in the meantime.
    awaited: ClassVar[Track]

    def pull(self, hand: list[Any]) -> int | None:
        # Meanwhile the lock is released, and tracing may end.
        tracer = self.tracer
        track = tracer.thread()
        begin = tracer.begin(track, self.name, ())
        root = super().pull(hand)
        track.end()
        _record(self, tracer, track, begin, root)
        return root

    def put(self, root: int, value: Any) -> None:
        if self.on_loop:
            _record(self, self.tracer, self.awaited, self.pulling_since, root)
        super().put(root, value)


def _record(source: Source, tracer: Tracer, track: Track, begin: float, root: int | None) -> None:
    roots = () if root is None else (root,)
    piece = Slice(track.number, source.name, begin, max(begin, source.pulled_at), tracer.pipeline, roots)
    tracer.recorder.add(piece)


def traced_source_kind(source: Source, tracer: Tracer) -> type[_TracedSource]:
    fields: dict[str, Any] = {"__slots__": (), "tracer": tracer, "untraced": type(source)}
    if source.on_loop:
        fields["awaited"] = tracer.recorder.add_track(f"{source.name} ({tracer.pipeline})")
    made: Any = type(f"Traced{type(source).__name__}", (_TracedSource, type(source)), fields)
    kind: type[_TracedSource] = made
    return kind


# The names of the consumer's slices: from one item to the next, and while it waits.
STEP, WAIT = "step", "wait for data"


class _Entries(deque[Any]):
    """The entries of a sink. Its readers show what they do by taking them."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer
        self._queue = tracer.queue_name("sink")
        self._of_reader = TrackOfThread[Track]()

    def popleft(self) -> Entry:
        tracer = self._tracer
        track = self._track()
        if track.open is not None and track.open.name == STEP:
            tracer.end(track)
        try:
            entry: Entry = super().popleft()
        except IndexError:
            if track.open is None:
                tracer.begin(track, WAIT, ())
            raise
        tracer.end(track)
        if entry[0] is not EPOCH_END:
            now = tracer.begin(track, STEP, origins(entry[0]))
            tracer.recorder.count(self._queue, now, len(self))
        return entry

    def copy(self) -> Any:
        """Return the entries alone: a copy of a subclass would be made by its constructor."""
        return deque(self)

    def _track(self) -> Track:
        track = self._of_reader.track
        if track is None:
            name = f"consumer of pipeline {self._tracer.pipeline} ({current_thread().name})"
            track = self._tracer.recorder.add_track(name)
            self._of_reader.keep(track)
        return track


class _TracedSink(Sink):
    """A sink with such entries.

    Consumers take without the lock, and what they have at hand are the old entries. So these are moved from the last to
    the first: the thread that takes in the meantime gets the first one that is left. Once all are gone, a consumer
    takes the lock to wait, as it does at an empty sink, and finds the new ones.
    """

    __slots__ = ()

    tracer: ClassVar[Tracer]
    untraced: ClassVar[type[Sink]] = Sink

    def begin_tracing(self) -> None:
        """Have readers take entries that note it. Called with the engine's lock held."""
        self._move_to(_Entries(self.tracer))

    def end_tracing(self) -> None:
        """Have them take entries that note nothing. Called with the engine's lock held."""
        self._move_to(deque())

    def _move_to(self, entries: deque[Any]) -> None:
        with suppress(IndexError):
            while True:
                entries.appendleft(self.entries.pop())
        self.entries = entries


class _Traced(Node):
    """A stage whose queue is counted. Each has its own class, since the class holds the stage's own values.

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
        """Undo that, if nothing has happened in the meantime for which it would have been done anyhow."""
        self.plain = self.was_plain and not self.cancelled

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        self.tracer.recorder.count(self.queue_name, perf_counter(), len(self.queue))
        return entry


class _TracedSteps(_Traced, OpNode):
    """A stage whose generators are advanced on the thread that takes a turn."""

    __slots__ = ()

    def advance(self, parked: Parked) -> None:
        # Meanwhile the lock is released, and tracing may end.
        tracer = self.tracer
        track = tracer.thread()
        tracer.begin(track, self.name, origins(parked.root))
        try:
            super().advance(parked)
        finally:
            tracer.end(track)


class _TracedCalls(_Traced, OpNode):
    """A stage whose op is called on the thread that takes the item."""

    __slots__ = ()

    awaits: ClassVar[bool] = False

    def begin_tracing(self) -> None:
        super().begin_tracing()
        self.op = TracedOp(self.tracer, self.name, self.op, awaits=self.awaits)

    def end_tracing(self) -> None:
        super().end_tracing()
        # An op that was let go of is None.
        self.op = self.op.untraced() if isinstance(self.op, TracedOp) else self.op

    def dequeue(self) -> Entry:
        entry = super().dequeue()
        if entry is not MARK:
            self.tracer.thread().took(origins(entry[0]))
        return entry


class _TracedFunction(_TracedCalls, _TracedSteps):
    """A stage whose op runs on the thread that takes the item."""

    __slots__ = ()

    def await_results(self, attempt: Attempt, value: Any) -> None:
        # From now on it is not plain, traced or not.
        type(self).was_plain = False
        super().await_results(attempt, value)

    def attempt(self, attempt: Attempt) -> None:
        # One that is tried again was taken by another thread, or before other items.
        self.tracer.thread().took(origins(attempt.root))
        super().attempt(attempt)


class _TracedAsync(_TracedCalls, AsyncNode):
    """A stage whose op the event loop calls right after it has taken the item."""

    __slots__ = ()

    awaits = True

    async def _serve_one(self, hand: list[Any]) -> None:
        # It is called without the lock, so tracing may have ended since it was looked up, or end now.
        kind: Any = type(self)
        if issubclass(kind, _TracedAsync):
            kind.tracer.thread().took(origins(hand[0].root))
            kind = kind.untraced
        await kind._serve_one(self, hand)  # noqa: SLF001 - what it is besides, or was before.


class _TracedElsewhere(_TracedSteps):
    """A stage whose op runs out of sight: a slice is from taking an item to having its result.

    If an item is tried again, only the first attempt is seen.
    """

    __slots__ = ()

    lanes: ClassVar[Lanes]
    # The calls under way, by the roots of their items.
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


class _TracedGathering(_Traced, GatheringNode):
    """A stage that gathers: each batch is an instant at which the flows of its items come together."""

    __slots__ = ()

    def _emit(self, value: Any) -> None:
        self.tracer.instant(self.name, origins(self.gathering))
        super()._emit(value)


class _TracedAggregate(_TracedGathering, AggregateNode):
    """One that calls the user's aggregator."""

    __slots__ = ()

    def _make(self, call: AggregatorCall) -> None:
        # It is called without the lock, and tracing may end in the meantime.
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
    """Return what a stage of this kind becomes when it is traced; None if it runs nothing and waits for nothing."""
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


def attach(engine: Engine, recorder: Recorder) -> bool:
    """Make a pipeline tell a recorder what it does, from now on. It may run already. Return whether it does, and runs.

    Its parts become parts of traced kinds, which have the same fields. So the engine that is not traced has no line and
    no branch for it, and pays nothing. A call in progress is not seen, as it has begun before. A pipeline that was told
    to stop tells nothing, and a closed recorder is told nothing.
    """
    with engine.lock:
        if recorder.closed or engine.stopping or engine.forked:
            return False
        if (tracer := _tracer(engine)) is not None:
            if tracer.recorder is recorder:
                return _runs(engine)
            # There is one recorder at a time, so the other one keeps nothing more.
            _detach(engine)
        _attach(engine, recorder)
        return _runs(engine)


def _runs(engine: Engine) -> bool:
    return engine.started_at > 0 and not engine.done


def attach_all(recorder: Recorder) -> int:
    """Attach a recorder to all pipelines, and return how many run. New pipelines attach it themselves."""
    return sum(attach(engine, recorder) for engine in engines())


def detach_all(recorder: Recorder) -> None:
    """Have all pipelines tell a recorder nothing more, and be what they were before. It was closed."""
    for engine in engines():
        with engine.lock:
            if (tracer := _tracer(engine)) is not None and tracer.recorder is recorder:
                _detach(engine)


def _tracer(engine: Engine) -> Tracer | None:
    return getattr(engine.sink, "tracer", None)


def _attach(engine: Engine, recorder: Recorder) -> None:
    # The recorder lives longer than a pipeline should.
    found = weakref.ref(engine)

    def ended_at() -> float | None:
        engine = found()
        if engine is None:
            return 0.0
        return engine.stopped_at or None

    recorder.add_pipeline(engine.pipeline_id, engine.lineage.sources, ended_at)
    tracer = Tracer(recorder, engine.pipeline_id)
    for source in engine.sources:
        _become(source, traced_source_kind(source, tracer))
    for node in engine.nodes:
        if node.is_stage and (kind := traced_kind(node, tracer)) is not None:
            _become(node, kind).begin_tracing()
    sink_kind = type("TracedSink", (_TracedSink,), {"__slots__": (), "tracer": tracer})
    _become(engine.sink, sink_kind).begin_tracing()
    _take_entries_at_hand(engine)


def _detach(engine: Engine) -> None:
    traced: list[Any] = [*engine.nodes, engine.sink]
    for part in traced:
        if hasattr(part, "end_tracing"):
            part.end_tracing()
            _become(part, part.untraced)
    sources: list[Any] = list(engine.sources)
    for source in sources:
        _become(source, source.untraced)
    _take_entries_at_hand(engine)


def _take_entries_at_hand(engine: Engine) -> None:
    # The part that fills the sink has its entries at hand.
    parts: list[Source | Node] = [*engine.sources, *engine.nodes]
    for part in parts:
        if part.output is engine.sink:
            part.write_to(engine.sink, None)


def _become(part: Any, kind: Any) -> Any:
    part.__class__ = kind
    return part

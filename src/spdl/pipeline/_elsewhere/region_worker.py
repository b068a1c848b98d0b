"""The program of a region's workers: a pipeline of the region's stages, and its connection to the main pipeline."""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import FailedItem, ItemContext, makes_coroutine
from spdl.pipeline._declare.records import (
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
    StageConfig,
    every_stage,
)
from spdl.pipeline._elsewhere.lane import ChannelClosed, ItemNotSent, NotReadable, PeerGone
from spdl.pipeline._elsewhere.worker_channel import ThreadEnd, WorkerEnd
from spdl.pipeline._elsewhere.worker_messages import (
    CpuLoad,
    EpochMark,
    Failure,
    Fault,
    Job,
    Name,
    NewLimits,
    RaisedHere,
    Report,
    Work,
)
from spdl.pipeline._engine.channel import EPOCH_END
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.lifetime import number_pipelines_from, set_limits, start
from spdl.pipeline._engine.node import Attempt, Node
from spdl.pipeline._graph import Instrumentation, plan
from spdl.pipeline._report.failures import Quarantine
from spdl.pipeline._report.sample import extract
from spdl.pipeline._stages.process_work import ignore_ctrl_c, pack_error
from spdl.pipeline._state.origins import Group, Root, ancestry, result_path, without_context
from spdl.pipeline._state.passes import OnePass
from spdl.pipeline._world import Lock, Thread, perf_counter

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.worker_messages import AnyRaised


class BufferedLines(logging.Handler):
    """Keeps the lines that the pipeline logs, for the process that the user watches."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[tuple[int, str]] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelno, self.format(record)))

    def take_all(self) -> BufferedLines:
        """Collect everything that is logged from now on, and show it nowhere else."""
        logger = logging.getLogger("spdl.pipeline")
        logger.addHandler(self)
        logger.propagate = False
        return self


ChannelEnd: TypeAlias = WorkerEnd | ThreadEnd


class WorkerPlace(NamedTuple):
    """A process, an interpreter, or threads of the pipeline's process.

    Attributes:
        alone: Whether there is nothing else, so that defaults and numbers of pipelines are the worker's to set.
        grace: Seconds that ops have to end in order when their results are no longer wanted. None waits for them.
        lines: The lines that the worker logs, to be logged where the pipeline is.
        wrap: Makes exceptions fit to leave the worker.
        began: Called with the engine before it starts.
    """

    alone: bool
    grace: float | None
    lines: BufferedLines
    wrap: Callable[[BaseException], AnyRaised]
    began: Callable[[Engine], object]


def name_of_result(root: Root, number_of: Callable[[int], int]) -> Name:
    """Return the name of a result. ``number_of`` returns the number of the item at a position."""
    path = result_path(root)
    if path is None:
        return numbers_of(root, number_of)
    position, *results = path
    number = number_of(position)
    return (number, *results) if results else number


def numbers_of(root: Root, number_of: Callable[[int], int]) -> list[int]:
    """Return the numbers of all items that went into a result, each once, in the order in which they were merged."""
    return list(dict.fromkeys(number_of(each) for each in ancestry(root) if not isinstance(each, Group)))


class ReceivedItems:
    """An iterable without an end. Each iteration ends with an epoch.

    The thread that pulls it receives what was sent: one more thread between would have to be woken for each batch.
    """

    def __init__(self, end: ChannelEnd) -> None:
        self._end = end
        self._outbox: RegionOutbox | None = None
        self.taken = 0
        # Numbers and items.
        self._waiting: deque[tuple[int, Any]] = deque()
        # The origins of items, by their numbers, if an op asks for it.
        self._contexts: dict[int, ItemContext] = {}
        # The numbers of the items under way, by their positions here. They differ if an item could not be unpickled.
        self._numbers: dict[int, int] = {}
        self._tell_at = 1
        self._told = 0
        # Items that were sent and could not be unpickled.
        self._skipped = 0

    def tell_by(self, outbox: RegionOutbox) -> None:
        self._outbox = outbox

    def number_of(self, position: int) -> int:
        return self._numbers[position]

    def forget(self, position: int) -> int:
        number = self._numbers.pop(position)
        if self._contexts:
            self._contexts.pop(number, None)
        return number

    def context_of(self, position: int) -> ItemContext:
        return self._contexts[self._numbers[position]]

    def has_more(self) -> bool:
        return bool(self._waiting) and self._tell_at > 1

    def is_to_be_told(self) -> bool:
        return self.taken + self._skipped - self._told >= self._tell_at

    def tell(self) -> int:
        """Return how many items were taken or given up since the last call."""
        told, self._told = self._told, self.taken + self._skipped
        return self._told - told

    def __iter__(self) -> Iterator[Any]:
        return OnePass(self.take)

    def take(self) -> Any:
        """Return the next item; StopIteration is the end of an epoch."""
        outbox = self._outbox
        assert outbox is not None
        while not self._waiting:
            # This thread has passed on all results of the items before.
            outbox.wake()
            if not self._receive(outbox):
                raise StopIteration
        number, item = self._waiting.popleft()
        self._numbers[self.taken] = number
        self.taken += 1
        if self.is_to_be_told():
            outbox.wake()
        return item

    def _receive(self, outbox: RegionOutbox) -> bool:
        """Wait for items. Return False at the end of an epoch."""
        engine = outbox.engine
        while True:
            try:
                head, *items = self._end.receive()
            except (PeerGone, ChannelClosed):
                engine.request_stop()
                return False
            if isinstance(head, Work):
                self._put(head, items, outbox)
                return True
            if isinstance(head, NewLimits):
                with engine.lock:
                    _set_limits(engine, {outbox.stages[place]: each for place, each in head.concurrency.items()})
            else:
                assert isinstance(head, EpochMark)
                outbox.expect_mark(last=head.last)
                return False

    def _put(self, work: Work, items: list[Any], outbox: RegionOutbox) -> None:
        if work.contexts is not None:
            self._contexts.update(zip(work.numbers, work.contexts, strict=True))
        batch = []
        for number, item in zip(work.numbers, items, strict=True):
            if isinstance(item, NotReadable):
                # First, since the report of the failure should include it.
                self._skipped += 1
                outbox.note_unreadable(number, item.error)
            else:
                batch.append((number, item))
        self._tell_at = work.tell_at
        self._waiting.extend(batch)


# Seconds that results wait for others, to cross together.
_TOGETHER = 2e-4


class RegionOutbox:
    """Reads a pipeline to its end and sends reports, each with at most ``most`` results."""

    def __init__(
        self,
        engine: Engine,
        stages: list[Node],
        feed: ReceivedItems,
        end: ChannelEnd,
        place: WorkerPlace,
        *,
        most: int,
        every: float,
        load: Callable[[], CpuLoad] | None,
    ) -> None:
        self.engine = engine
        self.stages = stages
        self._places = {stage: place for place, stage in enumerate(stages)}
        self._feed = feed
        self._end = end
        self._lines = place.lines
        self._wrap = place.wrap
        self._most = most
        self._every = every
        self._load = load
        self._quarantine = Quarantine()
        # Both are filled by the pipeline's threads.
        self._gone: deque[int] = deque()
        self._failures: deque[Failure] = deque()
        # Items that could not be unpickled, and are finished.
        self._unread: deque[int] = deque()
        self._told_at = 0.0
        # How long the slowest stage had worked at the last report, divided by its slots.
        self._worked = 0.0
        # Whether something may have been counted since the counters were sent.
        self._untold = True
        # A gate that ends a wait for more results, and whether there is such a wait.
        self._waits_for_more = False
        self._alarm = Lock()
        self._alarm.acquire()
        # The ends of epochs that have not come yet, and whether the input ends with the last of them.
        self._marks = 0
        self._ends = False
        engine.lineage.watch(self._note_gone)
        engine.failures.tell(self._note_failure)
        feed.tell_by(self)

    def tell_begun(self) -> None:
        """Report that the worker has begun. Called before it takes an item, which may kill it."""
        self._send(*self._collect())

    def run(self) -> None:
        """Send reports until the pipeline fails, or is asked to stop."""
        while not self.engine.stopping:
            self._await_news()
            self._await_more()
            if self.engine.stopping:
                return
            report, values = self._collect()
            self._send(report, values)
            self._untold = report.counters is None
            if report.faults or (report.ended and self._ends and not self._marks):
                return

    def expect_mark(self, *, last: bool) -> None:
        """Note that the end of an epoch will come, and whether the input ends with it."""
        self._marks += 1
        self._ends = last

    def wake(self) -> None:
        if self._waits_for_more:
            self._waits_for_more = False
            with suppress(RuntimeError):
                self._alarm.release()
        self._wake_from_nothing()

    def _wake_from_nothing(self) -> None:
        if self.engine.sink.readers:
            self.engine.sink.wake_readers()

    def _note_gone(self, position: int) -> None:
        self._gone.append(position)
        self._wake_from_nothing()

    def _note_failure(self, node: Node, attempt: Attempt, error: Exception) -> None:
        failed = self._quarantine.add(
            node.name, [], "", item=without_context(attempt.item), error=error, attempts=attempt.number
        )
        items = numbers_of(attempt.root, self._feed.number_of)
        self._failures.append(Failure(self._places.get(node), items, failed, self._wrap(error)))

    def note_unreadable(self, number: int, error: Exception) -> None:
        self._failures.append(self._lost([number], "The item could not be unpickled in the worker", error))
        self._unread.append(number)
        self.wake()

    def _lost(self, items: list[int], why: str, error: BaseException) -> Failure:
        failure = RuntimeError(f"{why}: {type(error).__name__}: {error}")
        failure.__cause__ = error
        failed = FailedItem("", (), (), "", "?", f"RuntimeError: {failure}", "", 1)
        return Failure(None, items, failed, self._wrap(failure))

    def _has_news(self) -> bool:
        engine = self.engine
        if (
            engine.sink.entries
            or self._gone
            or self._failures
            or self._unread
            or self._lines.lines
            or self._feed.is_to_be_told()
        ):
            return True
        return engine.done or engine.stopping

    def _await_news(self) -> None:
        engine = self.engine
        gate = Lock()
        gate.acquire()
        with engine.lock:
            if self._has_news():
                return
            engine.found_nothing()
            engine.sink.readers.append(gate)
            # Some of it comes without the lock, from threads that may have looked for readers before.
            runs = any(node.running for node in engine.nodes)
            if not self._has_news():
                engine.lock.release()
                try:
                    gate.acquire(timeout=self._every if runs or self._untold else -1)
                finally:
                    engine.lock.acquire()
            if gate in engine.sink.readers:
                engine.sink.readers.remove(gate)

    def _await_more(self) -> None:
        """Wait a moment if more results come at once: each message costs time on both sides."""
        if len(self.engine.sink.entries) < self._most and self._feed.has_more():
            self._waits_for_more = True
            # Looked at afterwards: the thread that takes the next item looks at the other one then.
            if not self._feed.is_to_be_told() and not self._failures:
                self._alarm.acquire(timeout=_TOGETHER)
            self._waits_for_more = False
            # It may have been opened too late.
            self._alarm.acquire(blocking=False)

    def _collect(self) -> tuple[Report, list[Any]]:
        engine = self.engine
        sink, lineage = engine.sink, engine.lineage
        names: list[Name] = []
        values: list[Any] = []
        # Items that the pipeline finishes before this moment are done once their results have been taken.
        over = engine.done
        ended = False
        while len(values) < self._most and not ended:
            try:
                root, value = sink.entries.popleft()
            except IndexError:
                break
            if root is EPOCH_END:
                ended = True
                self._marks -= 1
            else:
                names.append(name_of_result(root, self._feed.number_of))
                values.append(value)
                if isinstance(root, Group):
                    with engine.lock:
                        lineage.deliver(root)
                else:
                    lineage.deliver_position(root)
            if sink.full:
                with engine.lock:
                    engine.room_in_sink()
        done = [*map(self._feed.forget, _take_all(self._gone)), *_take_all(self._unread)]
        failures = _take_all(self._failures)
        now = perf_counter()
        counters = load = None
        if ended or failures or over or now - self._told_at >= self._every:
            self._told_at = now
            counters = [extract(stage.counters, stage.running, stage.concurrency) for stage in self.stages]
            load = None if self._load is None else self._load()
        faults = self._faults() if over and not (sink.entries or values) else []
        lines = _take_all(self._lines.lines)
        taken, seconds = self._feed.tell(), self._take_seconds()
        return Report(names, failures, done, taken, seconds, counters, load, ended, faults, lines), values

    def _take_seconds(self) -> float:
        worked = max((it.counters.busy_seconds / max(1, it.concurrency) for it in self.stages), default=0.0)
        # With more slots it would count less than before.
        seconds = max(0.0, worked - self._worked)
        self._worked = worked
        return seconds

    def _faults(self) -> list[Fault]:
        faults = []
        for name, error in self.engine.failures.stages:
            place = next((self._places[stage] for stage in self.stages if stage.name == name), None)
            faults.append(Fault.of(place, error, self._wrap))
        return faults or [Fault.of(None, RuntimeError("The pipeline in the worker has ended."), self._wrap)]

    def _send(self, report: Report, values: list[Any]) -> None:
        while True:
            try:
                self._end.send([report, *values])
            except ItemNotSent as unsent:
                if not unsent.index:
                    raise
                place = unsent.index - 1
                name, value = report.names.pop(place), values.pop(place)
                items = [name] if isinstance(name, int) else list(name[:1]) if isinstance(name, tuple) else name
                why = f"The result, of type {type(value).__qualname__}, could not be pickled to leave the worker"
                report.failures.append(self._lost(items, why, unsent.__cause__ or unsent))
            else:
                return


def _take_all(source: deque[Any]) -> list[Any]:
    taken = []
    while True:
        try:
            taken.append(source.popleft())
        except IndexError:
            return taken


def work(end: ChannelEnd, make_job: Callable[[], Job], place: WorkerPlace) -> None:
    """Run the stages of a region until the input ends, or the pipeline is gone. Errors of ``make_job`` are reported."""
    engine: Engine | None = None
    try:
        job = make_job()
        if job.initializer is not None:
            job.initializer(*job.initargs)
        feed = ReceivedItems(end)
        engine = _make_engine(job, feed, place)
        stages = [node for node in engine.nodes if node.is_stage]
        clock = _load_clock(engine) if job.tells_load else None
        outbox = RegionOutbox(engine, stages, feed, end, place, most=job.most, every=job.tell_every, load=clock)
        place.began(engine)
        outbox.tell_begun()
        start(engine, shown=False)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the pipeline's process tells it.
        _tell_of_fault(end, error, place)
        if engine is not None:
            engine.request_stop()
        return
    watcher = Thread(target=_stop_with_parent, args=(end, engine), name="spdl_region_watcher", daemon=True)
    watcher.start()
    # It ends with the last epoch, or if it is asked to stop.
    try:
        outbox.run()
    except (PeerGone, ChannelClosed):
        pass
    except BaseException as error:  # noqa: BLE001 - as above.
        _tell_of_fault(end, error, place)
    engine.request_stop()
    # A thread waits for an item.
    end.close()
    with engine.lock:
        threads = engine.all_threads()
    for thread in threads:
        if thread.is_alive():
            thread.join(None if place.grace is None else place.grace / max(1, len(threads)))
    watcher.join(place.grace)


def _make_engine(job: Job, feed: ReceivedItems, place: WorkerPlace) -> Engine:
    factory, queue_class, interval = job.instrumentation
    hook_classes, queue_classes = job.defaults
    if place.alone:
        number_pipelines_from(job.pipeline_id)
        for hook_class in hook_classes:
            defaults.set_default_hook_class(hook_class)
        for each in queue_classes:
            defaults.set_default_queue_class(each)
    if not hook_classes:
        # The main pipeline's process logs the counters.
        factory = factory or (lambda _info: [])
    source: SourceConfig[Any] = SourceConfig(feed, continuous=True)
    engine = plan(
        PipelineConfig(source, job.stages, SinkConfig(max(3, job.most))),
        num_threads=max(1, _threads(job.stages)),
        max_failures=-1,
        stage_id=job.stage_id - 1,
        instrumentation=Instrumentation(factory, queue_class, interval),
        pipeline_id=None if place.alone else job.pipeline_id,
    )
    engine.locate_by(feed.context_of)
    # Whether all items have failed is decided in the main pipeline, which counts the items of all workers.
    engine.epochs.resume(1 << 60)
    return engine


def _threads(stages: Sequence[StageConfig]) -> int:
    threads = 0
    for stage in every_stage(stages):
        if isinstance(stage, PathVariantsConfig):
            threads += not makes_coroutine(stage.router)
        else:
            threads += stage.concurrency if isinstance(stage, PipeConfig) else 1
    return threads


def _set_limits(engine: Engine, concurrency: dict[Node, int]) -> None:
    """Change the stages' limits, and the number of threads by as much: each stage has one for each of its slots."""
    more = sum(slots - stage.concurrency for stage, slots in concurrency.items())
    set_limits(engine, concurrency, max(1, engine.workers.num_threads + more), engine.sink.capacity)


def _load_clock(engine: Engine) -> Callable[[], CpuLoad]:
    # Imported here since few pipelines are tuned.
    from spdl.pipeline._report.threads import CoreWaits  # noqa: PLC0415

    waits = CoreWaits()
    # The time until here was not work on items.
    began = process_time()
    return lambda: CpuLoad(process_time() - began, waits.read(engine.workers.threads))


def _tell_of_fault(end: ChannelEnd, error: BaseException, place: WorkerPlace) -> None:
    faults = [Fault.of(None, error, place.wrap)]
    with suppress(PeerGone, ChannelClosed):
        end.send([Report([], [], [], 0, 0.0, None, None, ended=False, faults=faults, lines=[])])


def _stop_with_parent(end: ChannelEnd, engine: Engine) -> None:
    """Stop the pipeline when the other side has no more use for it, also if no thread is receiving."""
    end.await_end()
    engine.request_stop()


# Seconds that ops have in a process to end in order when their results are no longer wanted.
_GRACE = 1.0


def begin_process(end: WorkerEnd, payload: Job | bytes) -> None:
    """Begin in its own process. The work is pickled unless this process was forked."""
    end.begin()
    ignore_ctrl_c()
    _work_alone(end, payload, _GRACE)


def begin_interpreter(payload: bytes, out: Sequence[int], into: Sequence[int]) -> None:
    """Begin in its own interpreter, which has no threads left when it ends, with the numbers of its lanes."""
    end = WorkerEnd.begin_in_interpreter(out, into)
    try:
        _work_alone(end, payload, None)
    finally:
        end.close()


def _work_alone(end: WorkerEnd, payload: Job | bytes, grace: float | None) -> None:
    place = WorkerPlace(
        alone=True, grace=grace, lines=BufferedLines().take_all(), wrap=pack_error, began=lambda _: None
    )
    # The bytes come from our parent.
    work(end, lambda: pickle.loads(payload) if isinstance(payload, bytes) else payload, place)  # noqa: S301


def begin_threads(end: ThreadEnd, job: Job, engines: list[Engine]) -> None:
    # Its lines are logged like any other pipeline's here.
    place = WorkerPlace(alone=False, grace=None, lines=BufferedLines(), wrap=RaisedHere, began=engines.append)
    try:
        work(end, lambda: job, place)
    finally:
        end.close()

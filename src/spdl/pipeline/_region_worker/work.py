"""The main function of a worker of a region, wherever that is."""

from __future__ import annotations

from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import makes_coroutine
from spdl.pipeline._declare.records import PathVariantsConfig, PipeConfig, PipelineConfig, SinkConfig, SourceConfig
from spdl.pipeline._engine import limits
from spdl.pipeline._engine.start import start
from spdl.pipeline._plan.graph import plan
from spdl.pipeline._plan.instrumentation import Instrumentation
from spdl.pipeline._plan.pipeline_ids import number_pipelines_from
from spdl.pipeline._regions.messages import End, Limits, Load, Mark, Report, Work
from spdl.pipeline._transport.signals import ChannelClosed, NotReadable, PeerGone
from spdl.pipeline._world import Thread

from .feed import Feed
from .outbox import Outbox, Telling
from .place import fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.pipeline._declare.records import StageConfig
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._regions.messages import Job

    from .place import Place, WorkersEnd

__all__ = ["work"]


def work(end: WorkersEnd, make_job: Callable[[], Job], place: Place) -> None:
    """Run the stages of a region until nothing more will come, or the pipeline is gone.

    Args:
        end: The connection.
        make_job: Returns the work. What it raises is told.
        place: Where this is.
    """
    engine: Engine | None = None
    try:
        job = make_job()
        if job.initializer is not None:
            job.initializer(*job.initargs)
        feed = Feed()
        engine = _make_engine(job, feed, place)
        stages = [node for node in engine.nodes if node.is_stage]
        clock = _load_clock(engine) if job.tells_load else None
        telling = Telling(job.most, job.tell_every, clock)
        outbox = Outbox(engine, stages, feed, end, telling, lines=place.lines, wrap=place.wrap)
        feed.receive_by(partial(_receive, end, feed, outbox, engine, stages))
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
    _send_all(outbox, end, place)
    engine.request_stop()
    # A thread waits for an item.
    end.close()
    _join(engine, place.grace)
    watcher.join(place.grace)


def _make_engine(job: Job, feed: Feed, place: Place) -> Engine:
    factory, queue_class, interval = job.instrumentation
    hook_classes, queue_classes = job.defaults
    if place.alone:
        number_pipelines_from(job.pipeline_id)
        for hook_class in hook_classes:
            defaults.set_default_hook_class(hook_class)
        for each in queue_classes:
            defaults.set_default_queue_class(each)
    if not hook_classes and factory is None:
        # What the engine counts is logged where the pipeline is.
        factory = _no_hooks
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
    # Whether all items have failed can be told only where those of all workers are counted.
    engine.epochs.resume(1 << 60)
    return engine


def _no_hooks(_info: object) -> list[Any]:
    return []


def _threads(stages: Sequence[StageConfig]) -> int:
    """Return how many ops may run at once in threads."""
    threads = 0
    for stage in stages:
        if isinstance(stage, PipeConfig):
            threads += stage.concurrency
        elif isinstance(stage, PathVariantsConfig):
            threads += sum(map(_threads, stage.paths)) + (not makes_coroutine(stage.router))
        else:
            threads += 1
    return threads


def _receive(end: WorkersEnd, feed: Feed, outbox: Outbox, engine: Engine, stages: list[Any]) -> bool:
    """Wait for items, and add them to the feed. Return False at the end of an epoch."""
    while True:
        try:
            head, *items = end.receive()
        except (PeerGone, ChannelClosed):
            engine.request_stop()
            return False
        if isinstance(head, Work):
            if head.contexts is not None:
                feed.note_contexts(dict(zip(head.numbers, head.contexts, strict=True)))
            batch = []
            for number, item in zip(head.numbers, items, strict=True):
                if isinstance(item, NotReadable):
                    # First, since the report of the failure is to say it.
                    feed.skip()
                    outbox.note_unreadable(number, item.error)
                else:
                    batch.append((number, item))
            feed.put(batch, head.tell_at)
            return True
        if isinstance(head, Limits):
            with engine.lock:
                _set_limits(engine, {stages[place]: each for place, each in head.concurrency.items()})
        elif isinstance(head, Mark | End):
            outbox.expect_mark(last=isinstance(head, End))
            return False


def _set_limits(engine: Engine, concurrency: dict[Node, int]) -> None:
    """Change the stages' limits, and the number of threads by as much: each stage has one for each of its slots."""
    more = sum(slots - stage.concurrency for stage, slots in concurrency.items())
    limits.set_limits(engine, concurrency, max(1, engine.workers.num_threads + more), engine.sink.capacity)


def _load_clock(engine: Engine) -> Callable[[], Load]:
    # Imported here since few pipelines are tuned.
    from spdl.pipeline._metrics.core_waits import CoreWaits  # noqa: PLC0415

    waits = CoreWaits()
    # What it took until here was no work on items.
    began = process_time()
    return lambda: Load(process_time() - began, waits.read(engine.workers.threads))


def _send_all(outbox: Outbox, end: WorkersEnd, place: Place) -> None:
    try:
        outbox.run()
    except (PeerGone, ChannelClosed):
        return
    except BaseException as error:  # noqa: BLE001 - as above.
        _tell_of_fault(end, error, place)


def _tell_of_fault(end: WorkersEnd, error: BaseException, place: Place) -> None:
    try:
        end.send(
            [Report([], [], [], 0, 0.0, None, None, ended=False, faults=[fault_of(None, error, place.wrap)], lines=[])]
        )
    except (PeerGone, ChannelClosed):
        return


def _stop_with_parent(end: WorkersEnd, engine: Engine) -> None:
    """Stop the pipeline when the other side wants no more of it, also if no thread is about to receive anything."""
    end.await_end()
    engine.request_stop()


def _join(engine: Engine, grace: float | None) -> None:
    """Wait for the engine's threads, for so many seconds in all or as long as it takes."""
    with engine.lock:
        threads = engine.all_threads()
    for thread in threads:
        if thread.is_alive():
            thread.join(None if grace is None else grace / max(1, len(threads)))

"""The main function of a worker of a region."""

from __future__ import annotations

import logging
import pickle
import signal
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import makes_coroutine
from spdl.pipeline._declare.records import PathVariantsConfig, PipeConfig, PipelineConfig, SinkConfig, SourceConfig
from spdl.pipeline._engine import limits
from spdl.pipeline._engine.start import start
from spdl.pipeline._nodes.executors.process_work import pack_error
from spdl.pipeline._plan.graph import plan
from spdl.pipeline._plan.instrumentation import Instrumentation
from spdl.pipeline._plan.pipeline_ids import number_pipelines_from
from spdl.pipeline._regions.messages import End, Fault, Job, Limits, Mark, Report, Work
from spdl.pipeline._transport.signals import ChannelClosed, NotReadable, PeerGone

from .feed import Feed
from .outbox import Lines, Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.records import StageConfig
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._transport.channel import WorkerEnd

__all__ = ["work"]

# Seconds that ops have to end in order when nobody wants their results any more.
_GRACE = 1.0


def work(end: WorkerEnd, payload: Job | bytes) -> None:
    """Run the stages of a region until nothing more will come, or the other process is gone.

    Args:
        end: The connection.
        payload: The work; pickled unless this process was forked.
    """
    end.begin()
    # A terminal sends Ctrl-C to all processes; the pipeline's process then ends this one in order. Programs that are
    # started here would inherit SIG_IGN, but not a handler that does nothing.
    signal.signal(signal.SIGINT, lambda *_: None)
    lines = Lines()
    logger = logging.getLogger("spdl.pipeline")
    logger.addHandler(lines)
    logger.propagate = False
    engine: Engine | None = None
    try:
        job: Job = pickle.loads(payload) if isinstance(payload, bytes) else payload  # noqa: S301 - from our parent.
        if job.initializer is not None:
            job.initializer(*job.initargs)
        feed = Feed()
        engine = _make_engine(job, feed)
        stages = [node for node in engine.nodes if node.is_stage]
        outbox = Outbox(engine, stages, feed, end, most=job.most, lines=lines)
        feed.receive_by(partial(_receive, end, feed, outbox, engine, stages))
        start(engine, shown=False)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the pipeline's process tells it.
        _tell_of_fault(end, error)
        if engine is not None:
            engine.request_stop()
        return
    Thread(target=_stop_with_parent, args=(end, engine), name="spdl_region_watcher", daemon=True).start()
    # It ends with the last epoch, or if it is asked to stop.
    _send_all(outbox, end)
    engine.request_stop()
    # A thread waits for an item.
    end.close()
    _join(engine)


def _make_engine(job: Job, feed: Feed) -> Engine:
    number_pipelines_from(job.pipeline_id)
    factory, queue_class, interval = job.instrumentation
    hook_classes, queue_classes = job.defaults
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


def _receive(end: WorkerEnd, feed: Feed, outbox: Outbox, engine: Engine, stages: list[Any]) -> bool:
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
                    outbox.note_unreadable(number, item.error)
                else:
                    batch.append((number, item))
            feed.put(batch, head.tell_at)
            return True
        if isinstance(head, Limits):
            with engine.lock:
                for place, concurrency in head.concurrency.items():
                    limits.set_concurrency(engine, stages[place], concurrency)
        elif isinstance(head, Mark | End):
            outbox.expect_mark(last=isinstance(head, End))
            return False


def _send_all(outbox: Outbox, end: WorkerEnd) -> None:
    try:
        outbox.run()
    except (PeerGone, ChannelClosed):
        return
    except BaseException as error:  # noqa: BLE001 - as above.
        _tell_of_fault(end, error)


def _tell_of_fault(end: WorkerEnd, error: BaseException) -> None:
    cause = error.__cause__
    fault = Fault(None, pack_error(error), None if cause is None else pack_error(cause))
    try:
        end.send([Report([], [], [], 0, 0.0, None, ended=False, faults=[fault], lines=[])])
    except (PeerGone, ChannelClosed):
        return


def _stop_with_parent(end: WorkerEnd, engine: Engine) -> None:
    """Stop the pipeline when the other process wants no more of it, also if no thread is about to receive anything."""
    end.await_end()
    engine.request_stop()


def _join(engine: Engine) -> None:
    with engine.lock:
        threads = engine.all_threads()
    for thread in threads:
        if thread.is_alive():
            thread.join(_GRACE / max(1, len(threads)))

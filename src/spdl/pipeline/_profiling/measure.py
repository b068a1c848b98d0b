"""One measurement: a stage alone in a pipeline, at one concurrency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import is_async
from spdl.pipeline._declare.records import PipeConfig, PipelineConfig, SinkConfig, SourceConfig
from spdl.pipeline._failures.pipeline_failure import PipelineFailure
from spdl.pipeline._pipeline.pipeline import Pipeline
from spdl.pipeline._plan.graph import plan
from spdl.pipeline._plan.instrumentation import Instrumentation
from spdl.pipeline._queues.async_queue import AsyncQueue

from .feed import MOST_SECONDS, Feed
from .profile_result import ProfileStats
from .thread_times import TimesOfNewThreads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._declare.policy import OnFailure
    from spdl.pipeline._declare.records import MergeConfig, StageConfig

__all__ = ["Measurement", "bare_pipeline", "measure"]

# How many results may wait, so that the stage does not wait for the thread that takes them. They may be large.
_SINK_SIZE = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of a measurement.

    Attributes:
        stats: The statistics.
        outputs: The first results of the stage: as many as the items give once, and at most as many as requested. Since
            items are worked on at once, a result of the second round may be here instead of a slower one of the first.
        failure: The failure of the pipeline if every item failed, or None.
    """

    stats: ProfileStats
    outputs: list[Any]
    failure: PipelineFailure | None


def bare_pipeline(
    src: SourceConfig[Any] | MergeConfig, stages: Sequence[StageConfig], num_threads: int
) -> Pipeline[Any]:
    """Build a pipeline without the defaults of the process: no hooks, queues or background tasks."""
    config = PipelineConfig(src, stages, SinkConfig[Any](max(_SINK_SIZE, num_threads)))
    bare = Instrumentation(lambda _info: [], AsyncQueue, -1)
    engine = plan(config, num_threads=num_threads, max_failures=-1, stage_id=0, instrumentation=bare)
    return Pipeline(engine, str(config))


def measure(
    stage: StageConfig,
    items: Sequence[Any],
    concurrency: int,
    *,
    repeat: bool,
    most_outputs: int,
    on_failure: OnFailure | None = None,
) -> Measurement:
    """Run a stage alone.

    Args:
        stage: The stage. It must not be a fork.
        items: The items that it gets, in order; at least one.
        concurrency: How many items it works on at once.
        repeat: Whether to give the items again once all were given.
        most_outputs: How many results to keep.
        on_failure: Called with each item that the op fails on.

    Raises:
        PipelineFailure: If the whole stage failed: its aggregator raised, or its op raised something other than an
            Exception.
    """
    feed = Feed(items, concurrency, TimesOfNewThreads(), repeat=repeat)
    pipeline = bare_pipeline(SourceConfig(feed), [_alone(stage, concurrency, on_failure)], concurrency)
    engine = pipeline._engine  # noqa: SLF001 - the public statistics would be too slow to read while it runs.
    feed.watch(engine)
    stage_counters = engine.nodes[0].counters
    outputs: list[Any] = []
    failure = None
    seconds = cpu_seconds = 0.0
    try:
        with pipeline.auto_stop():
            try:
                for output in _until_enough(pipeline, feed):
                    if len(outputs) < most_outputs:
                        outputs.append(output)
            finally:
                seconds, cpu_seconds = perf_counter() - feed.started_at, process_time() - feed.cpu_at_start
    except PipelineFailure as error:
        if stage_counters.completed or not pipeline.failures():
            raise
        failure = error
    num_inputs, num_outputs, times = feed.num_ended(), stage_counters.emitted, feed.times
    if not (isinstance(stage, PipeConfig) and is_async(stage.op)):
        cpu_seconds = stage_counters.cpu_seconds
    elif times is not None:
        cpu_seconds = times.on_core
    stats = ProfileStats(
        concurrency=concurrency,
        qps=num_outputs / seconds,
        occupancy_rate=max(0.0, 1 - engine.sink.counters.get_seconds / seconds),
        num_inputs=num_inputs,
        num_outputs=num_outputs,
        num_failures=stage_counters.failed,
        seconds=seconds,
        busy_seconds=stage_counters.busy_seconds,
        cpu_seconds=cpu_seconds,
        num_runnable=None if times is None else sum(times) / feed.seconds,
        num_waiting=None if times is None else times.waiting / feed.seconds,
        num_given=feed.num_given,
    )
    if num_inputs > len(items):
        del outputs[max(1, round(num_outputs * len(items) / num_inputs)) :]
    return Measurement(stats, outputs, failure)


def _alone(stage: StageConfig, concurrency: int, on_failure: OnFailure | None) -> StageConfig:
    """Return the stage with the settings that it is measured with."""
    if not isinstance(stage, PipeConfig):
        return stage
    # Retries are part of a stage's speed. Timeouts and `max_failures` mean nothing if a stage is overloaded on purpose,
    # and the user's `on_failure` must not report failures that lose no item.
    policy = replace(stage.policy, max_failures=None, on_failure=on_failure, timeout=None)
    return replace(stage, concurrency=concurrency, executor=None, policy=policy)


def _until_enough(pipeline: Pipeline[Any], feed: Feed) -> Iterator[Any]:
    """Yield all results, or those that come in time if the stage has more."""
    for num_outputs, output in enumerate(pipeline, 1):
        yield output
        if perf_counter() - feed.started_at > MOST_SECONDS and num_outputs > feed.num_ended():
            # A generator may yield results for ever.
            feed.note_times()
            return

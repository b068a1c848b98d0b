"""One measurement of a profile: a stage alone in a pipeline, on the same items again and again."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter, process_time, sleep
from typing import Any, NamedTuple

from spdl.pipeline._declare.op import is_async
from spdl.pipeline._declare.records import (
    DEFAULT_POLICY,
    SOURCE,
    AggregateConfig,
    MergeConfig,
    OnFailure,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
    StageConfig,
)
from spdl.pipeline._declare.stages import Merge, Pipe
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._graph import NOTHING, plan
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.failures import PipelineFailure
from spdl.pipeline._report.profile_result import ProfileStats
from spdl.pipeline._report.threads import ThreadTimes, TimesOfNewThreads

# A measurement ends after this time or, if that is later, as soon as the ops that it began with have ended.
MOST_SECONDS = 1.0
# It ends earlier if it has lasted this long and this many ops have ended. More of them would change little.
_LEAST_SECONDS = 0.2
_ENOUGH_ROUNDS = 8
_ENOUGH_INPUTS = 100

# While no op has ended, the stage is polled with pauses that are this share of the time so far. So the time is known
# with the same relative precision, however long it is.
_LEAST_PAUSE, _PAUSE = 0.0002, 0.02


class RepeatedItems:
    """Gives the items to the only stage of a pipeline, in order and from the start for each measurement.

    So all measurements of a stage use the same items. The feed gives as many items as the stage works on at once, and
    waits for the first op to end. From then on it gives only items that will be done in time. Otherwise slow ops would
    take a multiple of the time, since some items wait upstream of the stage.

    ``times`` and ``seconds`` are those of the pipeline's threads, and since the first item, when the last was given.
    """

    def __init__(self, items: Sequence[Any], concurrency: int, times: TimesOfNewThreads, *, repeat: bool) -> None:
        self._items = itertools.cycle(items) if repeat else items
        self._concurrency = concurrency
        self._times = times
        # Set later, since the source is made before the engine.
        self.engine: Engine | None = None
        self.num_given = 0
        self.started_at = self.cpu_at_start = self.seconds = 0.0
        self.times: ThreadTimes | None = None

    def watch(self, engine: Engine) -> None:
        self.engine = engine

    def __iter__(self) -> Iterator[Any]:
        self.started_at, self.cpu_at_start = perf_counter(), process_time()
        latency = None
        for item in self._items:
            if self.num_given >= self._concurrency:
                latency = latency or self._await_first()
                if self._is_enough(latency):
                    break
            self.num_given += 1
            yield item
        if latency is None:
            # There were few items. The times until the first op has ended stand for the whole.
            self._await_first()
        self.note_times()

    def note_times(self) -> None:
        self.times, self.seconds = self._times.read(), perf_counter() - self.started_at

    def num_ended(self) -> int:
        assert self.engine is not None
        counters = self.engine.nodes[0].counters
        return counters.completed + counters.failed

    def _await_first(self) -> float:
        engine = self.engine
        assert engine is not None
        while not (self.num_ended() or engine.nodes[0].counters.emitted or engine.stopping or engine.failures):
            sleep(max(_LEAST_PAUSE, _PAUSE * (perf_counter() - self.started_at)))
        return perf_counter() - self.started_at

    def _is_enough(self, latency: float) -> bool:
        assert self.engine is not None
        seconds, ended = perf_counter() - self.started_at, self.num_ended()
        ahead = max(0, self.num_given - ended - self._concurrency) / self._concurrency
        if seconds + latency * (1 + ahead) > MOST_SECONDS:
            return True
        done = max(ended, self.engine.nodes[0].counters.emitted)
        return seconds > _LEAST_SECONDS and done > max(_ENOUGH_INPUTS, _ENOUGH_ROUNDS * self._concurrency)


# How many results may wait, so that the stage does not wait for the thread that takes them. They may be large.
_SINK_SIZE = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of a measurement, with the failure of the pipeline if every item failed.

    Attributes:
        outputs: The first results of the stage: as many as the items give once, and at most as many as requested. Since
            items are worked on at once, a result of the second round may be here instead of a slower one of the first.
    """

    stats: ProfileStats
    outputs: list[Any]
    failure: PipelineFailure | None


def bare_pipeline(
    src: SourceConfig[Any] | MergeConfig, stages: Sequence[StageConfig], num_threads: int
) -> Pipeline[Any]:
    """Build a pipeline without the defaults of the process: no hooks, queues or background tasks."""
    config = PipelineConfig(src, stages, SinkConfig[Any](max(_SINK_SIZE, num_threads)))
    engine = plan(config, num_threads=num_threads, max_failures=-1, stage_id=0, instrumentation=NOTHING)
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
    """Run a stage alone on one item at least; not a fork. Raises a PipelineFailure if the whole stage failed."""
    feed = RepeatedItems(items, concurrency, TimesOfNewThreads(), repeat=repeat)
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
        num_runnable=None if times is None else (times.on_core + times.waiting) / feed.seconds,
        num_waiting=None if times is None else times.waiting / feed.seconds,
        num_given=feed.num_given,
        sleeps=None if times is None else times.sleeps / feed.seconds / concurrency,
    )
    if num_inputs > len(items):
        # Rounded down: the last result of an aggregator is a batch that the end of the measurement has cut short.
        del outputs[max(1, num_outputs * len(items) // num_inputs) :]
    return Measurement(stats, outputs, failure)


def _alone(stage: StageConfig, concurrency: int, on_failure: OnFailure | None) -> StageConfig:
    if not isinstance(stage, PipeConfig):
        return stage
    # Retries are part of a stage's speed. Timeouts and `max_failures` mean nothing if a stage is overloaded on purpose,
    # and the user's `on_failure` must not report failures that lose no item.
    policy = replace(stage.policy, max_failures=None, on_failure=on_failure, timeout=None)
    return replace(stage, concurrency=concurrency, executor=None, policy=policy)


def _until_enough(pipeline: Pipeline[Any], feed: RepeatedItems) -> Iterator[Any]:
    """Yield all results, or those that come in time if the stage has more."""
    for num_outputs, output in enumerate(pipeline, 1):
        yield output
        if perf_counter() - feed.started_at > MOST_SECONDS and num_outputs > feed.num_ended():
            # A generator may yield results forever.
            feed.note_times()
            return


# Reading ends after this time, even if the source has given fewer items than requested.
_MOST_SECONDS = 5.0
# Comes before the items: a pipeline would warn of a source that yields nothing, which is an error here.
_BEGIN = object()


def first_items(config: SourceConfig[Any], num_items: int) -> list[Any]:
    """Return the first items of a source, or fewer if it has fewer or is slow. A continuous source gives one epoch.

    No further item is requested, and the source's iterator is closed. A source without items is an error.
    """
    source = config.source
    few = (_few_async if hasattr(source, "__aiter__") else _few)(source, num_items)
    with bare_pipeline(replace(config, source=few, continuous=False), [], 1).auto_stop() as pipeline:
        items = list(pipeline)[1:]
    if not items:
        raise RuntimeError(
            f"The source {SOURCE!r} ({config!r}) gave no items, so there is nothing to profile the stages with. "
            "Give a source that has items; a generator that was iterated before has none left."
        )
    return items


def _few(source: Any, num_items: int) -> Iterator[Any]:
    yield _BEGIN
    iterator = iter(source)
    exhausted, ends_at = False, None
    try:
        for _ in range(num_items):
            try:
                item = next(iterator)
            except StopIteration:
                exhausted = True
                return
            yield item
            # The first item is not timed: it may take long, for example to open a file.
            ends_at = ends_at or monotonic() + _MOST_SECONDS
            if monotonic() > ends_at:
                return
    finally:
        # Like a pipeline, close it only after an early end.
        if not exhausted and hasattr(iterator, "close"):
            iterator.close()


async def _few_async(source: Any, num_items: int) -> AsyncIterator[Any]:
    yield _BEGIN
    iterator, ends_at = aiter(source), None
    try:
        for _ in range(num_items):
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            yield item
            ends_at = ends_at or monotonic() + _MOST_SECONDS
            if monotonic() > ends_at:
                return
    finally:
        if hasattr(iterator, "aclose"):
            await iterator.aclose()


# Ops that are slower than this are assumed to accept the same item again, since a trial would take too long.
_SLOW_SECONDS = 1.0
# How many items are tried to find one that the op does not fail on.
_MOST_ITEMS = 3
# How often in a row an op must refuse an item that it took before. An op that fails now and then refuses less often.
_REFUSALS = 2


class StageTrial(NamedTuple):
    """The result of a trial: whether a stage can take the same item again, as far as one item shows.

    If not, ``used_up`` are the results of the items that were tried. The trial also lets the op do the work of a first
    call, such as importing modules.
    """

    num_items: int
    used_up: list[Any] | None


def try_again(stage: StageConfig, items: Sequence[Any]) -> StageTrial:
    """Try a stage on one item several times.

    It cannot take an item again if it had a result the first time, but then fails or has none. The pipelines log its
    failures, so the caller has to keep these back.
    """
    if isinstance(stage, AggregateConfig):
        return StageTrial(0, None)
    if isinstance(stage, PipeConfig):
        # Without retries: each would be one more trial.
        stage = replace(stage, policy=DEFAULT_POLICY)
    for index, item in enumerate(items[:_MOST_ITEMS]):
        first = _try(stage, item)
        if first.stats.seconds > _SLOW_SECONDS:
            break
        if first.outputs:
            if not any(_try(stage, item).outputs for _ in range(_REFUSALS)):
                return StageTrial(index + 1, first.outputs)
            break
    return StageTrial(0, None)


def _try(stage: StageConfig, item: Any) -> Measurement:
    return measure(stage, [item], 1, repeat=False, most_outputs=1)


def shares_of(items: Sequence[Any], concurrencies: Sequence[int]) -> list[list[Any]]:
    """Divide items so that each concurrency gets a share in proportion to it, and thus the same number of rounds.

    Each share has items from the whole sequence, even if it is sorted, and at least one item if there are enough.
    """
    shares: list[list[Any]] = [[] for _ in concurrencies]
    for item, index in zip(items, _turns(concurrencies), strict=False):
        shares[index].append(item)
    return shares


def _turns(concurrencies: Sequence[int]) -> Iterator[int]:
    yield from range(len(concurrencies))
    # The turns of each measurement are evenly spaced.
    turns = [((turn + 0.5) / count, index) for index, count in enumerate(concurrencies) for turn in range(count)]
    yield from itertools.cycle([index for _, index in sorted(turns)])


def split(fork: PathVariantsConfig[Any], items: Sequence[Any]) -> list[list[Any]]:
    """Ask the router for each item's path, and return the items of each path."""

    async def ask(item: Any) -> tuple[Any, Any]:
        return item, _checked(fork, item, await fork.router(item))

    route = ask if is_async(fork.router) else lambda item: (item, _checked(fork, item, fork.router(item)))
    shares: list[list[Any]] = [[] for _ in fork.paths]
    # One item after the other, as in the pipeline, since a router may depend on the order.
    stage = Pipe(route, name=fork.name, output_order="input", max_failures=0)
    with bare_pipeline(SourceConfig(items), [stage], 1).auto_stop() as pipeline:
        for item, where in pipeline:
            if fork.batched:
                for index, share in enumerate(shares):
                    share.append([it for it, path in zip(item, where, strict=True) if path == index])
            else:
                shares[where].append(item)
    return shares


def _checked(fork: PathVariantsConfig[Any], item: Any, where: Any) -> Any:
    paths = range(len(fork.paths))
    named = list(where) if fork.batched else [where]
    if any(path not in paths for path in named) or (fork.batched and len(named) != len(item)):
        what = "an index for each element of the batch" if fork.batched else "an index"
        raise IndexError(
            f"The router of {fork.name!r} must return {what}, each from 0 to {len(paths) - 1}, got {where!r}."
        )
    return named if fork.batched else int(where)


def join(fork: PathVariantsConfig[Any], results: Sequence[list[Any]]) -> list[Any]:
    """Return the input of the stage downstream of a fork, made from the results of the fork's paths."""
    if fork.batched:
        # The original batches are not known any more. They do not matter for a measurement.
        batches = itertools.zip_longest(*results, fillvalue=())
        return [batch for shares in batches if (batch := list(itertools.chain.from_iterable(shares)))]
    return merged([items for items in results if items], None)


def merged(branches: Sequence[list[Any]], op: Any) -> list[Any]:
    """Return the input of the stage downstream of a merge: the branches' results, merged as in the pipeline."""
    if not branches:
        return []
    configs = [PipelineConfig(SourceConfig(items), [], SinkConfig[Any](1)) for items in branches]
    merge = Merge(configs, op)
    with bare_pipeline(merge, [], 1).auto_stop() as pipeline:
        return list(pipeline)

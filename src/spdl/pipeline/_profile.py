"""Profiles a pipeline stage by stage. Each stage's results are the input of the next."""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from spdl._check import check_timeout, positive, refuse
from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.interfaces import ProfileHook
from spdl.pipeline._declare.op import FailedItem, is_async
from spdl.pipeline._declare.placement import outside
from spdl.pipeline._declare.records import MergeConfig, PathVariantsConfig, PipeConfig, PipelineConfig, StageConfig
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._iterators import PipelineIterator
from spdl.pipeline._measure import Measurement, first_items, join, measure, merged, shares_of, split, try_again
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.failures import Diagnosed, PipelineFailure
from spdl.pipeline._report.profile_result import ProfileFailure, ProfileResult

_LOG = logging.getLogger("spdl.pipeline")

_PLACE = re.compile(r'^  File "(.*)", line (\d+)', re.MULTILINE)


class FailureCounts:
    """The failures of one stage in all its measurements, by cause.

    Two failures have the same cause if the exceptions have the same type and were raised on the same line. The stage
    gets the same items over and over, so an item counts once for each cause, however often it failed.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        # The items, the number of calls, and the first failure of each cause.
        self._items: dict[tuple[str, str], set[tuple[int, int]]] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], FailedItem] = {}

    def of_share(self, share: int, num_items: int) -> Callable[[FailedItem], None]:
        """Return a callback for the failed items of a measurement, which uses that many items again and again."""

        def note(failed: FailedItem) -> None:
            places = _PLACE.findall(failed.traceback)
            cause = failed.error.partition(":")[0], ":".join(places[-1]) if places else ""
            # Stages fail on several threads at once. Each of these steps is one step for all of them.
            items = self._items.setdefault(cause, set())
            items.add((share, failed.positions[0] % num_items if failed.positions else 0))
            self._calls[cause] = self._calls.get(cause, 0) + 1
            if self._first.setdefault(cause, failed) is failed:
                _LOG.error("Stage %r failed, for the first time for this reason:\n%s", self._stage, failed.traceback)

        return note

    def as_results(self) -> tuple[ProfileFailure, ...]:
        found = [
            ProfileFailure(first.error, cause[1], len(self._items[cause]), self._calls[cause], first.traceback)
            for cause, first in self._first.items()
        ]
        return tuple(sorted(found, key=lambda it: it.num_calls, reverse=True))

    @contextmanager
    def logged_once(self) -> Iterator[None]:
        """Log a failure of each cause, and keep back what the pipelines log of each failed item."""

        def is_other(record: logging.LogRecord) -> bool:
            return not (
                record.msg.startswith(("Stage %r failed on ", "Stage %r has now failed "))
                and isinstance(record.args, tuple)
                and record.args[:1] == (self._stage,)
            )

        _LOG.addFilter(is_other)
        try:
            yield
        finally:
            _LOG.removeFilter(is_other)


# Of that many items, since one may be unlike the others.
_MOST_ITEMS = 5


def seconds_to_hand_over(items: Sequence[Any], results: Sequence[Any], results_per_item: float) -> float | None:
    """Return the seconds in which this process would pickle an item and unpickle its results, holding the GIL.

    The other process's work in the meantime does not count: there are several of it. None if some cannot be pickled.
    """
    try:
        pickling = _mean([_timed(pickle.dumps, item) for item in _some(items)])
        unpickling = _mean([_timed(pickle.loads, pickle.dumps(result)) for result in _some(results)])
    except Exception:  # noqa: BLE001 - user objects may raise anything when they are pickled.
        return None
    if pickling is None or unpickling is None:
        return None
    return pickling + results_per_item * unpickling


def _some(values: Sequence[Any]) -> Sequence[Any]:
    return values[:: max(1, len(values) // _MOST_ITEMS)][:_MOST_ITEMS]


def _timed(function: Any, argument: Any) -> float:
    begun = perf_counter()
    function(argument)
    return perf_counter() - begun


def _mean(seconds: Sequence[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None


# The highest comes first: that measurement gets furthest, and its results are the input of the next stage.
_CONCURRENCIES = (32, 16, 8, 4, 1)


class _Flow(NamedTuple):
    """The items that pass from one stage or source to the next, and how many there are for each of the source."""

    items: list[Any]
    rate: float
    origin: str


class Profile:
    """Measures stages, and keeps the results. A stage gets ``num_inputs`` items at most."""

    def __init__(
        self, num_inputs: int, callback: Callable[[ProfileResult], None] | None, hook: ProfileHook | None
    ) -> None:
        self._num_inputs = num_inputs
        self._callback = callback
        self._hook = hook
        self.results: list[ProfileResult] = []

    def of_pipeline(self, config: PipelineConfig[Any]) -> None:
        self._of_branch(config, most_outputs=1)

    # In the following methods, a caller must not keep a reference to the items that it passes on, so that they can be
    # freed as soon as there are results.

    def _of_branch(self, config: PipelineConfig[Any], *, most_outputs: int) -> _Flow:
        if isinstance(config.src, MergeConfig):
            return self._of_stages(outside(config.pipes), self._merge(config.src), "", most_outputs)
        items = first_items(config.src, self._num_inputs)
        return self._of_stages(outside(config.pipes), _Flow(items, 1.0, "the source"), "", most_outputs)

    def _merge(self, merge: MergeConfig) -> _Flow:
        branches = [self._of_branch(config, most_outputs=self._num_inputs) for config in merge.pipeline_configs]
        items = merged([branch.items for branch in branches], merge.op)
        passed_on = len(items) / max(1, sum(len(branch.items) for branch in branches))
        return _Flow(items[: self._num_inputs], passed_on * sum(branch.rate for branch in branches), "the merge")

    def _of_stages(self, stages: Sequence[StageConfig], flow: _Flow, path: str, most_outputs: int) -> _Flow:
        for index, stage in enumerate(stages):
            name = path + stage.name
            if not flow.items:
                raise RuntimeError(
                    f"The stage {name!r} cannot be profiled, since {flow.origin} gave nothing. See why it drops all "
                    f"its items, or raise `num_inputs`, now {self._num_inputs}."
                )
            most = most_outputs if index == len(stages) - 1 else self._num_inputs
            if isinstance(stage, PathVariantsConfig):
                flow = self._of_fork(stage, flow, name, most)
            else:
                flow = self._of_stage(stage, flow, name, most)
        return flow

    def _of_fork(self, fork: PathVariantsConfig[Any], flow: _Flow, name: str, most_outputs: int) -> _Flow:
        results, rate = [], 0.0
        for index, items in enumerate(split(fork, flow.items)):
            path = f"{name}_path{index}"
            if not any(items) if fork.batched else not items:
                _LOG.warning("%s is not profiled: the router sent it none of %d items.", path, len(flow.items))
                continue
            share = _Flow(items, flow.rate * len(items) / len(flow.items), "the router")
            end = self._of_stages(fork.paths[index], share, f"{path}/", most_outputs)
            results.append(end.items)
            rate += end.rate
        return _Flow(join(fork, results), flow.rate if fork.batched else rate, repr(name))

    def _of_stage(self, stage: StageConfig, flow: _Flow, name: str, most_outputs: int) -> _Flow:
        counts = FailureCounts(stage.name)
        with counts.logged_once():
            measured, outputs, num_items = self._measure(stage, flow.items, name, most_outputs, counts)
        stats = [it.stats for it in measured]
        passed_on = sum(it.num_outputs for it in stats) / max(1, sum(it.num_inputs for it in stats))
        with_events = isinstance(stage, PipeConfig) and is_async(stage.op)
        result = ProfileResult(name, stats, flow.rate, with_events, num_items, counts.as_results())
        if result.gil == "holds" and isinstance(stage, PipeConfig) and not with_events:
            # Then other processes are the remedy, unless it takes longer to hand the items over.
            result = replace(result, hand_over_seconds=seconds_to_hand_over(flow.items, outputs, passed_on))
        self.results.append(result)
        _LOG.info("%s", result)
        if self._callback is not None:
            self._callback(result)
        return _Flow(outputs, flow.rate * passed_on, repr(name))

    def _measure(
        self, stage: StageConfig, items: list[Any], name: str, most_outputs: int, counts: FailureCounts
    ) -> tuple[list[Measurement], list[Any], int]:
        concurrencies = _CONCURRENCIES if isinstance(stage, PipeConfig) else (1,)
        trial = try_again(stage, items)
        repeat = trial.used_up is None
        outputs = trial.used_up or []
        shares = [items] * len(concurrencies) if repeat else shares_of(items[trial.num_items :], concurrencies)
        if not any(shares):
            raise RuntimeError(
                f"The stage {name!r} uses its items up, and got only {len(items)} of them: raise `num_inputs`, now "
                f"{self._num_inputs}."
            )
        measured: list[Measurement] = []
        num_items = 0 if repeat else trial.num_items
        for index, (concurrency, share) in enumerate(zip(concurrencies, shares, strict=True)):
            if not share:
                continue
            note = counts.of_share(0 if repeat else index, len(share))
            # If all measurements use the same items, the results of one are enough.
            most = 0 if repeat and measured else most_outputs - len(outputs)
            with nullcontext() if self._hook is None else self._hook.stage_profile_hook(name, concurrency):
                it = measure(stage, share, concurrency, repeat=repeat, most_outputs=most, on_failure=note)
            given = min(it.stats.num_given, len(share))
            num_items = max(num_items, given) if repeat else num_items + given
            if it.failure is not None:
                why = "; ".join(f"{each.error} ({each.place})" for each in counts.as_results())
                raise RuntimeError(
                    f"The stage {name!r} failed on every item that it was profiled with, {num_items} of them: {why}"
                ) from it.failure
            measured.append(it)
            outputs += it.outputs
            it.outputs.clear()
        return measured, outputs, num_items


def profile_pipeline(
    cfg: PipelineConfig[Any],
    num_inputs: int = 1000,
    *,
    callback: Callable[[ProfileResult], None] | None = None,
    hook: ProfileHook | None = None,
) -> list[ProfileResult]:
    """Measure how fast each stage is alone, at concurrencies of 32, 16, 8, 4 and 1.

    The first items of the source are read (for 5 seconds at most). Then the first stage runs in its own pipeline,
    once for each concurrency and with as many threads. It gets these items in order, and from the first one again when
    all were given. Its results are the input of the next stage, and so on.

    * A measurement takes between 0.2 and 1 second. It ends as soon as the number of ops that have ended is 8 times the
      concurrency, and at least 100. It takes longer only if the ops themselves do.
    * Ops are called far more often than there are items. An op may fail on an item that it has seen, because it uses
      its items up or must not do its work twice. Such an op gets each item once, and more of the items at the higher
      concurrencies. To find such ops, each is first tried on an item several times, unless it takes more than a second.
    * ``aggregate`` and ``disaggregate`` are measured at a concurrency of 1 only.
    * Executors and their initializers are left out: all synchronous ops run on threads, which shows whether they need
      processes. Timeouts, ``max_failures`` and ``on_failure`` are left out as well. Retries are not.
    * In a fork, each path is measured with the items that the router sends there. A path that gets no items is left out
      with a warning. Pipelines that are merged are measured one after the other, and their results are merged.
    * Items that an op fails on are left out. One failure of each cause is logged, with its traceback.

    At most ``num_inputs`` items of a stage, and as many of its results, are in memory at a time. Lower this number if
    the items are large.

    Args:
        cfg: The declaration, as made by `PipelineBuilder.get_config`.
        num_inputs: How many items are read from each source, at most. A source that can be iterated only once, like a
            generator, has lost these items afterwards. A continuous source is read for one epoch.
        callback: Called with each stage's result as soon as it is there. An exception that it raises ends the profile.
            None takes the process's default, see `spdl.pipeline.config.set_default_profile_callback`.
        hook: Wrapped around the profile and each measurement. None takes the process's default, see
            `spdl.pipeline.config.set_default_profile_hook`.

    Returns:
        A list with a result for each stage, in the order of declaration. It is empty if the environment variable
        ``LOCAL_RANK`` is set and not 0, so that one process of each machine in a distributed job profiles.

    Raises:
        TypeError, ValueError: If an argument is not as described.
        RuntimeError: If the source gives no items, if a stage fails on every item or gives no results for the next one,
            or if a stage that uses its items up gets too few.
        PipelineFailure: If a source, an aggregator, a router or the op of a merge raised.

    Example:
        >>> import time
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(32)).pipe(lambda _: time.sleep(0.01) or 1, name="fetch")
        >>> (result,) = profile_pipeline(builder.add_sink().get_config())
        >>> [it.concurrency for it in result.stats], result.gil
        ([32, 16, 8, 4, 1], 'waits')
        >>> fastest, *_, slowest = sorted(result.stats, key=lambda it: it.qps)
        >>> fastest.concurrency, slowest.qps > 4 * fastest.qps
        (1, True)
    """
    if not isinstance(cfg, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(cfg, "get_config") else ""
        refuse(TypeError, "cfg", "a PipelineConfig", cfg, remedy)
    num_inputs = positive("num_inputs", num_inputs)
    if callback is None:
        callback = defaults.get_default_profile_callback()
    elif not callable(callback):
        refuse(TypeError, "callback", "callable or None", callback)
    defaults.check_profile_hook(hook)
    if hook is None:
        hook = defaults.get_default_profile_hook()
    if os.environ.get("LOCAL_RANK", "").strip() not in ("", "0"):
        return []
    profile = Profile(num_inputs, callback, hook)
    with nullcontext() if hook is None else hook.pipeline_profile_hook():
        profile.of_pipeline(cfg)
    return profile.results


T = TypeVar("T")


class Diagnosis(Pipeline[T]):
    """A pipeline whose first read profiles it and ends the process.

    If it is the source of another pipeline, it runs as usual, since the other pipeline is read first and profiled. If
    the source is in a worker process, it cannot know of the pipeline in the parent, so the source is profiled.
    """

    _under_way = False

    def __init__(self, engine: Engine, config: PipelineConfig[T]) -> None:
        super().__init__(engine, str(config))
        self._config = config
        self._runs = False

    def start(self, *, timeout: float | None = None, **kwargs: object) -> None:
        """Do nothing."""
        if self._runs:
            super().start(timeout=timeout, **kwargs)

    def stop(self, *, timeout: float | None = None) -> None:
        """Do nothing."""
        if self._runs:
            super().stop(timeout=timeout)

    def get_item(self, *, timeout: float | None = None) -> T:
        """Profile the pipeline and end the process.

        Raises:
            SystemExit: With the status 0.
        """
        check_timeout("timeout", timeout)
        self._diagnose()

    def get_iterator(self, *, timeout: float | None = None) -> PipelineIterator[T]:
        """Return an iterator whose first ``next`` profiles the pipeline and ends the process."""
        if Diagnosis._under_way:
            self._runs = True
            return super().get_iterator(timeout=timeout)
        return _DiagnosisIterator(self, check_timeout("timeout", timeout))

    def _diagnose(self) -> NoReturn:
        Diagnosis._under_way = True
        try:
            profile_pipeline(self._config, defaults.diagnostic_mode_num_sources(), callback=_report)
        except PipelineFailure as failure:
            # If the source is a pipeline in a worker process, it was read first and has been profiled.
            if not any(isinstance(error.__cause__, Diagnosed) for error in failure.exceptions):
                raise
        finally:
            Diagnosis._under_way = False
        raise Diagnosed(0)


def _report(result: ProfileResult) -> None:
    # The result is the only purpose of this process, so it must not depend on how logging was set up.
    if not logging.getLogger("spdl.pipeline").isEnabledFor(logging.INFO):
        sys.stderr.write(f"{result}\n")
    callback = defaults.get_default_profile_callback()
    if callback is not None:
        callback(result)


class _DiagnosisIterator(PipelineIterator[Any]):
    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._pipeline.get_item()

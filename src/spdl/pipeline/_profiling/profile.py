"""Profiles a pipeline stage by stage. Each stage's results are the input of the next."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._declare.op import is_async
from spdl.pipeline._declare.records import MergeConfig, PathVariantsConfig, PipeConfig
from spdl.pipeline._declare.regions import outside

from .failure_counts import FailureCounts
from .first_items import first_items
from .fork import join, merged, split
from .handing_over import seconds_to_hand_over
from .measure import measure
from .profile_result import ProfileResult
from .shares import shares_of
from .trial import try_again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from spdl.pipeline._declare.records import PipelineConfig, StageConfig

    from .measure import Measurement
    from .profile_hook import ProfileHook

__all__ = ["Profile"]

_LOG = logging.getLogger("spdl.pipeline")

# The highest comes first: that measurement gets furthest, and its results are the input of the next stage.
_CONCURRENCIES = (32, 16, 8, 4, 1)


class _Flow(NamedTuple):
    """The items that pass from one stage to the next.

    Attributes:
        items: The items.
        rate: How many items there are for each item that leaves the source.
        origin: The name of the stage or source that produced them.
    """

    items: list[Any]
    rate: float
    origin: str


class Profile:
    """Measures stages, and keeps the results.

    Args:
        num_inputs: How many items a stage gets at most.
        callback: Called with each result.
        hook: Wrapped around each measurement.

    Attributes:
        results: A result for each stage so far.
    """

    def __init__(
        self, num_inputs: int, callback: Callable[[ProfileResult], None] | None, hook: ProfileHook | None
    ) -> None:
        self._num_inputs = num_inputs
        self._callback = callback
        self._hook = hook
        self.results: list[ProfileResult] = []

    def of_pipeline(self, config: PipelineConfig[Any]) -> None:
        """Measure all stages of a pipeline."""
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
            with self._hooked(name, concurrency):
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

    def _hooked(self, name: str, concurrency: int) -> AbstractContextManager[object]:
        return nullcontext() if self._hook is None else self._hook.stage_profile_hook(name, concurrency)

"""Decides what limits a pipeline, from measures over a short time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from .gains import duration, gain_bound, percent, slots, watch_longer
from .loader_words import in_words_of_loader
from .pickling import taken_out
from .saturated import saturated
from .short_of_bytes import MOSTLY, short_of_bytes
from .verdict import Verdict

if TYPE_CHECKING:
    from .measures import PipelineMeasures, StageMeasures

__all__ = ["FASTER_STEP", "decide"]

FASTER_STEP = "Make the training step faster; a faster loader gains nothing."
"""The remedy of a slow consumer that waits for nobody."""

# A consumer that waits less than this share of the time is the limit itself.
_HARDLY_WAITS = 0.05
# It finds this share of the sink's places full, at least.
_FULL = 0.5
# An ordered stage that is held back for at least this share of the time is so by the order.
_HELD = 0.3
# A stage of whose ops this share fails and is tried again, and whose slots are in use for that share of the time, is
# slow because of it.
_FAILING, _FAILS_BUSILY = 0.2, 0.6
# So many of a stage's items are more than a broken one now and then.
_MANY_ARE_LOST = 0.05
# So many items of a stage tell how many times faster it could be.
_ENOUGH_TO_PREDICT = 16
# An op hangs if nothing moves, and it has run for so many seconds and so many times longer than others.
_HANGS_SECONDS = 2.0
_HANGS_TIMES = 10
# Other programs have the cores if so many threads wait for one, while the process uses this share of those that it may
# use and wants to.
_CORES_ARE_SHORT, _NOT_ALL = 0.5, 0.75


def decide(measures: PipelineMeasures) -> Verdict:
    """Return what limits a pipeline."""
    verdict = _decide(measures)
    if (broken := _broken(measures)) is not None:
        # To be quicker at nothing is no gain.
        remedy = f"Repair {broken.name!r} first: nothing comes out of it."
        verdict = replace(verdict, remedy=remedy, settings={}, predicted_gain=None)
    elif measures.loader is not None:
        verdict = in_words_of_loader(verdict, measures, measures.loader)
    beside = [*_ended(measures), *_cores_are_short(measures), *_items_are_lost(measures)]
    if verdict.kind not in ("hang", "held back by order"):
        beside += _some_hang(measures)
    if measures.ending is not None:
        # What its threads waited for, or that they waited for a core, is not known any more.
        verdict = replace(verdict, predicted_gain=None)
    return replace(verdict, evidence=" ".join([verdict.evidence, *beside])) if beside else verdict


def _ended(measures: PipelineMeasures) -> list[str]:
    """Return what was seen last of a pipeline that runs no more."""
    ending = measures.ending
    if ending is None:
        return []
    gone = "The process was killed" if ending.state == "killed" else "The pipeline has ended"
    works = ", ".join(f"{name!r} ({count})" for name, count in ending.at_work)
    said = (
        f"{gone}, and all of this is of the time from its start until it was seen last, {duration(ending.seconds)} "
        f"later: the loop had taken {ending.delivered:,} items, and {works or 'nothing'} was at work."
    )
    return [said]


def _cores_are_short(measures: PipelineMeasures) -> list[str]:
    # The process alone would use them.
    used, waited = measures.cores_used, measures.cores_waited_for
    if waited >= _CORES_ARE_SHORT and used <= _NOT_ALL * min(measures.cores, used + waited):
        return [f"Other programs have the cores: {waited:.1f} of its threads wait for one."]
    return []


def _broken(measures: PipelineMeasures) -> StageMeasures | None:
    """Return a stage that gives up all of its items, if nothing comes out of the pipeline."""
    if measures.delivered:
        return None
    return next((stage for stage in measures.stages if stage.lost >= 1), None)


def _items_are_lost(measures: PipelineMeasures) -> list[str]:
    """Return what is to be said whatever limits the pipeline: a quick one that loses data is no good one."""
    return [
        f"{stage.name!r} fails on {percent(stage.lost)} of its items, which are given up: "
        f"{'`Pipeline.failures()` and the log say' if measures.loader is None else 'the log says'} why."
        for stage in measures.stages
        if stage.lost >= _MANY_ARE_LOST
    ]


def _some_hang(measures: PipelineMeasures) -> list[str]:
    """Return that an op takes a slot for long, though others go on."""
    return [
        f"An op of {stage.name!r} has run for {duration(stage.oldest)}, where one takes {duration(stage.seconds)} "
        "otherwise: `spdl stack` shows its line."
        for stage in measures.stages
        if stage.seconds and stage.oldest >= max(_HANGS_SECONDS, _HANGS_TIMES * stage.seconds)
    ]


def _decide(measures: PipelineMeasures) -> Verdict:
    return (
        _stopped(measures)
        or _hang(measures)
        or _hung(measures)
        or _begun(measures)
        or taken_out(measures)
        or _slow_consumer(measures)
        or _retries(measures)
        or _held_back(measures)
        or saturated(measures)
        or short_of_bytes(measures)
        or _gone(measures)
        or Verdict(
            "none",
            "",
            f"The consumer waits {percent(measures.consumer_waits)} of the time, but no stage is in use for more than "
            f"{percent(max((stage.occupancy for stage in measures.stages), default=0.0))} of it.",
            f"{watch_longer(measures)} Or measure each stage alone with `spdl profile`.",
        )
    )


def _stopped(measures: PipelineMeasures) -> Verdict | None:
    if not measures.is_stopped:
        return None
    return Verdict(
        "hang",
        "",
        "A signal (Ctrl-Z, SIGSTOP) or a debugger has stopped the process.",
        "`kill -CONT PID` lets it go on.",
    )


def _hang(measures: PipelineMeasures) -> Verdict | None:
    if (
        measures.ending is not None
        or measures.delivered
        or not measures.consumer_waits
        or any(part.rate for part in measures.stages)
    ):
        return None
    for stage in reversed(measures.stages):
        oldest = _oldest(measures, stage)
        if oldest >= max(_HANGS_SECONDS, _HANGS_TIMES * stage.seconds):
            others = f"where one takes {duration(stage.seconds)} otherwise" if stage.seconds else "none has ended yet"
            return Verdict(
                "hang",
                stage.name,
                f"An op has run for {duration(oldest)}, {others}, and nothing else moves.",
                "`spdl stack` shows its line; `pipe(..., timeout=..., on_timeout='drop')` gives such items up.",
            )
    for source in measures.sources:
        if source.oldest >= _HANGS_SECONDS and not source.rate:
            return Verdict(
                "hang",
                source.name,
                f"Its next() has not returned for {duration(source.oldest)}, and nothing else moves.",
                "`spdl stack` shows its line.",
            )
    return None


def _hung(measures: PipelineMeasures) -> Verdict | None:
    """Return that an op did not end before the process was killed."""
    if measures.ending is None:
        return None
    usual = {stage.name: stage.seconds for stage in measures.stages}
    for name, oldest in reversed(measures.ending.oldest):
        seconds = usual.get(name, 0.0)
        if oldest < max(_HANGS_SECONDS, _HANGS_TIMES * seconds):
            continue
        for_so_long = f"for {duration(oldest)}, or longer"
        if name not in usual:
            said, remedy = f"Its next() had not returned {for_so_long}", ""
        else:
            others = f"where one takes {duration(seconds)} otherwise" if seconds else "none had ended yet"
            said = f"An op had run {for_so_long}, {others}"
            remedy = "; `pipe(..., timeout=..., on_timeout='drop')` gives such items up"
        return Verdict("hang", name, f"{said}, and nothing else moved.", f"`spdl stack` shows its item{remedy}.")
    return None


def _oldest(measures: PipelineMeasures, stage: StageMeasures) -> float:
    """Return for how many seconds the oldest op of a stage has run, or must have."""
    # Which coroutine or process began when is not known, but none of them has ended while the consumer waited.
    elsewhere = stage.served_by in ("loop", "executor") and stage.occupancy > 0
    return max(stage.oldest, measures.consumer_waits_for if elsewhere else 0.0)


def _begun(measures: PipelineMeasures) -> Verdict | None:
    """Return that nothing is known yet of a pipeline in whose first ops all of it waits."""
    if (
        measures.ending is not None
        or measures.delivered
        or not measures.consumer_waits
        or any(part.rate for part in measures.stages)
    ):
        return None
    first = [stage for stage in measures.stages if not stage.seconds and _oldest(measures, stage)]
    if not first:
        return None
    return Verdict(
        "none",
        first[-1].name,
        f"Its first op has run for {duration(_oldest(measures, first[-1]))}, and none has ended yet.",
        watch_longer(measures),
    )


def _gone(measures: PipelineMeasures) -> Verdict | None:
    """Return that nothing is known of a pipeline that was gone before any of its ops had ended."""
    if measures.ending is None or measures.delivered or any(part.rate for part in measures.stages):
        return None
    return Verdict("none", "", "No op had ended.", watch_longer(measures))


def _slow_consumer(measures: PipelineMeasures) -> Verdict | None:
    # One that waits for the GIL does not wait for items, but finds none either.
    if measures.consumer_waits >= _HARDLY_WAITS:
        return None
    # Where the items are large, fewer of them are all that may be there.
    few = measures.short_of_bytes >= MOSTLY and measures.sink_fill * measures.sink_capacity >= _FULL
    if measures.sink_fill < _FULL and not few:
        return None
    headroom = gain_bound(measures, None, consumer=False)
    could = f" The loader could give {headroom:.1f} times as much." if math.isfinite(headroom) and headroom > 1 else ""
    # The stage before holds in its slots what it has finished and has no place.
    waiting = max(0, measures.sink_size - measures.sink_capacity)
    more = f", and {waiting:,} more wait for one" if waiting else ""
    room = ", and `max_bytes` leaves room for no more" if few else ""
    collective = (
        f" If the step waits in a collective for another of the {measures.world_size:,} ranks, the loader of that one "
        "may be the limit: `spdl why` without a PID looks at all ranks on this machine."
        if measures.world_size > 1
        else ""
    )
    return Verdict(
        "slow consumer",
        "",
        f"The training loop waits {percent(measures.consumer_waits)} of the time for data: "
        f"{measures.sink_size - waiting} of {measures.sink_capacity} places hold finished items{more}{room}.{could}",
        f"{FASTER_STEP}{collective}",
        predicted_gain=1.0,
    )


def _retries(measures: PipelineMeasures) -> Verdict | None:
    failing = [stage for stage in measures.stages if stage.failing >= _FAILING and stage.occupancy >= _FAILS_BUSILY]
    if not failing:
        return None
    stage = max(failing, key=lambda stage: stage.failing)
    in_slots = stage.occupancy * stage.concurrency
    without = stage.rate * stage.seconds / in_slots
    # What failing costs the CPU goes as well, so the cores are no bound.
    enough = stage.rate * measures.seconds >= _ENOUGH_TO_PREDICT
    gain = min(gain_bound(measures, stage, cores=False), 1 / without) if enough and without > 0 else None
    return Verdict(
        "retries",
        stage.name,
        f"{percent(stage.failing)} of its ops fail and are tried again; they and the pauses between them take "
        f"{percent(1 - without)} of its {slots(stage)}.",
        "`Pipeline.failures()` and the log say why: repair that, or lower `retries` and `retry_delay`.",
        predicted_gain=gain,
    )


def _held_back(measures: PipelineMeasures) -> Verdict | None:
    held = [stage for stage in measures.stages if stage.held >= _HELD]
    if not held:
        return None
    stage = max(held, key=lambda stage: stage.held)
    gain = min(gain_bound(measures, stage), 1 / stage.occupancy) if stage.occupancy else None
    oldest = f" The oldest has run for {duration(stage.oldest)}." if stage.oldest > stage.seconds else ""
    return Verdict(
        "held back by order",
        stage.name,
        f"{percent(stage.held)} of the time it starts nothing, since finished items wait for an earlier one "
        f"({stage.buffered} now).{oldest}",
        "`output_order='completion'` lets finished items pass; or have such items take less time.",
        predicted_gain=gain,
    )

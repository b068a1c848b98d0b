"""Decides what limits a pipeline: the verdict on a window."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.observe._verdict.loader_words import in_words_of_loader
from spdl.observe._verdict.saturated import saturated, short_of_cores, taken_out
from spdl.observe._verdict.verdict import (
    HARDLY_WAITS,
    Verdict,
    duration,
    gain_bound,
    others_have_cores,
    percent,
    slots,
    watch_longer,
)

if TYPE_CHECKING:
    from spdl.observe._window.window import StageWindow, Window


FASTER_STEP = "Make the training step faster; a faster loader gains nothing."
"""The remedy of a slow consumer that waits for nobody."""

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
# An op hangs if nothing moves, and it has run for this number of seconds and this many times longer than others.
_HANGS_SECONDS = 2.0
_HANGS_TIMES = 10
# Beginnings of iterations that take this share of the time are looked at.
_NOTABLE = 0.1
# Bytes are the limit if they are short for at least this share of the time.
_MOSTLY_SHORT = 0.5
# The recommendation goes this far beyond the present bytes in flight: results differ in size.
_BYTES_MARGIN = 1.15


def verdict(window: Window) -> Verdict:
    """Return what limits a pipeline, by what it did between two samples. It knows nothing else, and changes nothing.

    ``spdl why``, ``spdl top``, ``statistics()``, the tuner and the loaders' remedies all have it from here.

    Args:
        window: What `watch` returns, for example.

    Returns:
        The verdict. It never raises.

    Example:
        >>> import os
        >>> from spdl.observe import find_pipelines, verdict, watch
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(1000)).add_sink(2).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     item = pipeline.get_item()
        ...     found = verdict(watch(find_pipelines(os.getpid())[0], seconds=0.2))
        >>> # If other programs have the cores, the kind is another one.
        >>> found.kind  # doctest: +SKIP
        'slow consumer'
    """
    found = _decide(window)
    if (broken := _broken(window)) is not None:
        # A pipeline that delivers nothing gains nothing by speed.
        remedy = f"Repair {broken.name!r} first: nothing comes out of it."
        found = replace(found, remedy=remedy, settings={}, bound=None)
    elif window.loader is not None:
        found = in_words_of_loader(found, window, window.loader)
    beside = [*_ended(window), *_cores_are_short(window), *_items_are_lost(window)]
    if found.kind not in ("hang", "held back by order"):
        beside += _some_hang(window)
    if window.ending is not None:
        # It is not known any more whether its threads waited, for a core or for something else.
        found = replace(found, bound=None)
    return replace(found, evidence=" ".join([found.evidence, *beside])) if beside else found


def _ended(window: Window) -> list[str]:
    ending = window.ending
    if ending is None:
        return []
    gone = "The process was killed" if ending.state == "killed" else "The pipeline has ended"
    works = ", ".join(f"{name!r} ({count})" for name, count in ending.at_work)
    said = (
        f"{gone}, and all of this is of the time from its start until it was seen last, {duration(ending.seconds)} "
        f"later: the loop had taken {ending.delivered:,} items, and {works or 'nothing'} was at work."
    )
    return [said]


def _cores_are_short(window: Window) -> list[str]:
    if not others_have_cores(window):
        return []
    return [f"Other programs have the cores: {window.cores_waited_for:.1f} of its threads wait for one."]


def _broken(window: Window) -> StageWindow | None:
    if window.delivered:
        return None
    return next((stage for stage in window.stages if stage.lost >= 1), None)


def _items_are_lost(window: Window) -> list[str]:
    """Return a remark that is made whatever limits the pipeline: a quick one that loses data is not a good one."""
    return [
        f"{stage.name!r} fails on {percent(stage.lost)} of its items, which are given up: "
        f"{'`Pipeline.failures()` and the log say' if window.loader is None else 'the log says'} why."
        for stage in window.stages
        if stage.lost >= _MANY_ARE_LOST
    ]


def _some_hang(window: Window) -> list[str]:
    return [
        f"An op of {stage.name!r} has run for {duration(stage.oldest)}, where one takes {duration(stage.seconds)} "
        "otherwise: `spdl stack` shows its line."
        for stage in window.stages
        if stage.seconds and stage.oldest >= max(_HANGS_SECONDS, _HANGS_TIMES * stage.seconds)
    ]


def _decide(window: Window) -> Verdict:
    return (
        _stopped(window)
        or _hang(window)
        or _hung(window)
        or _begun(window)
        or taken_out(window)
        or _starts(window)
        or _slow_consumer(window)
        or _retries(window)
        or _held_back(window)
        or saturated(window)
        or _short_of_bytes(window)
        or _gone(window)
        or short_of_cores(window)
        or Verdict(
            "none",
            "",
            f"The consumer waits {percent(window.consumer_waits)} of the time, but no stage is in use for more than "
            f"{percent(max((stage.occupancy for stage in window.stages), default=0.0))} of it.",
            f"{watch_longer(window)} Or measure each stage alone with `spdl profile`.",
        )
    )


def _stopped(window: Window) -> Verdict | None:
    if not window.is_stopped:
        return None
    return Verdict(
        "hang",
        "",
        "A signal (Ctrl-Z, SIGSTOP) or a debugger has stopped the process.",
        "`kill -CONT PID` lets it go on.",
    )


def _stands_still(window: Window) -> bool:
    """Return whether the consumer of a pipeline waits, and nothing has come out of any part of it."""
    moves = window.delivered or any(part.rate for part in window.stages)
    return window.ending is None and not moves and bool(window.consumer_waits)


def _hang(window: Window) -> Verdict | None:
    if not _stands_still(window):
        return None
    for stage in reversed(window.stages):
        oldest = _oldest(window, stage)
        if oldest >= max(_HANGS_SECONDS, _HANGS_TIMES * stage.seconds):
            others = f"where one takes {duration(stage.seconds)} otherwise" if stage.seconds else "none has ended yet"
            return Verdict(
                "hang",
                stage.name,
                f"An op has run for {duration(oldest)}, {others}, and nothing else moves.",
                "`spdl stack` shows its line; `pipe(..., timeout=..., on_timeout='drop')` gives such items up.",
            )
    for source in window.sources:
        if source.oldest >= _HANGS_SECONDS and not source.rate:
            return Verdict(
                "hang",
                source.name,
                f"Its next() has not returned for {duration(source.oldest)}, and nothing else moves.",
                "`spdl stack` shows its line.",
            )
    return None


def _hung(window: Window) -> Verdict | None:
    """Return that an op did not end before the process was killed."""
    if window.ending is None:
        return None
    usual = {stage.name: stage.seconds for stage in window.stages}
    for name, oldest in reversed(window.ending.oldest):
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


def _oldest(window: Window, stage: StageWindow) -> float:
    """Return for how many seconds the oldest op of a stage has run, or must have."""
    # Which coroutine or process began when is not known, but none of them has ended while the consumer waited.
    elsewhere = stage.served_by in ("loop", "executor") and stage.occupancy > 0
    return max(stage.oldest, window.consumer_waits_for if elsewhere else 0.0)


def _begun(window: Window) -> Verdict | None:
    """Return that nothing is known yet of a pipeline in whose first ops all of it waits."""
    if not _stands_still(window):
        return None
    first = [stage for stage in window.stages if not stage.seconds and _oldest(window, stage)]
    if not first:
        return None
    return Verdict(
        "none",
        first[-1].name,
        f"Its first op has run for {duration(_oldest(window, first[-1]))}, and none has ended yet.",
        watch_longer(window),
    )


def _gone(window: Window) -> Verdict | None:
    if window.ending is None or window.delivered or any(part.rate for part in window.stages):
        return None
    return Verdict("none", "", "No op had ended.", watch_longer(window))


def _starts(window: Window) -> Verdict | None:
    """Return that iterations take long to begin and to end, if that is more than the waiting in them."""
    waited = (1 - window.starting) * window.consumer_waits
    if window.starting < max(_NOTABLE, waited):
        return None
    return Verdict(
        "start",
        "",
        f"{percent(window.starting)} of all time goes to the beginnings and the ends of iterations, when workers start "
        "and stop.",
        "Keep the workers from one iteration to the next, or have longer iterations.",
        bound=1 / (1 - window.starting) if window.starting < 1 else None,
    )


def _slow_consumer(window: Window) -> Verdict | None:
    # One that waits for the GIL does not wait for items, but finds none either.
    if window.consumer_waits >= HARDLY_WAITS:
        return None
    # If the items are large, there is no room for more of them.
    few = window.short_of_bytes >= _MOSTLY_SHORT and window.sink_fill * window.sink_capacity >= _FULL
    if window.sink_fill < _FULL and not few:
        return None
    headroom = gain_bound(window, consumer=False)
    could = f" The loader could give {headroom:.1f} times as much." if math.isfinite(headroom) and headroom > 1 else ""
    # The stage before holds in its slots what it has finished and has no place.
    waiting = max(0, window.sink_size - window.sink_capacity)
    more = f", and {waiting:,} more {'waits' if waiting == 1 else 'wait'} for one" if waiting else ""
    # For its whole life, the mean says more than the rest that is left.
    finished = window.sink_size - waiting if window.looked else round(window.sink_fill * window.sink_capacity)
    room = ", and `max_bytes` leaves room for no more" if few else ""
    collective = (
        f" If the step waits in a collective for another of the {window.world_size:,} ranks, the loader of that one "
        "may be the limit: `spdl why` without a PID looks at all ranks on this machine."
        if window.world_size > 1
        else ""
    )
    return Verdict(
        "slow consumer",
        "",
        f"The training loop waits {percent(window.consumer_waits)} of the time for data: "
        f"{finished} of {window.sink_capacity} places hold finished items{more}{room}.{could}",
        f"{FASTER_STEP}{collective}",
        bound=1.0,
    )


def _retries(window: Window) -> Verdict | None:
    failing = [stage for stage in window.stages if stage.failing >= _FAILING and stage.occupancy >= _FAILS_BUSILY]
    if not failing:
        return None
    stage = max(failing, key=lambda stage: stage.failing)
    in_slots = stage.occupancy * stage.concurrency
    without = min(1.0, stage.rate * stage.seconds / in_slots)
    # Failing ops use the CPU as well, so the cores are not a bound.
    enough = stage.rate * window.seconds >= _ENOUGH_TO_PREDICT
    # All slots could be in ops that succeed, one after the other.
    by_slots = stage.concurrency / (stage.rate * stage.seconds) if stage.rate * stage.seconds else math.inf
    gain = min(gain_bound(window, stage, cores=False), by_slots) if enough and without > 0 else None
    return Verdict(
        "retries",
        stage.name,
        f"{percent(stage.failing)} of its ops fail and are tried again; they and the pauses between them take "
        f"{percent(1 - without)} of its {slots(stage)}.",
        "`Pipeline.failures()` and the log say why: repair that, or lower `retries` and `retry_delay`.",
        bound=gain,
    )


def _held_back(window: Window) -> Verdict | None:
    held = [stage for stage in window.stages if stage.held >= _HELD]
    if not held:
        return None
    stage = max(held, key=lambda stage: stage.held)
    gain = min(gain_bound(window, stage), 1 / stage.occupancy) if stage.occupancy else None
    oldest = f" The oldest has run for {duration(stage.oldest)}." if stage.oldest > stage.seconds else ""
    now = f" ({stage.buffered} now)" if stage.buffered else ""
    return Verdict(
        "held back by order",
        stage.name,
        f"{percent(stage.held)} of the time it starts nothing, since finished items wait for an earlier one{now}."
        f"{oldest}",
        "`output_order='completion'` lets finished items pass; or have such items take less time.",
        bound=gain,
    )


def _short_of_bytes(window: Window) -> Verdict | None:
    if not window.max_bytes or window.short_of_bytes < _MOSTLY_SHORT:
        return None
    stage = _running_most(window)
    if stage is not None:
        name, used = stage.name, f"its {slots(stage)} {'is' if stage.concurrency == 1 else 'are'} in use"
        share, bound = stage.occupancy, gain_bound(window, stage)
    else:
        source = max(window.sources, key=lambda source: source.busy)
        name, used = source.name, "its next() takes"
        share, bound = source.busy, gain_bound(window, source=False)
    gain = min(bound, 1 / share) if share > 0 else None
    wanted = _enough_bytes(max(window.max_bytes, window.peak_bytes) * (2.0 if gain is None else gain))
    return Verdict(
        "memory budget",
        name,
        f"{percent(window.short_of_bytes)} of the time another item might not have fitted into the "
        f"{window.max_bytes:,} bytes of `max_bytes`, and {used} only {percent(share)} of it.",
        f"`max_bytes={wanted:_}`, or make the items smaller before they are kept.",
        settings={"max_bytes": wanted},
        bound=gain,
    )


def _enough_bytes(wanted: float) -> int:
    """Return a number of bytes to recommend: somewhat more, in two digits."""
    least = math.ceil(wanted * _BYTES_MARGIN)
    unit = int("1" + "0" * (len(str(least)) - 2)) if least >= 100 else 1  # noqa: PLR2004
    return math.ceil(least / unit) * unit


def _running_most(window: Window) -> StageWindow | None:
    """Return the stage that would run more ops: the one that runs most, as its ops take the most time for each item.

    None if there are only sources.
    """
    stages = [stage for stage in window.stages if not stage.gathers]
    return max(stages, key=lambda stage: stage.occupancy * stage.concurrency, default=None)

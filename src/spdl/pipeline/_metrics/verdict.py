"""What limits a pipeline, why, and what to do about it: decided from measures over a short time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .measures import PipelineMeasures, StageMeasures

__all__ = ["KINDS", "Verdict", "decide"]

# The kinds of verdicts, each with what it says.
KINDS = {
    "none": "nothing is saturated",
    "GIL": "the ops hold the GIL, so threads do not run side by side",
    "CPU": "the ops compute, and their slots or the cores are all in use",
    "oversubscription": "more threads want to compute than there are cores",
    "I/O": "the ops wait for a disk, the network or another process",
    "serial source": "the source's next() takes all the time",
    "held back by order": "finished items wait for an earlier one",
    "slow consumer": "the training loop is slower than the loader",
    "batching": "making batches takes all the time",
    "transfer": "copying to the device takes all the time",
    "retries": "ops fail and are tried again",
    "hang": "nothing moves, and an op does not end",
}

# A part that is in use for at least this share of the time is the limit.
_SATURATED = 0.85
# Parts that are in use about as much differ by this share of the time.
_SAME = 0.03
# A consumer that waits less than this share of the time is the limit itself.
_HARDLY_WAITS = 0.05
# It finds this share of the sink's places full, at least.
_FULL = 0.5
# An ordered stage that is held back for at least this share of the time is so by the order.
_HELD = 0.3
# A stage of whose ops this share fails, and whose slots are in use for that share of the time, is slow because of it.
_FAILING, _FAILS_BUSILY = 0.2, 0.6
# An op hangs if nothing moves, and it has run for so many seconds and so many times longer than others.
_HANGS_SECONDS = 2.0
_HANGS_TIMES = 10
# Threads that wait for another thread for this share of their ops' time, and more than for anything else, while the
# process uses hardly more than a core and one of them computes or would if a core was free, wait for the GIL.
_WAITS_FOR_GIL = 0.1
_SOME_OF_A_CORE, _ONE_CORE = 0.5, 1.4
# They need not be in ops for more than this share of the time.
_FIGHTS = 0.3
# The ops compute if they do for this share of their time, or want to and do for half as much: cores are short.
_COMPUTES = 0.6
# More threads than cores want to run if there are so many for each core; of their CPU time, this share at least is that
# of threads which ops have started.
_CROWDED = 1.5
_OTHERS = 0.25

# No more ops at once are recommended: there may be a limit that was not seen.
_MOST_CONCURRENCY = 64
# What is recommended goes so far beyond what the next limit needs.
_MARGIN = 1.3

_TRANSFERS = re.compile(r"transfer|to_device|to_gpu|to_cuda|h2d|pin_memory|device_put", re.IGNORECASE)
_COLLATES = re.compile(r"collate|stack|to_batch|make_batch", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits a pipeline.

    Attributes:
        kind: One of `KINDS`.
        stage: The name of the stage or source; empty if it is none.
        evidence: How one can tell.
        remedy: What to do.
        settings: What the remedy sets, by name, where it is a number to set.
        predicted_gain: How many times faster the pipeline is then, at most the next limit; None if nobody can tell.

    Example:
        >>> from spdl.observe import Verdict
        >>> Verdict("I/O", "fetch", "Its 2 slots wait.", "`concurrency=8`.", {"concurrency": 8}, 4.0).sentence()
        "I/O. 'fetch': Its 2 slots wait. `concurrency=8`. Predicted: 4.00x as fast."
    """

    kind: str
    stage: str
    evidence: str
    remedy: str
    settings: Mapping[str, int] = field(default_factory=dict)
    predicted_gain: float | None = None

    def sentence(self) -> str:
        """Return all of it in words."""
        where = f"{self.stage!r}: " if self.stage else ""
        gain = "" if self.predicted_gain is None else f" Predicted: {self.predicted_gain:.2f}x as fast."
        return f"{self.kind[0].upper()}{self.kind[1:]}. {where}{self.evidence} {self.remedy}{gain}"


def decide(measures: PipelineMeasures) -> Verdict:
    """Return what limits a pipeline."""
    return (
        _hang(measures)
        or _slow_consumer(measures)
        or _retries(measures)
        or _held_back(measures)
        or _saturated(measures)
        or Verdict(
            "none",
            "",
            f"The consumer waits {_percent(measures.consumer_waits)} of the time, but no stage is in use for more than "
            f"{_percent(max((stage.occupancy for stage in measures.stages), default=0.0))} of it.",
            "Watch for longer (`--seconds`), or measure each stage alone with `spdl profile`.",
        )
    )


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} microseconds"  # noqa: PLR2004


# ---- nothing moves ----


def _hang(measures: PipelineMeasures) -> Verdict | None:
    if measures.delivered or not measures.consumer_waits or any(part.rate for part in measures.stages):
        return None
    for stage in reversed(measures.stages):
        if stage.oldest >= max(_HANGS_SECONDS, _HANGS_TIMES * stage.seconds):
            usual = f", where one takes {_duration(stage.seconds)} otherwise" if stage.seconds else ""
            return Verdict(
                "hang",
                stage.name,
                f"An op has run for {_duration(stage.oldest)}{usual}, and nothing else moves.",
                "`py-spy dump --pid` shows its stack; `pipe(..., timeout=..., on_timeout='drop')` gives such items up.",
            )
    for source in measures.sources:
        if source.oldest >= _HANGS_SECONDS and not source.rate:
            return Verdict(
                "hang",
                source.name,
                f"Its next() has not returned for {_duration(source.oldest)}, and nothing else moves.",
                "`py-spy dump --pid` shows its stack.",
            )
    return None


# ---- limits outside of the stages' slots ----


def _slow_consumer(measures: PipelineMeasures) -> Verdict | None:
    # One that waits for the GIL does not wait for items, but finds none either.
    if measures.consumer_waits >= _HARDLY_WAITS or measures.sink_fill < _FULL:
        return None
    headroom = _bound(measures, None, consumer=False)
    could = f" The loader could give {headroom:.1f} times as much." if math.isfinite(headroom) and headroom > 1 else ""
    return Verdict(
        "slow consumer",
        "",
        f"The training loop waits {_percent(measures.consumer_waits)} of the time for data: "
        f"{measures.sink_size} of {measures.sink_capacity} places hold finished items.{could}",
        "Make the training step faster; a faster loader gains nothing.",
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
    gain = min(_bound(measures, stage, cores=False), 1 / without) if without > 0 else None
    return Verdict(
        "retries",
        stage.name,
        f"{_percent(stage.failing)} of its ops fail and are tried again; they and the pauses between them take "
        f"{_percent(1 - without)} of its {_slots(stage)}.",
        "`Pipeline.failures()` and the log say why: repair that, or lower `retries` and `retry_delay`.",
        predicted_gain=gain,
    )


def _held_back(measures: PipelineMeasures) -> Verdict | None:
    held = [stage for stage in measures.stages if stage.held >= _HELD]
    if not held:
        return None
    stage = max(held, key=lambda stage: stage.held)
    gain = min(_bound(measures, stage), 1 / stage.occupancy) if stage.occupancy else None
    oldest = f" The oldest has run for {_duration(stage.oldest)}." if stage.oldest > stage.seconds else ""
    return Verdict(
        "held back by order",
        stage.name,
        f"{_percent(stage.held)} of the time it starts nothing, since finished items wait for an earlier one "
        f"({stage.buffered} now).{oldest}",
        "`output_order='completion'` lets finished items pass; or have such items take less time.",
        predicted_gain=gain,
    )


# ---- a part that is saturated ----


def _saturated(measures: PipelineMeasures) -> Verdict | None:
    stages = [stage for stage in measures.stages if stage.occupancy >= _SATURATED]
    sources = [source for source in measures.sources if source.busy >= _SATURATED]
    if stages:
        # Of those in use about as much, the one nearest the sink: what is in front of it may be so because of it.
        most = max(stage.occupancy for stage in stages)
        return _stage_is_the_limit(measures, [stage for stage in stages if stage.occupancy >= most - _SAME][-1])
    if sources:
        return _source_is_the_limit(measures)
    if measures.busy_threads >= _SATURATED * measures.num_threads and measures.stages:
        return _threads_are_the_limit(measures)
    # Threads that wait for the GIL do so between ops, too.
    fighting = [stage for stage in measures.stages if _holds_gil(measures, stage) and stage.occupancy >= _FIGHTS]
    if fighting:
        return _stage_is_the_limit(measures, max(fighting, key=lambda stage: stage.occupancy * stage.concurrency))
    return None


def _source_is_the_limit(measures: PipelineMeasures) -> Verdict:
    source = max(measures.sources, key=lambda source: source.busy)
    seconds = source.busy / source.rate if source.rate else 0.0
    bound = _bound(measures, None, source=False)
    return Verdict(
        "serial source",
        source.name,
        f"Its next() takes {_percent(source.busy)} of the time, {_duration(seconds)} for each item, one after the "
        "other.",
        "Yield only names or numbers there, and do the work in a stage: "
        f"`pipe(work, concurrency={_needed(bound, 1)})`.",
        settings={"concurrency": _needed(bound, 1)},
        predicted_gain=min(bound, float(_needed(bound, 1))),
    )


def _stage_is_the_limit(measures: PipelineMeasures, stage: StageMeasures) -> Verdict:
    bound = _bound(measures, stage)
    verb = "is" if stage.concurrency == 1 else "are"
    busy = f"Its {_slots(stage)} {verb} in use {_percent(stage.occupancy)} of the time"
    if _is_crowded(measures):
        return _crowded(measures, stage, busy)
    if _holds_gil(measures, stage):
        cores = max(1, int(measures.cores))
        gain = min(bound, max(1.0, measures.cores / max(measures.cores_used, 1e-9)))
        return Verdict(
            "GIL",
            stage.name,
            f"{busy}, but its ops wait for another thread {_percent(stage.waits_for_thread)} of it, and the process "
            f"uses {measures.cores_used:.1f} of {measures.cores:g} cores: they hold the GIL.",
            f"Run it in processes, `pipe(..., executor=ProcessPoolExecutor({cores}))`, or call a library that releases "
            "the GIL.",
            settings={"processes": cores},
            predicted_gain=gain,
        )
    if _TRANSFERS.search(stage.name) or _TRANSFERS.search(stage.op):
        return _more_slots(measures, stage, "transfer", f"{busy}, {_duration(stage.seconds)} for each copy.")
    if stage.gathers or _is_collating(measures, stage):
        return _more_slots(measures, stage, "batching", f"{busy}, {_duration(stage.seconds)} for each batch.")
    computes = f", and compute for {_percent(stage.cpu)} of it"
    if _is_computing(stage):
        return _computes(measures, stage, f"{busy}{computes}: {_duration(stage.seconds)} for each item.")
    return _more_slots(
        measures, stage, "I/O", f"{busy}{computes}: they wait, {_duration(stage.seconds)} for each item."
    )


def _holds_gil(measures: PipelineMeasures, stage: StageMeasures) -> bool:
    waits = stage.waits_for_thread
    return (
        measures.gil
        and waits >= max(_WAITS_FOR_GIL, stage.waits)
        and stage.runs * stage.occupancy * stage.concurrency >= _SOME_OF_A_CORE
        and measures.cores_used <= _ONE_CORE
    )


def _is_crowded(measures: PipelineMeasures) -> bool:
    wanted = measures.cores_used + measures.cores_waited_for
    return wanted >= _CROWDED * measures.cores and measures.cores_used_by_others >= _OTHERS * measures.cores_used


def _crowded(measures: PipelineMeasures, stage: StageMeasures, busy: str) -> Verdict:
    wanted = measures.cores_used + measures.cores_waited_for
    return Verdict(
        "oversubscription",
        stage.name,
        f"{busy}, and its ops have threads of their own: {wanted:.0f} threads want {measures.cores:g} cores.",
        "Let its ops compute in one thread each (`OMP_NUM_THREADS=1`, `cv2.setNumThreads(0)`, "
        f"`torch.set_num_threads(1)`), with `concurrency={max(1, int(measures.cores))}`.",
        settings={"concurrency": max(1, int(measures.cores)), "threads_per_op": 1},
        predicted_gain=None,
    )


def _is_collating(measures: PipelineMeasures, stage: StageMeasures) -> bool:
    if _COLLATES.search(stage.name) or _COLLATES.search(stage.op):
        return True
    index = measures.stages.index(stage)
    return index > 0 and measures.stages[index - 1].gathers and stage.concurrency == 1


def _is_computing(stage: StageMeasures) -> bool:
    return stage.cpu >= _COMPUTES or (stage.runs >= _COMPUTES and stage.cpu >= _COMPUTES / 2)


def _computes(measures: PipelineMeasures, stage: StageMeasures, evidence: str) -> Verdict:
    free = measures.cores - measures.cores_used - measures.cores_waited_for
    per_slot = max(stage.cpu, stage.runs, 0.1)
    if stage.adjustable and free >= 0.5 * per_slot:
        # Another slot finds a core.
        bound = min(_bound(measures, stage), measures.cores / max(measures.cores_used, 1e-9))
        concurrency = max(stage.concurrency + 1, math.floor(stage.concurrency + free / per_slot + 0.25))
        gain = min(bound, concurrency / stage.concurrency)
        limits = _limits(measures, stage, concurrency, gain)
        return Verdict(
            "CPU",
            stage.name,
            f"{evidence} {free:.1f} of {measures.cores:g} cores are free.",
            f"{_in_words(limits)}, if its ops release the GIL (`spdl profile` says it).",
            settings=limits,
            predicted_gain=gain,
        )
    return Verdict(
        "CPU",
        stage.name,
        f"{evidence} The process uses {measures.cores_used:.1f} of {measures.cores:g} cores.",
        "Compute less for each item, or give it more cores: with so many ops at once they are all in use.",
        predicted_gain=1.0,
    )


def _more_slots(measures: PipelineMeasures, stage: StageMeasures, kind: str, evidence: str) -> Verdict:
    bound = _bound(measures, stage)
    if not stage.adjustable:
        return Verdict(
            kind,
            stage.name,
            evidence,
            "Move the work into a stage of its own behind it: `pipe(work, concurrency=...)`.",
            predicted_gain=bound if math.isfinite(bound) else None,
        )
    concurrency = _needed(bound, stage.concurrency)
    gain = min(bound, concurrency / stage.concurrency)
    limits = _limits(measures, stage, concurrency, gain)
    return Verdict(kind, stage.name, evidence, f"{_in_words(limits)}.", settings=limits, predicted_gain=gain)


def _threads_are_the_limit(measures: PipelineMeasures) -> Verdict:
    stage = max(measures.stages, key=lambda stage: stage.occupancy * stage.concurrency)
    threads = measures.num_threads
    wanted = min(_MOST_CONCURRENCY, sum(each.concurrency for each in measures.stages if each.served_by == "threads"))
    evidence = f"All {threads} threads are in ops, mostly of this stage."
    if _holds_gil(measures, stage):
        kind, gain = "GIL", 1.0
        remedy = "More threads gain nothing: run it in processes."
    elif _is_computing(stage):
        kind, gain = "CPU", max(1.0, min(measures.cores / max(measures.cores_used, 1e-9), wanted / threads))
        remedy = f"`num_threads={max(threads + 1, math.ceil(measures.cores))}`, if the ops release the GIL."
    else:
        kind, gain = "I/O", min(_bound(measures, stage), wanted / threads)
        remedy = f"Its ops wait: `num_threads={wanted}`."
    return Verdict(kind, stage.name, evidence, remedy, settings={"num_threads": wanted}, predicted_gain=gain)


# ---- predictions ----


def _bound(
    measures: PipelineMeasures,
    limit: StageMeasures | None,
    *,
    source: bool = True,
    consumer: bool = True,
    cores: bool = True,
) -> float:
    """Return how many times faster the pipeline could be: what the next limit allows.

    Args:
        measures: What is known.
        limit: The stage that is to be no limit any more.
        source: Whether the sources remain as they are.
        consumer: Whether the consumer does.
        cores: Whether it computes as much for each item as now.
    """
    shares = [stage.occupancy for stage in measures.stages if stage is not limit]
    if source:
        shares += [each.busy for each in measures.sources]
    if consumer:
        # While it does not wait, it works.
        shares.append(1 - measures.consumer_waits)
    greatest = max(shares, default=0.0)
    by_parts = 1 / greatest if greatest > 0 else math.inf
    by_cores = measures.cores / measures.cores_used if cores and measures.cores_used > 0 else math.inf
    return max(1.0, min(by_parts, by_cores))


def _needed(bound: float, concurrency: int) -> int:
    """Return how many slots are enough for the next limit to be reached."""
    wanted = min(bound * _MARGIN, _MOST_CONCURRENCY) * concurrency
    return max(concurrency + 1, min(_MOST_CONCURRENCY, math.ceil(wanted)))


def _limits(measures: PipelineMeasures, stage: StageMeasures, concurrency: int, gain: float) -> dict[str, int]:
    """Return the concurrency to set, and the number of threads if more ops would run at once then than there are."""
    limits = {"concurrency": concurrency}
    others = (each for each in measures.stages if each is not stage and each.served_by == "threads")
    threads = concurrency + sum(math.ceil(min(1.0, each.occupancy * gain) * each.concurrency) for each in others)
    if stage.served_by == "threads" and threads > measures.num_threads:
        limits["num_threads"] = threads
    return limits


def _in_words(limits: Mapping[str, int]) -> str:
    return " and ".join(f"`{name}={limit}`" for name, limit in limits.items())


def _slots(stage: StageMeasures) -> str:
    return "only slot" if stage.concurrency == 1 else f"{stage.concurrency} slots"

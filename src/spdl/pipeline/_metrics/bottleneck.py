"""Which part of a pipeline limits its throughput, in one sentence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spdl._cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .statistics import StageStatistics

__all__ = ["bottleneck"]

# A resource in use for at least this share of the time is called the limit.
_SATURATED = 0.8
# The last stage waits for the consumer at least this share of the time before the consumer is called the limit.
_HELD_UP = 0.5
# Bytes are short for at least this share of the time before they are called the limit, while the consumer waits for at
# least that share of it.
_SHORT, _WAITS = 0.5, 0.05


def bottleneck(  # noqa: PLR0911 - one per verdict.
    sources: Sequence[StageStatistics],
    inner: Sequence[StageStatistics],
    sink: StageStatistics,
    *,
    elapsed: float,
    num_threads: int,
    thread_seconds: float,
    reading: str = "",
    max_bytes: int = 0,
    seconds_short_of_bytes: float = 0.0,
    slots: Sequence[str] = (),
) -> str:
    """Say what limits the throughput and how one can tell.

    Args:
        sources: The sources.
        inner: The stages, the last one in front of the sink.
        sink: The sink.
        elapsed: Seconds that the pipeline has run.
        num_threads: How many synchronous ops may run at once.
        thread_seconds: Time that these threads spent in ops: none in those of the event loop or of executors.
        reading: What slows reading down, which is told where something waits for it; with a space before it.
        max_bytes: The bytes that the items in the pipeline may keep; 0 if they are not bounded.
        seconds_short_of_bytes: Time in which something was not made since it might not have fitted.
        slots: What the user of a ready-made loader calls the slots of each stage.
    """
    if elapsed <= 0 or not any(source.num_emitted for source in sources):
        return "Nothing has run yet."
    source = max(sources, key=lambda source: source.busy_share)
    last = inner[-1] if inner else source
    short = seconds_short_of_bytes / elapsed if max_bytes else 0.0
    if held_up := _by_the_consumer(last, sink, elapsed, short, max_bytes):
        return held_up
    cores = available_cores()
    used = sum(stage.cpu_seconds for stage in inner) / elapsed
    busiest = max(inner, key=lambda stage: stage.busy_share, default=None)
    if busiest is not None and used >= _SATURATED * cores:
        heaviest = max(inner, key=lambda stage: stage.cpu_seconds)
        per_item = heaviest.cpu_seconds / max(1, heaviest.num_completed + heaviest.num_failed)
        return (
            f"The CPU is the limit: the ops use {used:.1f} of {cores:g} cores, most of it in stage {heaviest.name!r} "
            f"({_duration(per_item)} of CPU per item)."
        )
    if busiest is not None and busiest.busy_share >= _SATURATED:
        place = inner.index(busiest)
        slot = slots[place] if place < len(slots) else "slot"
        in_use = f"its only {slot} was" if busiest.concurrency == 1 else f"its {busiest.concurrency} {slot}s were"
        return (
            f"Stage {busiest.name!r} is the limit: {in_use} busy {_percent(busiest.busy_share)} of the time.{reading}"
        )
    if source.busy_share >= _SATURATED:
        name = "The source" if len(sources) == 1 else f"Source {source.name!r}"
        return f"{name} is the limit: its next() took {_percent(source.busy_share)} of the time.{reading}"
    threads = thread_seconds / (elapsed * num_threads)
    if threads >= _SATURATED:
        if num_threads == 1:
            return f"The only thread is the limit: it ran ops {_percent(threads)} of the time.{reading}"
        return f"The threads are the limit: all {num_threads} of them ran ops {_percent(threads)} of the time.{reading}"
    if short >= _SHORT:
        where = (
            "" if busiest is None else f", while stage {busiest.name!r} was busy {_percent(busiest.busy_share)} of it"
        )
        return (
            f"`max_bytes` is the limit: {_percent(short)} of the time another item might not have fitted into its "
            f"{max_bytes:,} bytes{where}. Raise it, or make the items smaller."
        )
    if busiest is None:
        return f"Nothing is saturated: the source's next() took {_percent(source.busy_share)} of the time.{reading}"
    return (
        f"Nothing is saturated: stage {busiest.name!r} is the busiest, {_percent(busiest.busy_share)} of the time. "
        "If the CPU is busy all the same, ops wait for each other"
        f"{_or_for_the_gil(by_loader=bool(slots))}.{reading}"
    )


def _or_for_the_gil(*, by_loader: bool) -> str:
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # New in Python 3.13.
        return ""
    # A profile is of a pipeline that the user declares.
    return ", or for the GIL" if by_loader else ", or for the GIL: `spdl profile` says which of them hold it"


def _by_the_consumer(last: StageStatistics, sink: StageStatistics, elapsed: float, short: float, max_bytes: int) -> str:
    """Say that the consumer is the limit, if it is: what it has not read yet leaves no place, or no bytes."""
    if short >= _SHORT:
        # The last stage may wait for bytes that others have.
        if sink.starved_seconds >= _WAITS * elapsed:
            return ""
        return (
            f"The consumer is the limit: {_percent(short)} of the time what it had not read yet left no room for "
            f"another item in the {max_bytes:,} bytes of `max_bytes`."
        )
    if last.blocked_seconds < _HELD_UP * elapsed:
        return ""
    return (
        f"The consumer is the limit: the sink's {sink.queue_capacity} places were taken "
        f"{_percent(last.blocked_seconds / elapsed)} of the time."
    )


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"


def _duration(seconds: float) -> str:
    milliseconds = seconds * 1e3
    return f"{milliseconds:.2f} ms" if milliseconds > 0.1 else f"{milliseconds * 1e3:.1f} microseconds"  # noqa: PLR2004

"""The page of a report."""

from __future__ import annotations

from math import ceil, log10
from typing import TYPE_CHECKING

from .chart import draw
from .document import document, heading, paragraph, picture, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._report.statistics import PipelineStatistics, StageStatistics

    from .history import Sample

__all__ = ["page"]

_COLUMNS = (
    "stage",
    "gets from",
    "queue",
    "full",
    "slots",
    "busy",
    "per second",
    "completed",
    "passed on",
    "failed",
    "dropped",
    "retried",
    "too late",
    "in ops",
    "of it CPU",
    "waits for an item",
    "waits for a place",
    "held back",
)
# Columns that have only these are left out.
_NOTHING = {"", "0", "0 s"}


def page(title: str, samples: Sequence[Sample]) -> str:
    """Return the page as a document of HTML that loads nothing.

    Args:
        title: What it is called.
        samples: What was read of the pipeline, the oldest first, at least one.
    """
    return document(title, _parts(samples))


def _parts(samples: Sequence[Sample]) -> Iterator[str]:
    last = samples[-1].statistics
    yield paragraph(last.bottleneck)
    yield _figures(last)
    yield heading("Stages")
    yield paragraph(
        "From the start on. Stages get their items from a queue, which was so full on average. Seconds are those of all"
        " slots. What never happened has no column.",
        note=True,
    )
    rows = [_row(last, place) for place in range(len(last.stages))]
    shown = [index for index, column in enumerate(zip(*rows, strict=True)) if not set(column) <= _NOTHING]
    yield table([_COLUMNS[index] for index in shown], ([row[index] for index in shown] for row in rows))
    # One sample is of no time: then there is nothing to draw over time.
    same = [sample for sample in samples if len(sample.statistics.stages) == len(last.stages)]
    if len(same) > 1 and last.stages:
        yield heading("Over time")
        png = draw(same)
        if png is None:
            yield paragraph("Drawing it needs matplotlib: pip install 'spdl-turbo[demo]'")
        else:
            yield picture(png, "Items per second, shares of the time, and items in the queue of each stage")


def _figures(statistics: PipelineStatistics) -> str:
    sink = statistics.stages[-1]
    figures = {
        "run time": f"{_number(statistics.elapsed)} s",
        "items read": f"{sink.num_emitted:,}",
        "per second": _number(sink.items_per_second),
        "consumer waited": _share(sink.starved_seconds, statistics.elapsed),
        "source items in flight": f"{statistics.in_flight:,}",
        "items failed": f"{sum(stage.num_failed for stage in statistics.stages):,}",
    }
    return table(list(figures), [list(figures.values())])


def _row(statistics: PipelineStatistics, place: int) -> list[str]:
    stage = statistics.stages[place]
    is_sink = place == len(statistics.stages) - 1
    givers = [statistics.stages[giver].name for giver, taker in statistics.edges if taker == place]
    counts = (
        stage.num_completed,
        stage.num_emitted,
        stage.num_failed,
        stage.num_dropped,
        stage.num_retried,
        stage.num_overdue,
    )
    seconds = (
        stage.busy_seconds,
        stage.cpu_seconds,
        stage.starved_seconds,
        stage.blocked_seconds,
        stage.held_seconds,
    )
    return [
        stage.name,
        ", ".join(givers),
        *_queue(stage),
        f"{stage.concurrency:,}",
        "" if is_sink else f"{stage.busy_share:.0%}",
        _number(stage.items_per_second),
        *(f"{count:,}" for count in counts),
        *(f"{_number(each)} s" for each in seconds),
    ]


def _queue(stage: StageStatistics) -> tuple[str, str]:
    return (f"{stage.queue_capacity:,}", f"{stage.queue_fill:.0%}") if stage.queue_capacity else ("", "")


def _share(seconds: float, of: float) -> str:
    return f"{min(1.0, seconds / of):.0%}" if of > 0 else "0%"


def _number(value: float) -> str:
    """Return a number as people read it: three digits, and thousands apart."""
    if value == 0:
        return "0"
    digits = 3 - ceil(log10(abs(value)))
    if digits <= 0:
        return f"{value:,.0f}"
    return f"{value:.{min(digits, 6)}f}".rstrip("0").rstrip(".")

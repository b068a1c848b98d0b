"""The page of a report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .chart import Line, chart, number
from .graph import graph
from .series import stage_series
from .style import STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._metrics.statistics import PipelineStatistics

    from .history import Sample

__all__ = ["page"]

_LEGEND = (
    ("busy", "in ops"),
    ("starved", "waits for an item"),
    ("blocked", "waits for a place"),
    ("held", "held back by an earlier item"),
)


def page(title: str, samples: Sequence[Sample]) -> str:
    """Return the page as a document of HTML that loads nothing.

    Args:
        title: What it is called.
        samples: What was read of the pipeline, the oldest first, at least one.
    """
    last = samples[-1].statistics
    # One sample is of no time: then there is nothing to draw over time.
    over_time = _over_time(samples) if len(samples) > 1 and last.stages else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="verdict">{escape(last.bottleneck)}</p>
{_figures(last)}
<h2>Stages</h2>
<p class="note">From the start on. The percentage beside an arrow is how full the queue was on average.</p>
{graph(last)}
{over_time}
<h2>Totals</h2>
{_table(last)}
</main>
</body>
</html>
"""


def _figures(statistics: PipelineStatistics) -> str:
    sink = statistics.stages[-1]
    waited = min(1.0, sink.starved_seconds / statistics.elapsed) if statistics.elapsed > 0 else 0.0
    figures = (
        (f"{number(statistics.elapsed)} s", "run time"),
        (f"{sink.num_emitted:,}", "items read"),
        (f"{number(sink.items_per_second)}/s", "items per second"),
        (f"{100 * waited:.0f} %", "of the time the consumer waited"),
        (f"{statistics.in_flight:,}", "source items in flight"),
        (f"{sum(stage.num_failed for stage in statistics.stages):,}", "items failed"),
    )
    shown = "".join(f"<div><b>{value}</b><span>{meaning}</span></div>" for value, meaning in figures)
    return f'<div class="figures">{shown}</div>'


def _over_time(samples: Sequence[Sample]) -> str:
    last = samples[-1].statistics
    same = [sample for sample in samples if len(sample.statistics.stages) == len(last.stages)]
    seconds = same[-1].at
    rows = []
    for place, stage in enumerate(last.stages):
        series = stage_series(same, place)
        is_sink = place == len(last.stages) - 1
        items = chart(
            "items per second", [Line("items per second", "items", series.items, filled=True)], seconds=seconds
        )
        waits = [Line("waits for an item", "starved", series.starved)]
        if not is_sink:
            waits = [
                Line("in ops", "busy", series.busy, filled=True),
                *waits,
                Line("waits for a place", "blocked", series.blocked),
                Line("held back by an earlier item", "held", series.held),
            ]
        shares = chart("shares of the time", waits, seconds=seconds, most=1.0, percent=True)
        queue = ""
        if stage.queue_capacity:
            highest = max(stage.queue_capacity, *(value or 0.0 for _, value in series.queue))
            queue = chart(
                "items in the queue", [Line("items", "queue", series.queue, filled=True)], seconds=seconds, most=highest
            )
        name = "consumer" if is_sink else stage.name
        rows.append(f"<tr><th>{escape(name)}</th><td>{items}</td><td>{shares}</td><td>{queue}</td></tr>")
    legend = "".join(f'<span><i class="key {style}"></i>{meaning}</span>' for style, meaning in _LEGEND)
    return f"""<h2>Over time</h2>
<p class="legend">{legend}</p>
<div class="wide"><table class="charts">
<thead><tr><th></th><th>items per second</th><th>shares of the time</th><th>items in front of it</th></tr></thead>
<tbody>{"".join(rows)}</tbody>
</table></div>"""


_COLUMNS = (
    ("stage", "text"),
    ("slots", "number"),
    ("completed", "number"),
    ("passed on", "number"),
    ("failed", "number"),
    ("dropped", "number"),
    ("retried", "number"),
    ("too late", "number"),
    ("in ops", "number"),
    ("of it CPU", "number"),
    ("waits for an item", "number"),
    ("waits for a place", "number"),
    ("held back", "number"),
)


def _table(statistics: PipelineStatistics) -> str:
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind in _COLUMNS)
    rows = []
    for stage in statistics.stages:
        counts = (
            stage.concurrency,
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
        cells = [f"{count:,}" for count in counts] + [f"{number(each)} s" for each in seconds]
        shown = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        rows.append(f"<tr><th>{escape(stage.name)}</th>{shown}</tr>")
    return f"""<div class="wide"><table class="totals">
<thead><tr>{head}</tr></thead>
<tbody>{"".join(rows)}</tbody>
</table></div>"""

"""The statistics of a pipeline over time, and the report of it: a page of HTML."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from io import BytesIO
from itertools import pairwise
from math import ceil, log10
from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_path, check_seconds, check_str, refuse
from spdl._files import replaced
from spdl.observe._export.observed import Observed, Ticker, UntilClosed
from spdl.pipeline._report.sample import SHOWN, StageSample, shown_fields

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spdl.pipeline._report.statistics import PipelineStatistics, StageStatistics


# More would show no more on a page. An even number, as every second one is dropped.
_MOST_SAMPLES = 1000


class Sample(NamedTuple):
    """The statistics at one moment.

    Example:
        >>> from spdl.observe import Sample
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
        >>> Sample(at=1.5, statistics=pipeline.statistics()).at
        1.5
    """

    at: float
    """Seconds since the history began."""
    statistics: PipelineStatistics
    """What the pipeline had done by then."""


class History(UntilClosed):
    """Reads a pipeline's statistics at intervals, in its own daemon thread, for a report.

    It reads from its construction until `close`, or the end of a ``with`` block, and keeps the pipeline alive until
    then. However long that is, it keeps at most a thousand samples: if there are more, it drops every second one and
    reads half as often. Reading takes no lock, and some fifty microseconds.

    Args:
        pipeline: A pipeline or a loader.
        interval: Seconds from one reading to the next.

    Raises:
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.observe import History
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with History(pipeline) as history, pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> [sample.statistics.stages[-1].num_completed for sample in history.samples()]
        [0, 3]
    """

    def __init__(self, pipeline: Observed, *, interval: float = 0.5) -> None:
        if not isinstance(pipeline, Observed):
            refuse(TypeError, "pipeline", "a pipeline or a loader", pipeline)
        seconds = check_seconds("interval", interval, above_zero=True)
        self._pipeline: Observed | None = pipeline
        self._began_at = time.monotonic()
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        # One reading in this number is kept.
        self._stride = 1
        self._readings = 0
        self._read()
        self._ticker = Ticker(self._read_some, seconds, "spdl_history")

    def _read(self) -> None:
        pipeline = self._pipeline
        if pipeline is None:
            return
        sample = Sample(time.monotonic() - self._began_at, pipeline.statistics())
        with self._lock:
            self._samples.append(sample)
            if len(self._samples) > _MOST_SAMPLES:
                # The first one and the last one stay.
                del self._samples[1::2]
                self._stride *= 2

    def _read_some(self) -> None:
        self._readings += 1
        if not self._readings % self._stride:
            self._read()

    def samples(self) -> list[Sample]:
        """Return what was read so far, the oldest first."""
        with self._lock:
            return list(self._samples)

    def close(self) -> None:
        """Read once more, and end. The samples stay. Further calls do nothing."""
        if self._ticker.close():
            self._read()
            self._pipeline = None


# Points of a curve: the time, and the value. The line is broken at None.
Curve = list[tuple[float, float | None]]


class StageSeries(NamedTuple):
    """The work of one stage over time: results per second, shares of the time, and items that wait in front of it."""

    items: Curve
    busy: Curve
    starved: Curve
    blocked: Curve
    held: Curve
    queue: Curve


def stage_series(samples: Sequence[Sample], place: int) -> StageSeries:
    series = StageSeries([], [], [], [], [], [])
    series.queue.extend((sample.at, float(sample.statistics.stages[place].queue_size)) for sample in samples)
    for before, after in pairwise(samples):
        old, new = before.statistics.stages[place], after.statistics.stages[place]
        seconds = new.elapsed - old.elapsed
        if seconds == 0:
            # It has not begun, or has ended.
            continue
        if seconds < 0:
            # A loader's next epoch, which counts from 0 again.
            for curve in series[:-1]:
                curve.append((after.at, None))
            continue
        series.items.append((after.at, (new.num_emitted - old.num_emitted) / seconds))
        # Ops count at their end, so one may have taken longer than from one sample to the next.
        offered = seconds * new.concurrency
        series.busy.append((after.at, min(1.0, (new.busy_seconds - old.busy_seconds) / offered)))
        for curve, field in (
            (series.starved, "starved_seconds"),
            (series.blocked, "blocked_seconds"),
            (series.held, "held_seconds"),
        ):
            share = (getattr(new, field) - getattr(old, field)) / seconds
            curve.append((after.at, max(0.0, min(1.0, share))))
    return series


# The hues differ for eyes that confuse red and green, too.
_SHARES = (
    ("busy", "in ops", "#2f74c0"),
    ("starved", "waits for an item", "#7d8790"),
    ("blocked", "waits for a place", "#d9822b"),
    ("held", "held back by an earlier item", "#8e5bb5"),
)
_ITEMS, _QUEUE = "#2a8f7a", "#5b7fa6"
_WIDTH, _HEIGHT = 11.0, 1.25
_NAME = 40


def draw(samples: Sequence[Sample]) -> bytes | None:
    """Return a picture in PNG with a row for each stage of at least two samples; None without matplotlib."""
    # If the home folder is not writable, matplotlib would report at length which folder it uses instead.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        # pyplot is not used: it would choose a window system and keep the figure alive.
        from matplotlib.figure import Figure  # noqa: PLC0415 - takes half a second, and need not be installed.
    except ImportError:
        return None
    stages = samples[-1].statistics.stages
    figure = Figure(figsize=(_WIDTH, 0.8 + _HEIGHT * len(stages)), dpi=110, layout="constrained")
    panels = figure.subplots(len(stages), 3, squeeze=False, sharex=True)
    for place, (stage, row) in enumerate(zip(stages, panels, strict=True)):
        is_sink = place == len(stages) - 1
        _draw_stage(row, stage_series(samples, place), queue_capacity=stage.queue_capacity, is_sink=is_sink)
        name = "consumer" if is_sink else stage.name
        # A dollar would begin a formula. Half a character cannot be drawn.
        shown = name.encode("utf-8", "replace").decode()
        shown = shown if len(shown) <= _NAME else f"{shown[: _NAME - 3]}..."
        row[0].set_title(shown, loc="left", fontsize=9, fontweight="bold", parse_math=False)
    for axes, what in zip(panels[0], ("items per second", "shares of the time", "items in front of it"), strict=True):
        axes.set_title(what, loc="right", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("seconds", fontsize=9)
    lines, names = panels[0][1].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(_SHARES), fontsize=9, frameon=False)
    file = BytesIO()
    with warnings.catch_warnings():
        # Of characters that the font lacks, a box is drawn.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(file, format="png")
    return file.getvalue()


def _draw_stage(row: Sequence[Axes], series: StageSeries, *, queue_capacity: int, is_sink: bool) -> None:
    items, shares, queue = row
    _line(items, series.items, _ITEMS, filled=True)
    for field, name, colour in _SHARES:
        if not is_sink or field == "starved":
            _line(shares, getattr(series, field), colour, name=name, filled=field == "busy")
    shares.set_ylim(0, 1.02)
    if queue_capacity:
        _line(queue, series.queue, _QUEUE, filled=True)
        queue.set_ylim(0, 1.05 * max(queue_capacity, *(value or 0.0 for _, value in series.queue)))
    else:
        queue.set_axis_off()
    items.set_ylim(bottom=0)
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)


def _line(axes: Axes, curve: Curve, colour: str, *, name: str | None = None, filled: bool = False) -> None:
    times = [at for at, _ in curve]
    values = [float("nan") if value is None else value for _, value in curve]
    # A point between two gaps does not make a line.
    axes.plot(times, values, color=colour, label=name, linewidth=1.2, marker="." if len(curve) < 3 else None)  # noqa: PLR2004
    if filled:
        axes.fill_between(times, values, color=colour, alpha=0.2, linewidth=0)


# All totals that have a heading, as the description of counters has them, behind the first columns.
_TOTALS = [field for field in shown_fields(StageSample) if field.is_total and field.shown.column]
_TOTALS.sort(key=lambda field: field.name in SHOWN)
_COLUMNS = (
    *("stage", "gets from", "queue", "full", "slots", "busy", "per second"),
    *(field.shown.column for field in _TOTALS),
)
# Columns that have only these are left out.
_NOTHING = {"", "0", "0 s"}


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p { overflow-wrap: anywhere; } .note { color: #5c6670; font-size: .9rem; }
.scroll { overflow-x: auto; } img { max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid #d8dee4; }
th { font-weight: 500; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; min-width: 7rem; overflow-wrap: anywhere; }
td + td + td { white-space: nowrap; }
"""


def _document(title: str, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body></html>\n",
        ]
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = [row("th", header), *(row("td", cells) for cells in rows)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _parts(samples: Sequence[Sample]) -> Iterator[str]:
    last = samples[-1].statistics
    yield f"<p>{escape(last.bottleneck)}</p>"
    yield _figures(last)
    yield "<h2>Stages</h2>"
    yield (
        '<p class="note">From the start on. Stages get their items from a queue, whose mean fill is shown. Seconds are'
        " those of all slots. What never happened has no column.</p>"
    )
    rows = [_row(last, place) for place in range(len(last.stages))]
    shown = [index for index, column in enumerate(zip(*rows, strict=True)) if not set(column) <= _NOTHING]
    yield _table([_COLUMNS[index] for index in shown], ([row[index] for index in shown] for row in rows))
    # One sample is of no time: then there is nothing to draw over time.
    same = [sample for sample in samples if len(sample.statistics.stages) == len(last.stages)]
    if len(same) > 1 and last.stages:
        yield "<h2>Over time</h2>"
        png = draw(same)
        if png is None:
            yield "<p>Drawing it needs matplotlib: pip install 'spdl-turbo[demo]'</p>"
        else:
            shows = "Items per second, shares of the time, and items in the queue of each stage"
            yield f'<img alt="{shows}" src="data:image/png;base64,{b64encode(png).decode()}">'


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
    return _table(list(figures), [list(figures.values())])


def _row(statistics: PipelineStatistics, place: int) -> list[str]:
    stage = statistics.stages[place]
    is_sink = place == len(statistics.stages) - 1
    givers = [statistics.stages[giver].name for giver, taker in statistics.edges if taker == place]
    return [
        stage.name,
        ", ".join(givers),
        *_queue(stage),
        f"{stage.concurrency:,}",
        "" if is_sink else f"{stage.busy_share:.0%}",
        _number(stage.items_per_second),
        *(_total(getattr(stage, field.statistic), field.shown.unit) for field in _TOTALS),
    ]


def _total(value: float, unit: str) -> str:
    if unit == "By":
        return f"{_number(value / 2**20)} MiB" if value else "0"
    return f"{_number(value)} s" if unit == "s" else f"{value:,}"


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


def write_report(observed: Observed | History, path: str | os.PathLike[str], *, title: str = "SPDL pipeline") -> None:
    """Write what a pipeline did as a page of HTML that needs no network, no server and nothing else.

    The page has the sentence on what limits the pipeline, and a table of its stages with all counts, how busy each was
    and how full its queue. Made of a `History`, it also has charts over time: items per second, what the slots of each
    stage did or waited for, and the items in front of it. These are drawn by matplotlib (``pip install
    'spdl-turbo[demo]'``). Without it, the page has no charts and mentions that.

    Args:
        observed: A history, or a pipeline or a loader, whose totals are shown.
        path: The path of the page. An existing file is replaced when the page is whole.
        title: The heading of the page.

    Raises:
        OSError: If the file cannot be written.
        TypeError: If an argument is not as described.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from spdl.observe import History, write_report
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with History(pipeline) as history, pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> with TemporaryDirectory() as folder:
        ...     write_report(history, Path(folder, "report.html"))
        ...     Path(folder, "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        True
    """
    check_path("path", path)
    title = check_str("title", title)
    if isinstance(observed, History):
        samples = observed.samples()
    elif isinstance(observed, Observed):
        statistics: PipelineStatistics = observed.statistics()
        samples = [Sample(statistics.elapsed, statistics)]
    else:
        refuse(TypeError, "observed", "a History, a pipeline or a loader", observed)
    # A name given by the user may hold half a character, which cannot be written as UTF-8.
    text = _document(title, _parts(samples)).encode("utf-8", "replace")
    with replaced(path) as file:
        file.write(text)

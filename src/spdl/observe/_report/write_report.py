"""The report of a pipeline: a page of HTML."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from io import BytesIO
from math import ceil, log10
from typing import TYPE_CHECKING

from spdl._check import check_path, check_str, refuse
from spdl._files import replaced
from spdl.observe._export.observed import Observed
from spdl.observe._report.document import document, heading, paragraph, picture, table
from spdl.observe._report.history import Curve, History, Sample, StageSeries, stage_series
from spdl.pipeline._report.sample import SHOWN, StageSample, shown_fields

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spdl.pipeline._report.statistics import PipelineStatistics, StageStatistics


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
    """Return a picture in PNG with a row for each stage; None without matplotlib.

    Args:
        samples: At least two samples of pipelines with the same stages.
    """
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


def page(title: str, samples: Sequence[Sample]) -> str:
    """Return the page as a document of HTML that loads nothing.

    Args:
        title: The heading of the page.
        samples: The samples of the pipeline, the oldest first, at least one.
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
    text = page(title, samples).encode("utf-8", "replace")
    with replaced(path) as file:
        file.write(text)

"""Draws what a pipeline did over time."""

from __future__ import annotations

import logging
import warnings
from io import BytesIO
from typing import TYPE_CHECKING

from .series import stage_series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from .history import Sample
    from .series import Curve, StageSeries

__all__ = ["draw"]

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
        samples: What was read, at least twice, of pipelines with the same stages.
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
    # A point between two gaps is no line.
    axes.plot(times, values, color=colour, label=name, linewidth=1.2, marker="." if len(curve) < 3 else None)  # noqa: PLR2004
    if filled:
        axes.fill_between(times, values, color=colour, alpha=0.2, linewidth=0)

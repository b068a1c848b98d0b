"""The bar chart of a comparison, as report.png."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from spdl.cli._demo.measures import CHARTED, MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spdl.cli._demo.comparison import Comparison, Contender
    from spdl.cli._demo.measures import Measure

OURS = "#0b7a5c"
OTHERS = "#9aa5b1"


def draw_chart(comparison: Comparison, title: str) -> bytes:
    """Draw one panel of bars per charted measure, starting at zero, with ours in colour, and return it as PNG."""
    # pyplot is not used: it would choose a window system and keep the figure alive.
    num_bars = len(comparison.contenders)
    figure = Figure(
        figsize=(12.5, 1.5 + 0.62 * num_bars), dpi=150, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    )
    figure.suptitle(title, fontsize=13, fontweight="bold")
    panels = figure.subplots(1, len(CHARTED), sharey=True)
    panels[0].invert_yaxis()
    for axes, key in zip(panels, CHARTED, strict=True):
        _draw(axes, MEASURES[key], comparison)
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _draw(axes: Axes, measure: Measure, comparison: Comparison) -> None:
    ours = comparison.contenders[0]
    values = [(measure.of(it) or 0.0) / measure.axis_unit for it in comparison.contenders]
    names = [it.environment.label for it in comparison.contenders]
    bars = axes.barh(names, values, color=[OURS if it is ours else OTHERS for it in comparison.contenders], height=0.62)
    labels = [_label(measure, ours, it) for it in comparison.contenders]
    axes.bar_label(bars, labels, padding=4, fontsize=10)
    axes.set_title(measure.heading, fontsize=11, loc="left")
    # Leave room for the labels, and keep the zero line visible.
    axes.set_xlim(0, 1.75 * max(values) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _position: f"{value:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=11)


def _label(measure: Measure, ours: Contender, contender: Contender) -> str:
    cell = measure.cell(contender)
    return cell if contender is ours else f"{cell}\nours: {measure.verdict(ours, contender)}"

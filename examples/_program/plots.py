"""Plots of results: panels of lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

OURS = ("#0b7a5c", "#3fb98f", "#8fd6bd", "#5b8c00", "#00607a")
OTHERS = ("#b4532a", "#6b7684", "#d59a2b", "#4a6fa5", "#8a5a9e")
COLUMNS = 2
"""Panels beside each other. A page is 46 em wide; more panels could not be read there."""
MARKED = 12
"""The most points of a line that are marked."""


@dataclass(frozen=True)
class Line:
    """The figures of one contender.

    Attributes:
        x: The horizontal positions of the figures.
        y: The figures.
        ours: Whether the line is about this package, which has its own colours.
    """

    x: Sequence[float]
    y: Sequence[float]
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Attributes:
        title: The title above the axes.
        x_label: The label of the horizontal axis.
        y_label: The label of the vertical axis, with its unit. The axis begins at zero.
        lines: The lines by their names in the legend. The same name has the same colour in all panels.
        doubling: Whether the horizontal axis grows in powers of two, as numbers of workers do.
    """

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Line] = field(default_factory=dict)
    doubling: bool = False


def draw(panels: Sequence[Panel], title: str, file: Path) -> None:
    """Draw panels in rows of at most two, with one legend below them, and write them to a file."""
    # pyplot is not used: it would choose a window system and keep the figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - only drawing needs it.
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = -(-len(panels) // COLUMNS)
    columns = -(-len(panels) // rows)
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    legend_columns = max(1, min(len(names), int(3.9 * columns * 10 / (12 + max(map(len, names), default=1)))))
    legend_rows = -(-len(names) // legend_columns)
    width = max(6.4, 3.9 * columns)
    figure = Figure(figsize=(width, 0.7 + 3.3 * rows + 0.25 * legend_rows), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False)
    colours = colours_of(panels)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel, colours)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if len(names) > 1:
        figure.legend(
            [handles[name] for name in names], names, loc="outside lower center", ncols=legend_columns, frameon=False
        )
    figure.savefig(file)


def colours_of(panels: Sequence[Panel]) -> dict[str, str]:
    """Return the colour of each line by its name in the legend. No two names have the same.

    Raises:
        ValueError: There are more lines than colours.
    """
    names = dict.fromkeys(name for panel in panels for name in panel.lines)
    ours = {name for panel in panels for name, line in panel.lines.items() if line.ours}
    if len(ours) > len(OURS) or len(names) - len(ours) > len(OTHERS):
        raise ValueError(f"there are {len(names)} lines and fewer colours: add one to OURS or OTHERS")
    palettes = {True: iter(OURS), False: iter(OTHERS)}
    return {name: next(palettes[name in ours]) for name in names}


def _draw(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    for name, line in panel.lines.items():
        axes.plot(
            line.x,
            line.y,
            label=name,
            color=colours[name],
            linewidth=2.2 if line.ours else 1.6,
            marker="o" if len(line.x) <= MARKED else None,
            markersize=4,
        )
    values = sorted({x for line in panel.lines.values() for x in line.x})
    if panel.doubling:
        axes.set_xscale("log", base=2)
    if len(values) <= MARKED:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
    axes.set_ylim(bottom=0, top=1.08 * max((y for line in panel.lines.values() for y in line.y), default=1) or 1)
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,g}")
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylabel(panel.y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.5, color="#e3e7ec")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)

"""The plots of a report: throughput against workers, the cost of a loader at its best, steps beside each loader."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from _data_formats_plots import figure as formats_figure
from _loader_contenders import BARE, OURS
from _loader_turns import MAIN_STEP, STEPS
from _report_tables import best
from _turns import is_ours
from noisy_neighbour import NO_LOADER, PERCENTILES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Result = dict[str, Any]

OUR_COLOURS = dict(zip(OURS, ("#0b7a5c", "#4cb392"), strict=True))
OTHERS = "#8c96a3"
WIDTH = 9.5
"""Inches: the text is still read where a page shows the picture in a column of prose."""
COSTS = {
    "images_per_second": "images per second",
    "cpu_ms_per_image": "CPU milliseconds per image",
    "memory_mib": "memory, MiB",
    "first_seconds": "seconds to the first batch",
}


def loaders(result: Result) -> Figure:
    """Draw images per second against workers, for each step that was tried with several numbers of workers."""
    tried: dict[str, dict[str, list[int]]] = {}
    for row in result["rows"]:
        tried.setdefault(row["step"], {}).setdefault(row["contender"], []).append(row["workers"])
    steps = [step for step in STEPS if any(len(it) > 1 for it in tried.get(step, {}).values())] or [MAIN_STEP]
    lines = (len(steps) + 2) // 2  # Of two panels each, the last of which is the legend.
    whole, panels = plt.subplots(lines, 2, figsize=(WIDTH, 4 * lines), sharey=True, squeeze=False, layout="constrained")
    for axes in panels.flat[len(steps) :]:
        axes.set_axis_off()
    for axes, step in zip(panels.flat, steps, strict=False):
        for index, name in enumerate(result["contenders"]):
            points = sorted(
                (row["workers"], row["images_per_second"])
                for row in result["rows"]
                if row["contender"] == name and row["step"] == ("bare" if name == BARE else step)
            )
            axes.plot(*zip(*points, strict=True), **stroke(name, index), label=name) if points else None
        axes.set(xscale="log", xlabel="workers", title=step)
        counts = sorted(set().union(*tried.get(step, {}).values()))
        axes.set_xticks(counts, map(str, counts))
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
    for axes in panels[:, 0]:
        axes.set(ylabel="images per second", ylim=(0, 1.05 * max(row["images_per_second"] for row in result["rows"])))
    panels.flat[-1].legend(*panels[0][0].get_legend_handles_labels(), loc="center", frameon=False)
    return whole


def stroke(name: str, index: int) -> dict[str, Any]:
    """Return the style of a contender's line: ours stand out, the limit is dashed."""
    if name == BARE:
        return {"color": "black", "linestyle": "--"}
    if name in OUR_COLOURS:
        return {"color": OUR_COLOURS[name], "linewidth": 3, "marker": "o"}
    return {"color": mpl.colormaps["tab10"](index % 10), "marker": "o", "markersize": 4, "alpha": 0.8}


def costs(result: Result) -> Figure:
    """Draw the rate and the cost of each loader's main step at its best number of workers."""
    rows = {name: row for name in result["contenders"] if (row := best(result, name, MAIN_STEP))}
    whole, panels = plt.subplots(2, 2, figsize=(WIDTH, 1.6 + 0.55 * len(rows)), sharey=True, layout="constrained")
    for axes, (figure, label) in zip(panels.flat, COSTS.items(), strict=True):
        bars(axes, {name: row[figure] for name, row in rows.items()}, label)
    return whole


def noisy_neighbour(result: Result) -> Figure:
    """Draw the percentiles of a training loop's steps."""
    contenders = result["contenders"]
    whole, panels = plt.subplots(
        1, len(PERCENTILES), figsize=(WIDTH, 1.2 + 0.3 * len(contenders)), sharey=True, layout="constrained"
    )
    for axes, figure in zip(panels, PERCENTILES, strict=True):
        bars(axes, {name: it[figure] for name, it in contenders.items()}, f"{figure} of a step, 1: with no loader")
    return whole


def bars(axes: Axes, values: dict[str, float], label: str, others: str = OTHERS) -> None:
    """Draw one bar per contender, the first on top. A contender without a colour of its own gets that of the others."""
    ours = OUR_COLOURS[OURS[0]]
    colours = [
        OUR_COLOURS.get(name, "black" if name == NO_LOADER else ours if is_ours(name) else others) for name in values
    ]
    drawn = axes.barh(list(values), list(values.values()), color=colours)
    axes.bar_label(drawn, [number(value) for value in values.values()], padding=3)
    axes.set(xlabel=label, xlim=(0, 1.15 * max(values.values())))
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()


def number(value: float) -> str:
    """Return a number with three digits, or with as many as it has."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def engine(result: Result) -> Figure:
    """Draw the engine's rates as multiples of the released reference's, and as shares of what is possible."""
    drawn = [
        (values, label)
        for figure, beside, label in (
            ("items_per_second", "spdl 0.8.0", "times the items per second of spdl 0.8.0"),
            ("share_of_bound", None, "share of the bound that the stages' sleep sets"),
        )
        if (values := claims(result, figure, beside))
    ]
    heights = [1 + len(values) for values, _ in drawn] or [1]
    whole, panels = plt.subplots(
        len(heights),
        1,
        figsize=(WIDTH, 1 + 0.35 * sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    for axes, (values, label) in zip(panels[:, 0], drawn, strict=False):
        bars(axes, values, label, OUR_COLOURS[OURS[0]])
    return whole


def claims(result: Result, figure: str, beside: str | None) -> dict[str, float]:
    """Return the values of one kind of claim, by what was done."""
    return {
        row["title"].replace("`", ""): claim["value"]
        for row in result["rows"].values()
        for claim in row["claims"]
        if (claim["figure"], claim["beside"]) == (figure, beside)
    }


def media(result: Result) -> Figure:
    """Draw the rate of every contender, a panel for each row."""
    rows = list(result["rows"].values())
    size = (WIDTH, sum(1.2 + 0.3 * len(row["contenders"]) for row in rows))
    heights = [1 + len(row["contenders"]) for row in rows]
    whole, panels = plt.subplots(
        len(rows), 1, figsize=size, squeeze=False, layout="constrained", gridspec_kw={"height_ratios": heights}
    )
    for axes, row in zip(panels[:, 0], rows, strict=True):
        rate = row["figure"].replace("_", " ").replace("cpu second", "CPU-second")
        bars(axes, {name: it[row["figure"]] for name, it in row["contenders"].items()}, f"{rate}: {row['title']}")
    return whole


FIGURES = {
    "loaders": {"loaders": loaders, "loaders_costs": costs},
    "data_formats": {"data_formats": formats_figure},
    "engine": {"engine": engine},
    "noisy_neighbour": {"noisy_neighbour": noisy_neighbour},
    "video": {"video": media},
    "audio": {"audio": media},
}


def png_and_svg(figure: Figure) -> tuple[bytes, str]:
    """Return both pictures of a figure, and close it."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=110)
    # Leave out the date and random names, so that the same result gives the same file.
    with mpl.rc_context({"svg.hashsalt": "spdl"}):
        figure.savefig(svg, format="svg", metadata={"Date": None})
    plt.close(figure)
    drawing = svg.getvalue()
    return png.getvalue(), drawing[drawing.index("<svg") :]

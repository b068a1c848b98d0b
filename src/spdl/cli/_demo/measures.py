"""Measures of loaders, as tables and bars."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from spdl.cli._common.table import Table
from spdl.cli._common.text import number, ratio, several
from spdl.cli._demo.live_run import INTERPOLATION, RESIZE_MODE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spdl.cli._demo.comparison import Comparison, Contender
    from spdl.cli._demo.turn import Turn

HOW_MEASURED = (
    f"All resize by {RESIZE_MODE}, {INTERPOLATION}; PyTorch's DataLoader decodes with Pillow, spdl 0.8.0 with FFmpeg."
    " Each turn is a separate process; the loaders alternate; medians."
    " CPU time and memory count all processes of a loader (memory: proportional set size, libraries included)."
    " The cost of imports is not counted."
)


class Measure(NamedTuple):
    """One measure that compares the contenders.

    Attributes:
        label: The name of the measure, with its unit.
        of_turn: Returns the value for a turn, None if it was not measured.
        text: Formats a value.
        wanted: `"higher"` or `"lower"`, whichever value is better.
        axis_unit: The value that a 1 on a chart's axis stands for.
    """

    label: str
    of_turn: Callable[[Turn], float | None]
    text: Callable[[float], str]
    wanted: str
    axis_unit: int = 1

    def of(self, contender: Contender) -> float | None:
        """Return the median over a contender's turns, None if it was not measured."""
        known = [value for turn in contender.turns if (value := self.of_turn(turn)) is not None]
        return median(known) if known else None

    def advantage(self, ours: Contender, theirs: Contender) -> float | None:
        """Return how many times better our value is, None if either was not measured."""
        mine, other = self.of(ours), self.of(theirs)
        if not mine or not other:
            return None
        return mine / other if self.wanted == "higher" else other / mine

    @property
    def heading(self) -> str:
        """The heading of a chart of this measure."""
        return f"{self.label} ({self.wanted} is better)"

    def cell(self, contender: Contender) -> str:
        """Return the value as text, or `-` if it was not measured."""
        return self._shown(self.of(contender))

    def cell_of_turn(self, turn: Turn) -> str:
        """Return the value of one turn as text."""
        return self._shown(self.of_turn(turn))

    def _shown(self, value: float | None) -> str:
        return "-" if value is None else self.text(value)

    def verdict(self, ours: Contender, theirs: Contender) -> str:
        """Return in words how our value compares."""
        advantage = self.advantage(ours, theirs)
        if advantage is None:
            return "-"
        return f"{ratio(advantage)} better" if advantage >= 1 else f"{ratio(1 / advantage)} worse"


def _milliseconds(seconds: float) -> str:
    return number(seconds * 1000)


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:,.0f}"


MEASURES = {
    "images_per_second": Measure("images/s", lambda it: it.images / it.seconds, number, "higher"),
    "images_per_cpu_second": Measure("images per CPU-second", lambda it: it.images / it.cpu_seconds, number, "higher"),
    "cpu_seconds_per_image": Measure(
        "CPU time per image, ms", lambda it: it.cpu_seconds / it.images, _milliseconds, "lower"
    ),
    "first_batch_seconds": Measure("first batch after, ms", lambda it: it.first_batch_seconds, _milliseconds, "lower"),
    "peak_memory_bytes": Measure("peak memory, MiB", lambda it: it.peak_memory, _mebibytes, "lower", 2**20),
}
"""The measures, by their names in the JSON results."""
CHARTED = ("images_per_second", "images_per_cpu_second", "peak_memory_bytes")
"""The measures in the charts. The others are only in the table."""


def comparison_table(comparison: Comparison) -> Table:
    """Return the contenders side by side. Each peer's cell also says how many times better ours is."""
    ours, *peers = comparison.contenders
    turns = min(len(it.turns) for it in comparison.contenders)
    header = ["", ours.environment.label]
    workers = ["workers", several(ours.workers, ours.environment.worker)]
    for peer in peers:
        header += [peer.environment.label, "ours is"]
        workers += [several(peer.workers, peer.environment.worker), ""]
    table = Table(
        f"Side by side, medians of {several(turns, 'turn')}",
        header,
        note=HOW_MEASURED,
        highlighted=1,
        joined=range(3, len(header), 2),
    )
    table.rows.append(workers)
    for measure in MEASURES.values():
        row = [measure.label, measure.cell(ours)]
        for peer in peers:
            row += [measure.cell(peer), measure.verdict(ours, peer)]
        table.rows.append(row)
    return table


def comparison_figures(comparison: Comparison) -> dict[str, object]:
    """Return all of it for JSON. Times are in seconds, memory in bytes."""
    return {
        "interrupted": comparison.interrupted,
        "absent": comparison.absent,
        "contenders": [_contender_figures(it, comparison.contenders[0]) for it in comparison.contenders],
    }


def _contender_figures(contender: Contender, ours: Contender) -> dict[str, object]:
    return {
        "contender": contender.environment.contender,
        "name": contender.name,
        "workers": contender.workers,
        "worker": contender.environment.worker,
        "trials_images_per_second": {str(workers): rate for workers, rate in contender.trials.items()},
        "turns": [turn._asdict() for turn in contender.turns],
        "median": {key: measure.of(contender) for key, measure in MEASURES.items()},
        "spdl_turbo_is_better_by": None
        if contender is ours
        else {key: measure.advantage(ours, contender) for key, measure in MEASURES.items()},
    }


def headline(comparison: Comparison) -> str:
    """Return the outcome in one sentence."""
    ours, *peers = comparison.contenders
    measure = MEASURES["images_per_cpu_second"]
    verdicts = [f"{measure.verdict(ours, peer)} than {peer.environment.label}" for peer in peers]
    return f"{ours.environment.label}: {measure.cell(ours)} {measure.label}" + "".join(f", {it}" for it in verdicts)


OURS = "#0b7a5c"
OTHERS = "#9aa5b1"


def draw_chart(comparison: Comparison, title: str) -> bytes:
    """Draw one panel of bars per charted measure, starting at zero, with ours in colour, and return it as PNG.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - the demo does without a chart.
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415 - as above.

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
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - as above.

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

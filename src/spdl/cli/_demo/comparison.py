"""Compare contenders: they take turns over the same images. The medians of their turns, as tables and bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.text import Table, number, ratio, several
from spdl.cli._demo.live_run import INTERPOLATION, RESIZE_MODE
from spdl.cli._demo.turn import (
    Environment,
    ImageWork,
    PeerUnavailable,
    Turn,
    TurnFailed,
    own_environment,
    reference_environment,
    take_turn,
    torch_environment,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WORKERS_TRIED = (1, 2, 4, 8)
TRIAL_SECONDS = 1.0
TRIALS = 2
"""Trials of each number of workers, far apart. The better one counts, as other programs can only slow a trial down."""


@dataclass
class Contender:
    """A loader in the comparison: images/s in its best trial by number of workers, and its turns, one per round."""

    environment: Environment
    workers: int = 0
    trials: dict[int, float] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.turns[0].contender if self.turns else self.environment.label


@dataclass
class Comparison:
    """The contenders that finished, ours first, and by its label why each of the others did not."""

    contenders: list[Contender]
    absent: dict[str, str]
    interrupted: bool = False


def compare(
    work: ImageWork, *, workers: int | None, seconds: float, rounds: int, console: Console, install_large: bool
) -> Comparison:
    """Let this package, PyTorch's DataLoader and the reference load the same images in turns.

    A peer that cannot be installed or run is absent. After Ctrl-C, the rounds so far are kept. If `workers` is None,
    each is tried at 1, 2, 4 and 8 and runs at its best number.
    """
    contest = _Contest(work, console)
    try:
        contest.line_up(install_large=install_large)
        if workers is None:
            contest.choose_workers()
        else:
            for contender in contest.contenders:
                contender.workers = workers
        for index in range(rounds):
            contest.play_round(f"round {index + 1} of {rounds}", seconds)
    except KeyboardInterrupt:
        contest.interrupted = True
        console.print("interrupted: the comparison holds the turns up to then")
    return Comparison([it for it in contest.contenders if it.turns], contest.absent, contest.interrupted)


class _Contest:
    def __init__(self, work: ImageWork, console: Console) -> None:
        self._work = work
        self._console = console
        self.contenders = [Contender(own_environment())]
        self.absent: dict[str, str] = {}
        self.interrupted = False

    def line_up(self, *, install_large: bool) -> None:
        makers: dict[str, Callable[[Console], Environment]] = {
            "PyTorch DataLoader": partial(torch_environment, install=install_large),
            "spdl 0.8.0": reference_environment,
        }
        for label, make in makers.items():
            with self._console.working(f"preparing {label}"):
                try:
                    self.contenders.append(Contender(make(self._console)))
                except PeerUnavailable as reason:
                    self._leave_out(label, str(reason))

    def choose_workers(self) -> None:
        tried = ", ".join(map(str, WORKERS_TRIED))
        self._console.print(f"each loader tries {tried} workers and keeps the fastest by images/s:")
        for workers in WORKERS_TRIED * TRIALS:
            for contender in list(self.contenders):
                if turn := self._turn(contender, workers, TRIAL_SECONDS, "trial"):
                    rate = turn.images / turn.seconds
                    contender.trials[workers] = max(rate, contender.trials.get(workers, 0.0))
        for contender in self.contenders:
            contender.workers = max(contender.trials, key=contender.trials.__getitem__)
            rates = ", ".join(number(rate) for rate in contender.trials.values())
            kept = several(contender.workers, contender.environment.worker)
            self._console.print(f"  {contender.environment.label}: {rates}; keeps {kept}")

    def play_round(self, name: str, seconds: float) -> None:
        rates = []
        for contender in list(self.contenders):
            if turn := self._turn(contender, contender.workers, seconds, name):
                contender.turns.append(turn)
                rates.append(f"{contender.environment.label} {number(turn.images / turn.seconds)}")
        self._console.print(f"{name}, images/s: {', '.join(rates)}")

    def _turn(self, contender: Contender, workers: int, seconds: float, name: str) -> Turn | None:
        """Return the result of the turn. If it failed, drop the contender from the contest and return None."""
        environment = contender.environment
        try:
            with self._console.working(f"{name}: {environment.label} with {several(workers, environment.worker)}"):
                return take_turn(environment, self._work, workers=workers, seconds=seconds)
        except TurnFailed as reason:
            if contender is self.contenders[0]:
                raise CommandError(f"our own turn in the comparison failed: {reason}", exit_status=FAILED) from reason
            self.contenders.remove(contender)
            self._leave_out(environment.label, str(reason))
            return None

    def _leave_out(self, label: str, reason: str) -> None:
        self.absent[label] = reason
        self._console.print(f"{label} takes no part: {reason}")


HOW_MEASURED = (
    f"All resize by {RESIZE_MODE}, {INTERPOLATION}; PyTorch's DataLoader decodes with Pillow, spdl 0.8.0 with FFmpeg."
    " Each turn is a separate process; the loaders alternate; medians."
    " CPU time and memory count all processes of a loader (memory: proportional set size, libraries included)."
    " The cost of imports is not counted."
)


class Measure(NamedTuple):
    """One measure that compares the contenders, None for a turn in which it was not measured.

    `wanted` is "higher" or "lower", whichever is better; `axis_unit` is what a 1 on a chart's axis stands for.
    """

    label: str
    of_turn: Callable[[Turn], float | None]
    text: Callable[[float], str]
    wanted: str
    axis_unit: int = 1

    def of(self, contender: Contender) -> float | None:
        known = [value for turn in contender.turns if (value := self.of_turn(turn)) is not None]
        return median(known) if known else None

    def advantage(self, ours: Contender, theirs: Contender) -> float | None:
        mine, other = self.of(ours), self.of(theirs)
        if not mine or not other:
            return None
        return mine / other if self.wanted == "higher" else other / mine

    def cell(self, contender: Contender) -> str:
        value = self.of(contender)
        return "-" if value is None else self.text(value)

    def verdict(self, ours: Contender, theirs: Contender) -> str:
        advantage = self.advantage(ours, theirs)
        if advantage is None:
            return "-"
        return f"{ratio(advantage)} better" if advantage >= 1 else f"{ratio(1 / advantage)} worse"


def _milliseconds(seconds: float) -> str:
    return number(seconds * 1000)


MEASURES = {
    "images_per_second": Measure("images/s", lambda it: it.images / it.seconds, number, "higher"),
    "images_per_cpu_second": Measure("images per CPU-second", lambda it: it.images / it.cpu_seconds, number, "higher"),
    "cpu_seconds_per_image": Measure(
        "CPU time per image, ms", lambda it: it.cpu_seconds / it.images, _milliseconds, "lower"
    ),
    "first_batch_seconds": Measure("first batch after, ms", lambda it: it.first_batch_seconds, _milliseconds, "lower"),
    "peak_memory_bytes": Measure(
        "peak memory, MiB", lambda it: it.peak_memory, lambda it: f"{it / 2**20:,.0f}", "lower", 2**20
    ),
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
        f"Side by side, medians of {several(turns, 'turn')}", header, note=HOW_MEASURED, joined=range(3, len(header), 2)
    )
    table.rows.append(workers)
    for measure in MEASURES.values():
        row = [measure.label, measure.cell(ours)]
        for peer in peers:
            row += [measure.cell(peer), measure.verdict(ours, peer)]
        table.rows.append(row)
    return table


def comparison_figures(comparison: Comparison) -> dict[str, object]:
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
    ours, *peers = comparison.contenders
    measure = MEASURES["images_per_cpu_second"]
    verdicts = [f"{measure.verdict(ours, peer)} than {peer.environment.label}" for peer in peers]
    return f"{ours.environment.label}: {measure.cell(ours)} {measure.label}" + "".join(f", {it}" for it in verdicts)


OURS = "#0b7a5c"
OTHERS = "#9aa5b1"


def draw_chart(comparison: Comparison, title: str) -> bytes:
    """Draw one panel of bars per charted measure, starting at zero, with ours in colour, and return it as PNG."""
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
    axes.set_title(f"{measure.label} ({measure.wanted} is better)", fontsize=11, loc="left")
    # Leave room for the labels, and keep the zero line visible.
    axes.set_xlim(0, 1.75 * max(values) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _position: f"{value:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=11)


def _label(measure: Measure, ours: Contender, contender: Contender) -> str:
    cell = measure.cell(contender)
    return cell if contender is ours else f"{cell}\nours: {measure.verdict(ours, contender)}"

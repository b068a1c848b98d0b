"""A profile in readable form: a table, a plot, and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, number, printable, share
from spdl.cli._common.width import beginning, padded, width_of
from spdl.cli._profile.advice import cpu_per_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import rich.table

    from spdl.cli._common.console import Console
    from spdl.cli._profile.advice import Advice
    from spdl.pipeline import ProfileFailure, ProfileResult

NEGLIGIBLE = 0.02
"""A stage that holds the GIL for less than this share of the time keeps no other waiting."""

NAME_WIDTH = 20
BAR_WIDTH = 48
"""The most characters of a bar. On a narrow terminal it is as many as leave room for the rate behind it."""
RATE_WIDTH = 9
EIGHTHS = " ▏▎▍▌▋▊▉"

SLIGHT = 0.05
"""What handing an item over to a process takes, as a share of the op's time, is worth no remark below this."""
WORTH = 1.5
"""Processes that make a stage faster by less than this factor are not worth it."""

REMEDIES: Final = {
    "holds": (
        "holds the GIL: its ops compute one after the other, whatever the concurrency. Threads do not make it faster;"
        " processes do (pipe(..., executor=ProcessPoolExecutor())), and so do libraries that release the GIL."
    ),
    "partly": "holds the GIL part of the time: more threads help up to a point, if at all.",
    "takes turns": (
        "hardly computes, yet more threads get no more done: look for a lock, a connection that all share, a device at"
        " its limit, or native code that waits without releasing the GIL."
    ),
    "unknown": (
        "may hold the GIL or not: it was measured too shortly (raise --num-inputs), or the machine was busy with other"
        " work, or does not tell how long threads wait for cores."
    ),
}
"""The remark on a stage besides its figures, by how it shares the GIL."""


def print_profile(results: Sequence[ProfileResult], advice: Advice, cores: float, console: Console) -> None:
    """Print a profile and the advice.

    Args:
        results: The profile, with at least one stage.
        advice: The advice on it.
        cores: How many cores the process may use.
        console: The console to print on.
    """
    console.print()
    console.table(profile_table(results, advice))
    _print_plot(results, console)
    console.print()
    for result in results:
        for failure in result.failures:
            console.print(_failure(result, failure))
        if _has_choice(result) and result.gil in REMEDIES:
            console.print(f"{result.name!r} {_remark(result, advice)}")
    console.print(advice.limit)
    console.print(f"Expect {number(advice.items_per_second)} items/s from the source at best, on {cores:g} cores.")
    console.print(f"Recommended: num_threads={advice.num_threads}, and each stage's concurrency as in the table.")


def _remark(result: ProfileResult, advice: Advice) -> str:
    held = advice.items_per_second * cpu_per_item(result)
    if result.gil == "holds" and held < NEGLIGIBLE:
        return f"holds the GIL, but not for long: {held:.1%} of the time at the rate expected below."
    if result.hand_over_seconds is not None:
        return f"{REMEDIES[result.gil]}{_of_processes(result, result.hand_over_seconds)}"
    return REMEDIES[result.gil]


def _of_processes(result: ProfileResult, hand_over: float) -> str:
    """Return what limits processes as a remedy, if something does."""
    alone = min(result.stats, key=lambda it: it.concurrency)
    op = alone.busy_seconds / max(1, alone.num_inputs)
    if hand_over < SLIGHT * op:
        return ""
    pickling = f"this process pickles each item and unpickles each result, {duration(hand_over)} of its own time, and"
    if op < WORTH * hand_over:
        return (
            f" But processes gain little here: {pickling} the op takes {duration(op)}. Let the op return less, or "
            "arrays instead of many objects."
        )
    return f" But processes make it at most {op / hand_over:.1f} times faster: {pickling} the op takes {duration(op)}."


def profile_table(results: Sequence[ProfileResult], advice: Advice) -> Table:
    """Return the table of the stages: best rate, cost of an item, GIL, and recommended concurrency."""
    table = Table("Each stage alone", ["stage", "best", "computes", "CPU/item", "GIL", "concurrency"])
    if any_failed := any(it.num_failures for result in results for it in result.stats):
        table.header = [*table.header, "failed"]
    for result, recommended in zip(results, advice.concurrency, strict=True):
        best = max(result.stats, key=lambda it: it.qps)
        row = [_shortened(result.name), f"{number(best.qps)}/s", "", "", "", "1"]
        if _has_choice(result):
            least = min(result.stats, key=lambda it: it.concurrency)
            row[2:] = (
                share(result.cpu_share),
                duration(least.cpu_seconds / max(1, least.num_inputs)),
                result.gil,
                str(recommended),
            )
        if any_failed:
            row.append(_failed(result))
        table.rows.append(row)
    return table


def _failure(result: ProfileResult, failure: ProfileFailure) -> str:
    place = f" ({failure.place})" if failure.place else ""
    return f"{result.name!r} failed on {failure.num_items:,} of its {result.num_items:,} items: {failure.error}{place}"


def _failed(result: ProfileResult) -> str:
    tried, failed = sum(it.num_inputs for it in result.stats), sum(it.num_failures for it in result.stats)
    return f"{failed / tried:.1%}" if failed else ""


def _has_choice(result: ProfileResult) -> bool:
    return len(result.stats) > 1


def _shortened(name: str) -> str:
    return name if width_of(name) <= NAME_WIDTH else f"{beginning(name, NAME_WIDTH - 3)}..."


def _print_plot(results: Sequence[ProfileResult], console: Console) -> None:
    plotted = [result for result in results if _has_choice(result)]
    if not plotted:
        return
    width = max(width_of(printable(_shortened(result.name))) for result in plotted)
    room = BAR_WIDTH if console.width is None else max(1, console.width - width - len("  32 ") - RATE_WIDTH)
    longest = min(BAR_WIDTH, room)
    if console.rich is not None:
        console.rich.print(_rich_plot(plotted, longest))
        return
    console.print("Results per second against concurrency")
    for result in plotted:
        for name, concurrency, length, rate in _bars(result):
            bar = "#" * round(longest * length)
            console.print(f"{padded(printable(name), width)}  {concurrency:>3} {bar} {rate}")


def _rich_plot(plotted: Sequence[ProfileResult], longest: int) -> rich.table.Table:
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = RichTable.grid(padding=(0, 1))
    grid.title, grid.title_justify, grid.title_style = "Results per second against concurrency", "left", "bold"
    for index, result in enumerate(plotted):
        if index:
            grid.add_row()
        for name, concurrency, length, rate in _bars(result):
            bar = Text.assemble((_blocks(length, longest), "red" if result.gil == "holds" else "green"), f" {rate}")
            grid.add_row(Text(printable(name)), Text(concurrency, style="dim", justify="right"), bar)
    return grid


def _bars(result: ProfileResult) -> Iterator[tuple[str, str, float, str]]:
    """Yield the stage's name (with the first bar only), the concurrency, the bar's length from 0 to 1, and the rate."""
    best = max(it.qps for it in result.stats) or 1.0
    for index, it in enumerate(sorted(result.stats, key=lambda it: it.concurrency)):
        yield "" if index else _shortened(result.name), str(it.concurrency), it.qps / best, number(it.qps)


def _blocks(share: float, longest: int) -> str:
    whole, part = divmod(round(8 * longest * share), 8)
    return "█" * whole + EIGHTHS[part].strip()

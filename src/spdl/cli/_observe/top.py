"""`spdl top`: a live table of the stages of running pipelines."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from spdl.cli._common.console import Console
from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._observe.chosen import chosen, pipelines_of, to_follow
from spdl.cli._observe.frame import ESSENTIAL, frame_json, frame_lines, frame_tables
from spdl.cli._observe.watch_all import watch_all
from spdl.pipeline._report.page_file import started_ticks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    import rich.console

    from spdl.cli._common.table import Table
    from spdl.observe._window.watch_epochs import Watched

_FRAMES_PER_SECOND = 4
_AGAIN = 0.05
# Where a pipeline ends, a frame may come so many seconds later to be of the next one, but not later than twice as late.
_NEXT_SECONDS = 1.0
_COLUMNS_LEFT_OUT = "A taller terminal shows more columns."
_STAGES_LEFT_OUT = "A taller terminal shows the stages; `spdl top PID` shows those of one process."


def top(options: argparse.Namespace) -> int:
    """Show what the stages of pipelines do, until their processes have ended or Ctrl-C comes.

    Raises:
        CommandError: There is no such pipeline.
    """
    # That there is one at all is an error before anything is shown, and afterwards the end.
    found = [each for each in chosen(options.pid) if options.pid is not None or each.state() == "running"]
    if not found:
        raise CommandError("no process of yours on this machine runs a pipeline now", exit_status=FAILED)
    console = Console()
    if all(pipeline.state() == "killed" for pipeline in found):
        # Nothing moves any more. What they did until then is shown once.
        _show(options, console, watch_all(found, options.interval, longest=0.0))
        return 0
    pid = to_follow(options.pid, found)
    if options.json or options.once or console.rich is None:
        if not (options.json or options.once):
            console.hint_at_rich()
        for windows in _windows(pid, options.interval):
            _show(options, console, windows)
            if options.once:
                break
        return 0
    _show_live(pid, options.interval, console.rich)
    return 0


def _show(options: argparse.Namespace, console: Console, seen: Sequence[Watched]) -> None:
    if options.json:
        print(json.dumps(frame_json(seen)), flush=True)
    elif options.once or console.rich is not None:
        for table in frame_tables(seen):
            console.table(table)
    else:
        for line in frame_lines(seen):
            console.print(line)


def _show_live(pid: int | None, interval: float, console: rich.console.Console) -> None:
    from rich.live import Live  # noqa: PLC0415

    with Live(console=console, refresh_per_second=_FRAMES_PER_SECOND) as live:
        for windows in _windows(pid, interval):
            live.update(_fitting(frame_tables(windows), console))


def _fitting(tables: Sequence[Table], console: rich.console.Console) -> rich.console.Group:
    """Return as much of the tables as the height of the terminal has room for, and say what is left out."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    width = console.width
    drawn = Group(*(table.rich(width) for table in tables))
    if _fits(drawn, console):
        return drawn
    left_out = Text(_COLUMNS_LEFT_OUT, style="dim italic")
    drawn = Group(*(table.only(ESSENTIAL).rich(width) for table in tables), left_out)
    if _fits(drawn, console):
        return drawn
    return Group(*(table.summary(width) for table in tables), Text(_STAGES_LEFT_OUT, style="dim italic"))


def _fits(drawn: rich.console.Group, console: rich.console.Console) -> bool:
    return len(console.render_lines(drawn, pad=False)) <= console.height


def _windows(pid: int | None, interval: float) -> Iterator[list[Watched]]:
    """Yield what the pipelines have done over the interval, again and again, until their processes have ended."""
    processes: dict[int, int] = {}
    while True:
        pipelines = [each for each in pipelines_of(pid) if each.state() == "running"]
        processes.update((each.head.pid, each.head.started_ticks) for each in pipelines)
        if pipelines and (windows := watch_all(pipelines, interval, longest=interval + min(interval, _NEXT_SECONDS))):
            yield windows
            continue
        # Many programs make a pipeline for each epoch.
        if not pipelines and not any(began and started_ticks(process) == began for process, began in processes.items()):
            return
        time.sleep(_AGAIN)

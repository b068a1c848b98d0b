"""`spdl top`: what pipelines do, again and again."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.text import Table, duration, mebibytes, number, printable, share, shortened
from spdl.cli._observe.chosen import COMMAND_WIDTH, chosen, command_of, pipelines_of, rank_of, to_follow
from spdl.observe import PageError, verdict
from spdl.observe._window.watch import Watched, watch_epochs, window_of_all
from spdl.pipeline._report.page_file import started_ticks
from spdl.pipeline._report.sample import SHOWN

if TYPE_CHECKING:
    import argparse

    import rich.console

    from spdl.observe import Observation, ObservedPipeline, SourceWindow, StageWindow, Verdict, Window

    Seen = Sequence[Watched]


def watch_all(pipelines: Sequence[ObservedPipeline], seconds: float, *, longest: float) -> list[Watched]:
    """Return the work of each pipeline over the same time. Similar pipelines that follow an ended one count for it.

    Pipelines that have only begun, or end during that time, are left out. If one ends and another follows, this takes
    `longest` seconds at most.
    """
    given_up = Event()
    claims, claimed = Lock(), {pipeline.path for pipeline in pipelines}

    def pause(seconds: float) -> None:
        if given_up.wait(seconds):
            raise CancelledError

    def claim(pipeline: ObservedPipeline) -> bool:
        """Return whether no other thread watches a pipeline: several of a process may be alike."""
        with claims:
            is_new = pipeline.path not in claimed
            claimed.add(pipeline.path)
            return is_new

    def watched(pipeline: ObservedPipeline) -> Watched | None:
        try:
            return watch_epochs(pipeline, seconds, longest, claim, pause)
        except PageError:
            return None

    with ThreadPoolExecutor(max(1, len(pipelines))) as threads:
        try:
            found = list(threads.map(watched, pipelines))
        finally:
            # After a Ctrl-C the threads are waited for, too.
            given_up.set()
    return [each for each in found if each is not None]


_HEADER = ("stage", "slots", "in use", "computes", "per item", "items/s", "queue", "failed")
# Counters that only some pipelines have, per second, after these.
_RARE = tuple(f"{shown.column}/s" for shown in SHOWN.values())

# The columns that remain where a terminal has no room for more.
_ESSENTIAL = ("stage", "in use", "items/s", "queue", "failed")


def frame_lines(seen: Seen) -> Iterator[str]:
    for watched in seen:
        pipeline, window = watched.pipelines[-1], window_of_all(watched)
        stages = ", ".join(f"{stage.name} {share(stage.occupancy)} in use" for stage in window.stages)
        name = f"{command_of(pipeline)} {_process(pipeline)}"
        yield f"{name}  {number(window.delivered)} items/s, {_waits(window)}  ({stages})"


def frame_json(seen: Seen) -> Iterator[dict[str, Any]]:
    for watched in seen:
        pipeline, window = watched.pipelines[-1], window_of_all(watched)
        yield {
            "pid": pipeline.head.pid,
            "pipeline": pipeline.head.pipeline,
            "rank": rank_of(pipeline),
            "command": command_of(pipeline),
            "state": pipeline.state(),
            **dataclasses.asdict(window),
            "verdict": verdict_json(verdict(window)),
        }


def verdict_json(found: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON has it; its bound has its former name, too, which programs read."""
    return {**dataclasses.asdict(found), "predicted_gain": found.bound}


def _table(watched: Watched) -> Table:
    pipeline, window = watched.pipelines[-1], window_of_all(watched)
    after = watched.seen[-1].after
    facts = (
        f"{number(window.delivered)} items/s",
        _waits(window),
        f"{window.cores_used:.1f} of {window.cores:g} cores",
        f"in flight {after.in_flight:,.0f}{_memory(after)}",
    )
    (command,) = shortened([printable(command_of(pipeline))], COMMAND_WIDTH)
    note = verdict(window).sentence()
    rare = ("failed", *_RARE)
    table = Table(f"{command} {_process(pipeline)}", (*_HEADER, *_RARE), note=note, rare=rare, facts=facts)
    for source in window.sources:
        in_use = share(source.busy)
        table.rows.append((source.name, "1", in_use, "-", "-", number(source.rate), "-", "-", *_counted(source)))
    counts = [stage for about, stage in zip(pipeline.head.stages, after.stages, strict=True) if about.declared]
    for stage, count in zip(window.stages, counts, strict=True):
        table.rows.append(_row(stage, _queue(int(count.queued), int(count.capacity)), int(count.failed)))
    fill = _queue(window.sink_size, window.sink_capacity)
    table.rows.append(("sink", "-", "-", "-", "-", number(window.delivered), fill, "-", *("-" for _ in _RARE)))
    return table


def _queue(waiting: int, capacity: int) -> str:
    """Return how many of the places are taken, and how many more wait for one: they hold slots of the stage before."""
    return f"{min(waiting, capacity)}/{capacity}{f' +{waiting - capacity}' if waiting > capacity else ''}"


def _row(stage: StageWindow, queue: str, failed: int) -> tuple[str, ...]:
    return (
        stage.name,
        str(stage.concurrency),
        share(stage.occupancy),
        share(stage.cpu),
        duration(stage.seconds) if stage.seconds else "-",
        number(stage.rate),
        queue,
        f"{failed:,}",
        *_counted(stage),
    )


def _counted(part: SourceWindow | StageWindow) -> list[str]:
    """Return the cells of `_RARE`."""
    rates = [(getattr(part.per_second, name), shown.unit) for name, shown in SHOWN.items()]
    return ["-" if not rate else mebibytes(rate) if unit == "By" else number(rate) for rate, unit in rates]


def _process(pipeline: ObservedPipeline) -> str:
    rank = rank_of(pipeline)
    killed = ", killed" if pipeline.state() == "killed" else ""
    return f"(pid {pipeline.head.pid}{f', rank {rank}' if rank else ''}{killed})"


def _memory(seen: Observation) -> str:
    if not seen.max_bytes:
        return ""  # Nothing is weighed.
    return f", {mebibytes(seen.bytes_in_flight)} of {mebibytes(seen.max_bytes)}"


def _waits(window: Window) -> str:
    return f"the consumer waits {share(window.consumer_waits)}"


_FRAMES_PER_SECOND = 4
_AGAIN = 0.05
# If a pipeline ends, a frame may come this many seconds later to show the next one, but not later than twice as late.
_NEXT_SECONDS = 1.0
_COLUMNS_LEFT_OUT = "A taller terminal shows more columns."
_STAGES_LEFT_OUT = "A taller terminal shows the stages; `spdl top PID` shows those of one process."


def top(options: argparse.Namespace) -> int:
    """Show what the stages of pipelines do, until their processes have ended or Ctrl-C comes."""
    # That there is one at all is an error before anything is shown, and afterwards the end.
    found = [each for each in chosen(options.pid) if options.pid is not None or each.state() == "running"]
    if not found:
        raise CommandError("no process of yours on this machine runs a pipeline now", exit_status=FAILED)
    console = Console()
    if all(pipeline.state() == "killed" for pipeline in found):
        # Nothing moves any more. The work until then is shown once.
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
        print(json.dumps(list(frame_json(seen))), flush=True)
    elif options.once or console.rich is not None:
        for watched in seen:
            console.table(_table(watched))
    else:
        for line in frame_lines(seen):
            console.print(line)


def _show_live(pid: int | None, interval: float, console: rich.console.Console) -> None:
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Live(console=console, refresh_per_second=_FRAMES_PER_SECOND) as live:
        for seen in _windows(pid, interval):
            live.update(Text(_fitting([_table(watched) for watched in seen], console.width, console.height)))


def _fitting(tables: Sequence[Table], width: int, height: int) -> str:
    """Return as much of the tables as a terminal has room for, and say what is left out."""
    essential = [
        table.only(index for index, heading in enumerate(table.header) if heading in _ESSENTIAL) for table in tables
    ]
    for shown in tables, essential:
        text = "\n\n".join(table.plain(width) for table in shown)
        left_out = "" if shown is tables else f"\n{_COLUMNS_LEFT_OUT}"
        if text.count("\n") + left_out.count("\n") < height:
            return text + left_out
    return "\n\n".join([*(table.summary(width) for table in tables), _STAGES_LEFT_OUT])


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

"""What `spdl top` shows of pipelines at one moment."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, mebibytes, number, printable, share, shortened
from spdl.cli._observe.naming import COMMAND_WIDTH, command_of, rank_of
from spdl.observe import verdict
from spdl.observe._window.combine import window_of_all
from spdl.pipeline._report.sample import SHOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.observe import Observation, ObservedPipeline, SourceWindow, StageWindow, Verdict, Window
    from spdl.observe._window.watch_epochs import Watched

    Seen = Sequence[Watched]

_HEADER = ("stage", "slots", "in use", "computes", "per item", "items/s", "queue", "failed")
# What only some pipelines count, per second, after these.
_RARE = tuple(shown.column for shown in SHOWN.values())

ESSENTIAL = ("stage", "in use", "items/s", "queue", "failed")
"""The columns that remain where a terminal has no room for more."""


def frame_tables(seen: Seen) -> list[Table]:
    """Return a table for each pipeline."""
    return [_table(watched) for watched in seen]


def frame_lines(seen: Seen) -> list[str]:
    """Return a line for each pipeline."""
    lines = []
    for watched in seen:
        pipeline, window = watched.pipelines[-1], window_of_all(watched)
        stages = ", ".join(f"{stage.name} {share(stage.occupancy)} in use" for stage in window.stages)
        name = f"{command_of(pipeline)} {_process(pipeline)}"
        lines.append(f"{name}  {number(window.delivered)} items/s, {_waits(window)}  ({stages})")
    return lines


def frame_json(seen: Seen) -> list[dict[str, Any]]:
    """Return the window of each pipeline, and the verdict on it, as JSON has them."""
    found = []
    for watched in seen:
        pipeline, window = watched.pipelines[-1], window_of_all(watched)
        found.append(
            {
                "pid": pipeline.head.pid,
                "pipeline": pipeline.head.pipeline,
                "rank": rank_of(pipeline),
                "command": command_of(pipeline),
                "state": pipeline.state(),
                **dataclasses.asdict(window),
                "verdict": verdict_json(verdict(window)),
            }
        )
    return found


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

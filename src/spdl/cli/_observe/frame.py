"""What `spdl top` shows of pipelines at one moment."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from spdl.cli._common.table import Table
from spdl.cli._common.text import duration, mebibytes, number, printable, share, shortened
from spdl.cli._observe.naming import COMMAND_WIDTH, command_of, rank_of
from spdl.observe._why.combine import measure_all
from spdl.pipeline._metrics.decide import decide
from spdl.pipeline._metrics.sample import SHOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.observe import Observation, ObservedPipeline
    from spdl.observe._window.watch_epochs import Watched
    from spdl.pipeline._metrics.measures import PipelineMeasures, SourceMeasures, StageMeasures

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
        pipeline, measures = watched.pipelines[-1], measure_all(watched)
        stages = ", ".join(f"{stage.name} {share(stage.occupancy)} in use" for stage in measures.stages)
        name = f"{command_of(pipeline)} {_process(pipeline)}"
        lines.append(f"{name}  {number(measures.delivered)} items/s, {_waits(measures)}  ({stages})")
    return lines


def frame_json(seen: Seen) -> list[dict[str, Any]]:
    """Return all measures of each pipeline, as JSON has them."""
    found = []
    for watched in seen:
        pipeline, measures = watched.pipelines[-1], measure_all(watched)
        found.append(
            {
                "pid": pipeline.head.pid,
                "pipeline": pipeline.head.pipeline,
                "rank": rank_of(pipeline),
                "command": command_of(pipeline),
                "state": pipeline.state(),
                **dataclasses.asdict(measures),
                "verdict": dataclasses.asdict(decide(measures)),
            }
        )
    return found


def _table(watched: Watched) -> Table:
    pipeline, measures = watched.pipelines[-1], measure_all(watched)
    after = watched.windows[-1].after.seen
    facts = (
        f"{number(measures.delivered)} items/s",
        _waits(measures),
        f"{measures.cores_used:.1f} of {measures.cores:g} cores",
        f"in flight {after.in_flight:,.0f}{_memory(after)}",
    )
    (command,) = shortened([printable(command_of(pipeline))], COMMAND_WIDTH)
    note = decide(measures).sentence()
    rare = ("failed", *_RARE)
    table = Table(f"{command} {_process(pipeline)}", (*_HEADER, *_RARE), note=note, rare=rare, facts=facts)
    for source in measures.sources:
        in_use = share(source.busy)
        table.rows.append((source.name, "1", in_use, "-", "-", number(source.rate), "-", "-", *_counted(source)))
    counts = [stage for about, stage in zip(pipeline.head.stages, after.stages, strict=True) if about.declared]
    for stage, count in zip(measures.stages, counts, strict=True):
        table.rows.append(_row(stage, _queue(int(count.queued), int(count.capacity)), int(count.failed)))
    fill = _queue(measures.sink_size, measures.sink_capacity)
    table.rows.append(("sink", "-", "-", "-", "-", number(measures.delivered), fill, "-", *("-" for _ in _RARE)))
    return table


def _queue(waiting: int, capacity: int) -> str:
    """Return how many of the places are taken, and how many more wait for one: they hold slots of the stage before."""
    return f"{min(waiting, capacity)}/{capacity}{f' +{waiting - capacity}' if waiting > capacity else ''}"


def _row(stage: StageMeasures, queue: str, failed: int) -> tuple[str, ...]:
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


def _counted(part: SourceMeasures | StageMeasures) -> list[str]:
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


def _waits(measures: PipelineMeasures) -> str:
    return f"the consumer waits {share(measures.consumer_waits)}"

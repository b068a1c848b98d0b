"""`spdl ps`: the pipelines that run on this machine."""

from __future__ import annotations

import json
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import Console, Table
from spdl.cli._common.text import number, printable
from spdl.cli._observe.chosen import command_of, rank_of
from spdl.observe import PageError, find_pipelines

if TYPE_CHECKING:
    import argparse

    from spdl.observe import ObservedPipeline

_COMMAND_WIDTH = 40


def ps(options: argparse.Namespace) -> int:
    """List the pipelines of this user's processes, and remove the pages of processes that were killed."""
    found = [_describe(pipeline) for pipeline in find_pipelines()]
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    console = Console()
    if not found:
        console.print("No process of yours on this machine runs a pipeline.")
        return 0
    note = "Those that were killed are listed this once." if any(each["state"] == "killed" for each in found) else ""
    table = Table("Pipelines", ["command", "pid", "pipeline", "rank", "state", "up", "items", "items/s"], note=note)
    for each in found:
        table.rows.append(
            (
                printable(each["command"])[:_COMMAND_WIDTH],
                str(each["pid"]),
                str(each["pipeline"]),
                each["rank"] or "-",
                each["state"],
                _uptime(each["seconds"]),
                f"{each['delivered']:,}",
                number(each["items_per_second"]),
            )
        )
    console.table(table)
    return 0


def _describe(pipeline: ObservedPipeline) -> dict[str, Any]:
    head, state = pipeline.head, pipeline.state()
    try:
        seen = pipeline.observe()
        seconds = (seen.now if state == "killed" else max(seen.now, perf_counter())) - seen.started_at
        delivered = int(seen.delivered)
    except PageError:
        # It has only begun.
        seconds, delivered = 0.0, 0
    if state == "killed":
        pipeline.remove()
    return {
        "pid": head.pid,
        "pipeline": head.pipeline,
        "command": command_of(pipeline),
        "rank": rank_of(pipeline),
        "state": state,
        "seconds": seconds,
        "delivered": delivered,
        "items_per_second": delivered / seconds if seconds > 0 else 0.0,
        "stages": [stage.name for stage in head.stages if stage.declared],
    }


def _uptime(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

"""`spdl ps`: the pipelines that run on this machine."""

from __future__ import annotations

import json
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import Console
from spdl.cli._common.text import Table, number, printable, shortened
from spdl.cli._observe.chosen import COMMAND_WIDTH, command_of, place_of, rank_of, why_none
from spdl.observe import PageError, find_pipelines
from spdl.observe._window.seen import is_stopped
from spdl.pipeline._report.page_file import sweep

if TYPE_CHECKING:
    import argparse

    from spdl.observe import ObservedPipeline


_KILLED = "For ten minutes after a process was killed, `spdl why PID` and `spdl stack PID` still show what it did last."


def ps(options: argparse.Namespace) -> int:
    """List the pipelines of this user's processes, and remove the pages of processes that were killed long ago."""
    found = [_describe(pipeline) for pipeline in sorted(find_pipelines(), key=_place)]
    # A user who learns here that a process was killed asks next what it did, so its page stays for a while.
    sweep()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    console = Console()
    if not found:
        console.print(f"No process of yours on this machine runs a pipeline.{why_none()}")
        return 0
    killed = any(each["state"] == "killed" for each in found)
    note = _KILLED if killed else ""
    header = ["command", "pid", "rank", "pipeline", "state", "up", "items", "items/s"]
    table = Table("Pipelines", header, note=note, rare=("rank",), repeated=("pid", "pipeline"))
    commands = shortened([printable(each["command"]) for each in found], COMMAND_WIDTH)
    for _, pipelines in groupby(zip(found, commands, strict=True), key=lambda pair: pair[0]["pid"]):
        for index, (each, command) in enumerate(pipelines):
            # Those of one process stand together below its name.
            process = (command, str(each["pid"]), _rank(each))
            table.rows.append(
                (
                    *(process if index == 0 else ("", "", "")),
                    str(each["pipeline"]),
                    each["state"],
                    _uptime(each["seconds"]),
                    f"{each['delivered']:,}",
                    number(each["items_per_second"]),
                )
            )
    console.table(table)
    return 0


def _place(pipeline: ObservedPipeline) -> tuple[object, ...]:
    """Return what the list is sorted by: what was killed is at its end, and the ranks of a job stand together."""
    return pipeline.state() == "killed", command_of(pipeline), *place_of(pipeline)


def _rank(each: dict[str, Any]) -> str:
    rank, size, local = each["rank"], each["world_size"], each["local_rank"]
    if not rank:
        return "-"
    return f"{rank}{f' of {size}' if size else ''}{f' (local {local})' if local and local != rank else ''}"


def _describe(pipeline: ObservedPipeline) -> dict[str, Any]:
    head, state = pipeline.head, _state(pipeline)
    try:
        seen = pipeline.observe()
        seconds = (seen.now if state == "killed" else max(seen.now, perf_counter())) - seen.started_at
        delivered = int(seen.delivered)
    except PageError:
        # It has only begun.
        seconds, delivered = 0.0, 0
    return {
        "pid": head.pid,
        "pipeline": head.pipeline,
        "command": command_of(pipeline),
        "rank": rank_of(pipeline),
        "local_rank": head.ranks.get("LOCAL_RANK", ""),
        "world_size": head.ranks.get("WORLD_SIZE", ""),
        "state": state,
        "seconds": seconds,
        "delivered": delivered,
        "items_per_second": delivered / seconds if seconds > 0 else 0.0,
        "stages": [stage.name for stage in head.stages if stage.declared],
    }


def _state(pipeline: ObservedPipeline) -> str:
    state = pipeline.state()
    return "stopped" if state == "running" and is_stopped(pipeline.head.pid) else state


def _uptime(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

"""`spdl why`: what limits a pipeline of another process."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from spdl.cli._common.console import Console
from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._observe.chosen import chosen, process_of, rank_of
from spdl.cli._observe.watch_all import watch_all
from spdl.observe._why.measure import measure
from spdl.pipeline._metrics.decide import decide

if TYPE_CHECKING:
    import argparse

    from spdl.observe import ObservedPipeline, Verdict

# The exit status by the kind of the verdict, so that a script can tell. 1 and 2 are those of all commands.
STATUS = {
    "none": 0,
    "slow consumer": 0,
    "GIL": 10,
    "CPU": 11,
    "oversubscription": 12,
    "I/O": 13,
    "serial source": 14,
    "held back by order": 15,
    "batching": 16,
    "transfer": 17,
    "retries": 18,
    "hang": 19,
    "memory budget": 20,
    "pickling": 21,
}


def why(options: argparse.Namespace) -> int:
    """Say what limits the pipelines of a process.

    Returns:
        The exit status of the greatest number among the verdicts.

    Raises:
        CommandError: There is no such pipeline.
    """
    pid = process_of(options.pid)
    pipelines = chosen(pid)
    if options.pipeline is not None:
        pipelines = [pipeline for pipeline in pipelines if pipeline.head.pipeline == options.pipeline]
    verdicts = [
        (pipeline, decide(measure(pipeline.head, window))) for pipeline, window in watch_all(pipelines, options.seconds)
    ]
    if not verdicts:
        which = "no pipeline" if options.pipeline is None else f"no pipeline {options.pipeline}"
        raise CommandError(f"process {pid} has {which} that has begun.", exit_status=FAILED)
    if options.json:
        found = [_as_json(pipeline, verdict) for pipeline, verdict in verdicts]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        console = Console()
        for pipeline, verdict in verdicts:
            prefix = f"pipeline {pipeline.head.pipeline}: " if len(verdicts) > 1 else ""
            state = pipeline.state()
            ended = "" if state == "running" else f"(It {'was killed' if state == 'killed' else 'has ended'}.) "
            console.print(f"{prefix}{ended}{verdict.sentence()}")
    return max(STATUS[verdict.kind] for _, verdict in verdicts)


def _as_json(pipeline: ObservedPipeline, verdict: Verdict) -> dict[str, object]:
    return {
        "pid": pipeline.head.pid,
        "pipeline": pipeline.head.pipeline,
        "rank": rank_of(pipeline),
        "state": pipeline.state(),
        **dataclasses.asdict(verdict),
        "sentence": verdict.sentence(),
    }

"""`spdl why`: what limits a pipeline of another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spdl.cli._common.console import Console
from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._observe.chosen import of_one_job
from spdl.cli._observe.frame import verdict_json
from spdl.cli._observe.job import of_all_ranks
from spdl.cli._observe.naming import rank_of
from spdl.cli._observe.try_remedy import try_remedy
from spdl.cli._observe.watch_all import watch_all
from spdl.observe import verdict
from spdl.observe._window.combine import window_of_all

if TYPE_CHECKING:
    import argparse

    from spdl.cli._observe.try_remedy import Tried
    from spdl.observe import ObservedPipeline, Verdict
    from spdl.observe._window.watch_epochs import Watched

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
    "lock": 22,
    "unclear": 23,
}

# The pipeline of the next epoch may take so many seconds longer to come and to be watched.
_NEXT_SECONDS = 1.0


def why(options: argparse.Namespace) -> int:
    """Say what limits the pipelines of a process, or of all ranks of a job.

    Returns:
        The exit status of the greatest number among the verdicts.

    Raises:
        CommandError: There is no such pipeline.
    """
    pipelines = of_one_job(options.pid)
    pids = {pipeline.head.pid for pipeline in pipelines}
    if options.pipeline is not None:
        pipelines = [pipeline for pipeline in pipelines if pipeline.head.pipeline == options.pipeline]
    # Where one was named, another is not what was asked for.
    longest = options.seconds + _NEXT_SECONDS if options.pipeline is None else 0.0
    seen = watch_all(pipelines, options.seconds, longest=longest)
    verdicts = [(watched.pipelines[-1], verdict(window_of_all(watched))) for watched in seen]
    of = {watched.pipelines[-1].path: watched for watched in seen}
    if not verdicts:
        which = "no pipeline" if options.pipeline is None else f"no pipeline {options.pipeline}"
        process = f"process {min(pids)}" if len(pids) == 1 else "no process of the job"
        raise CommandError(f"{process} has {which} that has begun.", exit_status=FAILED)
    tried = _tried(verdicts, options.try_seconds)
    together = list[str]()
    if options.pid is None or len(pids) > 1:
        verdicts, together = of_all_ranks(verdicts)
    if options.json:
        found = [
            {**_as_json(of[pipeline.path], each), **({"tried": tried._asdict()} if tried else {})}
            for pipeline, each in verdicts
        ]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        console = Console()
        # Nobody has to be told which process it is who has named it, or has no other.
        is_known = pids == {options.pid} or (options.pid is None and len(pids) == 1)
        for pipeline, each in verdicts:
            whose = "" if is_known else _process(pipeline)
            number = f"pipeline {pipeline.head.pipeline}" if len(verdicts) > len(pids) else ""
            prefix = ", ".join(filter(None, (whose, number)))
            console.print(f"{f'{prefix}: ' if prefix else ''}{_which(of[pipeline.path])}{each.sentence()}")
        if tried:
            console.print(tried.sentence())
        for line in together:
            console.print(line)
    return max(STATUS[each.kind] for _, each in verdicts)


def _tried(verdicts: list[tuple[ObservedPipeline, Verdict]], seconds: float | None) -> Tried | None:
    """Return what came of the remedy, if it is to be tried.

    Raises:
        CommandError: There are several pipelines.
    """
    if seconds is None:
        return None
    if len(verdicts) > 1:
        raise CommandError(f"--try: {len(verdicts)} pipelines run. Name one: PID and --pipeline N, see `spdl ps`")
    ((pipeline, verdict),) = verdicts
    return try_remedy(pipeline, verdict, seconds)


def _process(pipeline: ObservedPipeline) -> str:
    rank, pid = rank_of(pipeline), pipeline.head.pid
    return f"rank {rank} (pid {pid})" if rank else f"pid {pid}"


def _which(watched: Watched) -> str:
    """Return what is to be known of pipelines that do not simply run."""
    first, last = watched.pipelines[0], watched.pipelines[-1]
    if first is not last:
        return f"(Of pipelines {first.head.pipeline} to {last.head.pipeline}, which followed each other.) "
    state = last.state()
    return "" if state == "running" else f"(It {'was killed' if state == 'killed' else 'has ended'}.) "


def _as_json(watched: Watched, verdict: Verdict) -> dict[str, object]:
    pipeline = watched.pipelines[-1]
    return {
        "pid": pipeline.head.pid,
        "pipeline": pipeline.head.pipeline,
        "watched": [each.head.pipeline for each in watched.pipelines],
        "rank": rank_of(pipeline),
        "state": pipeline.state(),
        **verdict_json(verdict),
        "sentence": verdict.sentence(),
    }

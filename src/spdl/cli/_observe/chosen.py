"""The pipelines that the user names by a process."""

from __future__ import annotations

import os
from itertools import chain, zip_longest
from time import monotonic, sleep
from typing import TYPE_CHECKING

from spdl.cli._common.console import say
from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._common.text import printable, shortened
from spdl.cli._observe.job import job_of, lacks_ranks
from spdl.cli._observe.kin import ancestors, of_ancestor, of_descendants, process_of_thread
from spdl.cli._observe.naming import COMMAND_WIDTH, command_of, place_of, rank_of
from spdl.observe import find_pipelines
from spdl.pipeline._report.page_file import is_private, page_folder, started_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.observe import ObservedPipeline

__all__ = ["chosen", "of_one_job", "only_process", "pipelines_of", "to_follow", "why_none"]

# A process without a pipeline is looked at for so long, and so often.
_SECONDS, _AGAIN = 1.0, 0.02
# So many processes are named to choose from.
_MOST_NAMED = 8


def pipelines_of(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process now, or else those of what it has started; of all processes if it is None.

    Who started a job knows the number of `torchrun`, of a shell or of `timeout`, and not those of its ranks.
    """
    found = find_pipelines(pid)
    return found if found or pid is None else of_descendants(pid)


def chosen(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process, or of all processes of the user if it is None.

    If the process runs none, they are those of the processes that it has started, and otherwise those of the nearest
    one that has started it, as of a worker, which is said on standard error.

    Raises:
        CommandError: There is none.
    """
    if pid is not None:
        pid = process_of_thread(pid)
    pipelines = _with_those_between_epochs(pid)
    if not pipelines and pid is not None and (pipelines := of_ancestor(pid)):
        say(f"process {pid} runs no pipeline, so this is of process {pipelines[0].head.pid}, which has started it")
    if pipelines:
        return sorted(pipelines, key=place_of)
    none = (
        "no process of yours on this machine runs a pipeline"
        if pid is None
        else f"process {pid} runs no pipeline, nor does any that it has started or that has started it"
    )
    raise CommandError(
        f"{none}. A pipeline is seen from its start to its end, unless SPDL_OBSERVE=0 is set there;"
        f" `spdl ps` lists all.{why_none()}",
        exit_status=FAILED,
    )


def _with_those_between_epochs(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process, or of all if it is None, and wait a moment for those that are to come.

    Where each epoch has a pipeline of its own, a process or some ranks of a job may have none at this moment.
    """
    deadline = monotonic() + (_SECONDS if pid is None or started_ticks(pid) else 0.0)
    found: dict[int, list[ObservedPipeline]] = {}
    while True:
        now: dict[int, list[ObservedPipeline]] = {}
        for pipeline in pipelines_of(pid):
            now.setdefault(pipeline.head.pid, []).append(pipeline)
        found |= now
        pipelines = [pipeline for of_process in found.values() for pipeline in of_process]
        if monotonic() >= deadline or (pipelines and (pid in found or not lacks_ranks(pipelines))):
            return pipelines
        sleep(_AGAIN)


def to_follow(pid: int | None, pipelines: Sequence[ObservedPipeline]) -> int | None:
    """Return the process whose next pipelines are of interest, where `chosen` has returned these for a process."""
    first = pipelines[0].head.pid
    return first if pid is not None and first in (process_of_thread(pid), *ancestors(pid)) else pid


def why_none() -> str:
    """Return why no pipeline can be seen, whatever runs; empty if nothing is in the way."""
    folder = page_folder()
    if is_private(folder) or not os.path.lexists(folder):
        return ""
    return f" None can be seen: {printable(str(folder))} has to be a folder of yours that nobody else may open."


def of_one_job(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of the process that the user names, or else of all ranks of the only job that runs any.

    Raises:
        CommandError: There is none, or there are several jobs to choose from.
    """
    if pid is not None:
        return chosen(pid)
    running = [pipeline for pipeline in chosen(None) if pipeline.state() == "running"]
    if not running:
        raise CommandError("no process of yours on this machine runs a pipeline now", exit_status=FAILED)
    jobs = {job_of(pipeline) for pipeline in running}
    if len(jobs) == 1:
        return running
    what = f"{len(jobs)} programs run pipelines"
    raise CommandError(f"{what}, so name a process of one, or what has started it: {_named(running)}")


def only_process(pid: int, pipelines: Sequence[ObservedPipeline]) -> int:
    """Return the process of the pipelines that a user has named by a process.

    Raises:
        CommandError: They are of several.
    """
    pids = {pipeline.head.pid for pipeline in pipelines}
    if len(pids) > 1:
        raise CommandError(
            f"{len(pids)} processes that {pid} has started run pipelines, so name one: {_named(pipelines)}"
        )
    return min(pids)


def _named(pipelines: Sequence[ObservedPipeline]) -> str:
    """Return which processes there are to choose from: of each job, before more of one job."""
    jobs: dict[object, dict[int, ObservedPipeline]] = {}
    for pipeline in sorted(pipelines, key=place_of):
        jobs.setdefault(job_of(pipeline), {})[pipeline.head.pid] = pipeline
    in_turns = chain.from_iterable(zip_longest(*(of_job.values() for of_job in jobs.values())))
    processes = [each for each in in_turns if each is not None]
    found = sorted(processes[:_MOST_NAMED], key=lambda each: (command_of(each), place_of(each)))
    commands = shortened([printable(command_of(each)) for each in found], COMMAND_WIDTH)
    named = []
    for each, command in zip(found, commands, strict=True):
        rank = rank_of(each)
        named.append(f"{each.head.pid} ({command}{f', rank {rank}' if rank else ''})")
    more = len(processes) - len(found)
    return f"{', '.join(named)}{f' and {more} more' if more else ''}; `spdl ps` lists all"

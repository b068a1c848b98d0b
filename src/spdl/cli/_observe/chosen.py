"""The pipelines that the user names by a process, the jobs that they are of, and their names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, zip_longest
from time import monotonic, sleep
from typing import TYPE_CHECKING

from spdl._program import program_name
from spdl.cli._common.console import FAILED, CommandError, say
from spdl.cli._common.text import printable, shortened
from spdl.observe import find_pipelines
from spdl.observe._verdict.decide import FASTER_STEP
from spdl.pipeline._report.page_file import is_private, page_folder, pid_namespace, started_ticks
from spdl.pipeline._report.threads import stat_fields, status_field

if TYPE_CHECKING:
    from spdl.observe import ObservedPipeline, Verdict

    Verdicts = Sequence[tuple[ObservedPipeline, Verdict]]


COMMAND_WIDTH = 40
"""The most columns that the command of a process takes among other things."""


def rank_of(pipeline: ObservedPipeline) -> str:
    """Return the rank of a pipeline's process in its job; empty without one."""
    ranks = pipeline.head.ranks
    return ranks.get("RANK", ranks.get("LOCAL_RANK", ""))


def name_of(pipeline: ObservedPipeline) -> str:
    """Return the name of a pipeline's process in a message: its rank, if it has one, and its number."""
    rank, pid = rank_of(pipeline), pipeline.head.pid
    return f"rank {rank} (pid {pid})" if rank else f"pid {pid}"


def place_of(pipeline: ObservedPipeline) -> tuple[int, int, int]:
    """Return what the pipelines of a job are sorted by: the ranks in their order."""
    rank = rank_of(pipeline)
    return int(rank) if rank.isdecimal() else -1, pipeline.head.pid, pipeline.head.pipeline


def command_of(pipeline: ObservedPipeline) -> str:
    """Return the command line of a pipeline's process, without the folder of its program, as one types it in a shell.

    If it has several words, those with a space in them are quoted. The lines of a program behind `-c` follow each
    other.
    """
    words = pipeline.head.command
    program, arguments = program_name(words), list(words[1:])
    if words[:1] == ("-m",):
        del arguments[:1]
    elif words[:1] == ("-c",):
        arguments[:1] = [" ".join(code.split()) for code in arguments[:1]]
    elif arguments:
        program = _quoted(program)
    return " ".join([program, *map(_quoted, arguments)])


def _quoted(word: str) -> str:
    if word and not any(map(str.isspace, word)):
        return word
    # Code often has single quotes in it.
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def parent_of(pid: int) -> int:
    """Return the process that has started a process, or that has taken it over since; 0 without one."""
    try:
        return int(stat_fields(pid)[1])
    except (OSError, IndexError, ValueError):
        return 0


def ancestors(pid: int) -> list[int]:
    """Return the processes that a process descends from, the nearest first. One that has just ended ends the list."""
    found: list[int] = []
    # A number that was given again during the search could lead back.
    while (pid := parent_of(pid)) and pid not in found:
        found.append(pid)
    return found


def process_of_thread(number: int) -> int:
    """Return the process of a thread, since `htop` lists threads by their numbers, too; or else the number itself."""
    with suppress(OSError, IndexError, ValueError):
        return int(status_field(number, "Tgid"))
    return number


def of_ancestor(pid: int) -> list[ObservedPipeline]:
    """Return the pipelines that run in the nearest process which a process descends from and that has any."""
    running = _running()
    for ancestor in ancestors(pid):
        if found := [each for each in running if each.head.pid == ancestor]:
            return found
    return []


def _running() -> list[ObservedPipeline]:
    # A process of another container may have the number of another process here.
    own = pid_namespace()
    return [each for each in find_pipelines() if each.head.pid_namespace == own and each.state() == "running"]


def job_of(pipeline: ObservedPipeline) -> tuple[object, ...]:
    """Return what is equal for the pipelines of one job, and of no other one."""
    head = pipeline.head
    ranks = head.ranks
    if not _is_part_of_job(pipeline):
        # Copies of a program with the same parent belong together, such as the workers of `multiprocessing`.
        return (command_of(pipeline), parent_of(head.pid))
    meet_at = ranks.get("MASTER_ADDR", ""), ranks.get("MASTER_PORT", "")
    # Processes that meet may each have another command: some launchers give the rank as an argument.
    return (ranks.get("WORLD_SIZE", ""), *meet_at, "" if meet_at[1] else command_of(pipeline))


def _is_part_of_job(pipeline: ObservedPipeline) -> bool:
    """Return whether a process knows where it meets others, or which of them it is."""
    return bool(rank_of(pipeline) or pipeline.head.ranks.get("MASTER_PORT"))


def lacks_ranks(pipelines: Sequence[ObservedPipeline]) -> bool:
    """Return whether a job runs more ranks on this machine than the number of running pipelines shows."""
    seen: dict[object, set[str]] = {}
    wanted: dict[object, int] = {}
    for pipeline in pipelines:
        if pipeline.state() != "killed":
            job = job_of(pipeline)
            seen.setdefault(job, set()).add(rank_of(pipeline))
            wanted[job] = pipeline.head.local_world_size
    return any(len(ranks) < wanted[job] for job, ranks in seen.items())


def of_all_ranks(found: Verdicts) -> tuple[list[tuple[ObservedPipeline, Verdict]], list[str]]:
    """Return the verdicts on all ranks that can be looked at, in the light of each other, and what they say together.

    A rank whose loop waits in a collective for another one has a sink that is full, as if its own step was slow.
    """
    jobs: dict[object, list[tuple[ObservedPipeline, Verdict]]] = {}
    for pipeline, verdict in found:
        jobs.setdefault(job_of(pipeline), []).append((pipeline, verdict))
    verdicts, said = list[tuple["ObservedPipeline", "Verdict"]](), list[str]()
    for of_job in jobs.values():
        limits = _those(of_job, lambda kind: kind not in ("none", "slow consumer"))
        waiting = [each for each in _those(of_job, "slow consumer".__eq__) if each not in limits]
        unclear = [each for each in _those(of_job, "none".__eq__) if each not in limits]
        remedy = FASTER_STEP
        if limits and waiting:
            remedy = f"Its training loop may wait in a collective for {_in_words(limits)}: see there."
            said.append(_together(limits, waiting))
        elif unclear:
            remedy += _if_it_waits(_in_words(unclear), "see its verdict")
        elif len(_those(of_job, bool)) < of_job[0][0].head.world_size:
            remedy += _if_it_waits("a rank that is not seen here", "`spdl why` on that machine tells")
        for pipeline, verdict in of_job:
            waits = verdict.kind == "slow consumer" and _name(pipeline) in waiting
            verdicts.append((pipeline, replace(verdict, remedy=remedy) if waits else verdict))
    return verdicts, said


def _those(found: Verdicts, are: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Return the names of the processes of a job, in order, that have a verdict of certain kinds."""
    names = (_name(pipeline) for pipeline, verdict in found if are(verdict.kind) and _is_part_of_job(pipeline))
    return list(dict.fromkeys(names))


def _name(pipeline: ObservedPipeline) -> tuple[str, str]:
    rank = rank_of(pipeline)
    return ("rank", rank) if rank else ("process", str(pipeline.head.pid))


def _if_it_waits(whom: str, where: str) -> str:
    return f" If the step waits in a collective for {whom}, the loader there may be the limit: {where}."


def _together(limits: Sequence[tuple[str, str]], waiting: Sequence[tuple[str, str]]) -> str:
    loader, limit = ("loader", "limits") if len(limits) == 1 else ("loaders", "limit")
    wait, their, loop = ("waits", "its", "loop") if len(waiting) == 1 else ("wait", "their", "loops")
    return (
        f"The {loader} of {_in_words(limits)} {limit} the job: {_in_words(waiting)} {wait} for {their} own training "
        f"{loop}, which may wait in a collective for {_in_words(limits)}."
    )


def _in_words(names: Sequence[tuple[str, str]]) -> str:
    """Return such as `rank 1`, or `ranks 0, 2 and 3`."""
    what, last = names[-1]
    if len(names) == 1:
        return f"{what} {last}"
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{plural} {', '.join(number for _, number in names[:-1])} and {last}"


# A process without a pipeline is looked at for this long, at these intervals, in seconds.
_SECONDS, _AGAIN = 1.0, 0.02
# So many processes are named to choose from.
_MOST_NAMED = 8


def pipelines_of(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process now, or else of the processes that it has started; of all processes for None.

    The user who started a job knows the number of `torchrun`, of a shell or of `timeout`, and not the ranks' numbers.
    """
    found = find_pipelines(pid)
    if found or pid is None:
        return found
    return [each for each in _running() if pid in ancestors(each.head.pid)]


def chosen(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process, or of all processes of the user if it is None.

    If the process runs none, they belong to the processes that it has started, and otherwise to the nearest one that
    has started it, as of a worker, which is said on standard error.
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
    """Return the pipelines of a process, or of all if it is None, and wait a moment for new ones.

    If each epoch has its own pipeline, a process or some ranks of a job may have none at this moment.
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
    return f" None can be seen: {printable(str(folder))} must be your own folder, and closed to other users."


def of_one_job(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of the process that the user names, or else of all ranks of the only job that runs any."""
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


def _named(pipelines: Sequence[ObservedPipeline]) -> str:
    """Return the processes to choose from: one of each job, before more of one job."""
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

"""The ranks of one job, and what the verdicts on them say together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.cli._observe.kin import parent_of
from spdl.cli._observe.naming import command_of, rank_of
from spdl.observe._verdict.decide import FASTER_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.observe import ObservedPipeline, Verdict

    Verdicts = Sequence[tuple[ObservedPipeline, Verdict]]

__all__ = ["job_of", "lacks_ranks", "of_all_ranks"]


def job_of(pipeline: ObservedPipeline) -> tuple[object, ...]:
    """Return what is equal for the pipelines of one job, and of no other one."""
    head = pipeline.head
    ranks = head.ranks
    if not _is_part_of_job(pipeline):
        # Copies of a program that one process has started belong together, such as those of `multiprocessing`.
        return (command_of(pipeline), parent_of(head.pid))
    meet_at = ranks.get("MASTER_ADDR", ""), ranks.get("MASTER_PORT", "")
    # Of those who meet, each may have another command: some launchers give the rank as an argument.
    return (ranks.get("WORLD_SIZE", ""), *meet_at, "" if meet_at[1] else command_of(pipeline))


def _is_part_of_job(pipeline: ObservedPipeline) -> bool:
    """Return whether a process is told where it meets others, or which of them it is."""
    return bool(rank_of(pipeline) or pipeline.head.ranks.get("MASTER_PORT"))


def lacks_ranks(pipelines: Sequence[ObservedPipeline]) -> bool:
    """Return whether a job runs more ranks on this machine than those of the pipelines that run."""
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

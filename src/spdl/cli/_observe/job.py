"""The ranks of one job, and what the verdicts on them say together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.cli._observe.kin import parent_of
from spdl.cli._observe.naming import command_of, rank_of
from spdl.pipeline._metrics.decide import FASTER_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.observe import ObservedPipeline, Verdict

    Verdicts = Sequence[tuple[ObservedPipeline, Verdict]]

__all__ = ["job_of", "of_all_ranks"]


def job_of(pipeline: ObservedPipeline) -> tuple[object, ...]:
    """Return what is equal for the pipelines of one job, and of no other one."""
    head = pipeline.head
    ranks = head.ranks
    if not rank_of(pipeline):
        # Copies of a program that one process has started belong together, such as those of `multiprocessing`.
        return (command_of(pipeline), parent_of(head.pid))
    meet_at = ranks.get("MASTER_ADDR", ""), ranks.get("MASTER_PORT", "")
    # Of those who meet, each may have another command: some launchers give the rank as an argument.
    return (ranks.get("WORLD_SIZE", ""), *meet_at, "" if meet_at[1] else command_of(pipeline))


def of_all_ranks(found: Verdicts) -> tuple[list[tuple[ObservedPipeline, Verdict]], list[str]]:
    """Return the verdicts on all ranks that can be looked at, in the light of each other, and what they say together.

    A rank whose loop waits in a collective for another one has a sink that is full, as if its own step was slow.
    """
    jobs: dict[object, list[tuple[ObservedPipeline, Verdict]]] = {}
    for pipeline, verdict in found:
        jobs.setdefault(job_of(pipeline), []).append((pipeline, verdict))
    verdicts, said = list[tuple["ObservedPipeline", "Verdict"]](), list[str]()
    for of_job in jobs.values():
        limits = _ranks(of_job, lambda kind: kind not in ("none", "slow consumer"))
        waiting = [rank for rank in _ranks(of_job, "slow consumer".__eq__) if rank not in limits]
        remedy = FASTER_STEP
        if limits and waiting:
            remedy = f"Its training loop may wait in a collective for {_in_words(limits)}: see there."
            said.append(_together(limits, waiting))
        elif _some_are_elsewhere(of_job):
            remedy += (
                " If the step waits in a collective for a rank that is not seen here, the loader of that one may be "
                "the limit: `spdl why` on its machine tells."
            )
        for pipeline, verdict in of_job:
            waits = verdict.kind == "slow consumer" and rank_of(pipeline) in waiting
            verdicts.append((pipeline, replace(verdict, remedy=remedy) if waits else verdict))
    return verdicts, said


def _ranks(found: Verdicts, is_one: Callable[[str], bool]) -> list[str]:
    """Return the ranks, in order, that have a verdict of certain kinds."""
    ranks = dict.fromkeys(rank_of(pipeline) for pipeline, verdict in found if is_one(verdict.kind))
    return [rank for rank in ranks if rank]


def _some_are_elsewhere(found: Verdicts) -> bool:
    return len({rank_of(pipeline) for pipeline, _ in found}) < found[0][0].head.world_size


def _together(limits: Sequence[str], waiting: Sequence[str]) -> str:
    loaders = "The loader" if len(limits) == 1 else "The loaders"
    limit = "limits" if len(limits) == 1 else "limit"
    theirs = "its" if len(waiting) == 1 else "their"
    wait = "waits" if len(waiting) == 1 else "wait"
    return (
        f"{loaders} of {_in_words(limits)} {limit} the job: {_in_words(waiting)} {wait} for {theirs} own training "
        f"loop, which may wait in a collective for {_in_words(limits)}."
    )


def _in_words(ranks: Sequence[str]) -> str:
    """Return such as `rank 1`, or `ranks 0, 2 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"

"""Measurements of a job's processes, put together by the line that makes the loader."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class JobLoader:
    """The loaders that one line makes, in all processes of the job.

    Times are in seconds and summed over processes.

    Attributes:
        description: The line (`file`, `line`, `by_library`) and the loader's arguments.
        processes: How many processes read them.
        made: How many loaders were read. More than the processes if the job makes new ones.
        epochs: How many iterations began.
        start: The time until their first batches, and the time of their ends.
        end: The part of it that the ends took.
        waits, wait, wait_cpu: How many later batches there were, how long the loop waited for them, and the CPU time
            of the waiting thread: what it takes to receive a batch if there are worker processes.
        steps, step, step_cpu: How many times the loop did something with a batch, how long it took, and the CPU time of
            the process during them.
        ahead_steps, ahead: The same for steps whose batches had been there before, while the workers had nothing to do.
        ahead_squares: The sum of the squares of the lengths of these.
        periods, period, period_squares: How many waits with the steps after them there were, and the sums of their
            lengths and of the squares of these.
        batches, fetch, fetch_cpu, collate, collate_cpu: The work for it: calls of the dataset, and collating.
        observed, kinds: The time in which the dataset's calls were looked at, and the part of it in which they read,
            decode, transform or wait.
        on_core, for_core: How long the threads that make batches were on a core, and how long they waited for one.
        others_cpu: The CPU time of other threads in their processes meanwhile, which the dataset has started.
        all_for_core: How long all threads of worker processes waited for a core.
        sent, send_cpu, sent_bytes: The objects that worker processes pickled and sent.
        other_thread: Whether a thread other than the main one reads the loader.
        trial: The results of the ways to load that were tried; empty if none was.
    """

    description: dict[str, Any]
    processes: int = 0
    made: int = 0
    epochs: int = 0
    start: float = 0.0
    end: float = 0.0
    waits: int = 0
    wait: float = 0.0
    wait_cpu: float = 0.0
    steps: int = 0
    step: float = 0.0
    step_cpu: float = 0.0
    ahead_steps: int = 0
    ahead: float = 0.0
    ahead_squares: float = 0.0
    periods: int = 0
    period: float = 0.0
    period_squares: float = 0.0
    batches: int = 0
    fetch: float = 0.0
    fetch_cpu: float = 0.0
    collate: float = 0.0
    collate_cpu: float = 0.0
    observed: float = 0.0
    kinds: dict[str, float] = field(default_factory=dict)
    on_core: float = 0.0
    for_core: float = 0.0
    others_cpu: float = 0.0
    all_for_core: float = 0.0
    sent: int = 0
    send_cpu: float = 0.0
    sent_bytes: int = 0
    other_thread: bool = False
    trial: dict[str, Any] = field(default_factory=dict)

    @property
    def site(self) -> str:
        """The line, as `train.py:41`."""
        return f"{self.description['file']}:{self.description['line']}"

    @property
    def workers(self) -> int:
        """How many worker processes it has."""
        return int(self.description["num_workers"] or 0)

    @property
    def keeps_workers(self) -> bool:
        """Whether its workers stay from one iteration to the next."""
        return bool(self.description.get("persistent_workers"))

    def add_loop(self, record: dict[str, Any]) -> None:
        """Add what the loops of one process measured."""
        self.processes += 1
        self.made += record["made"]
        self.epochs += record["epochs"]
        self.start += record["start_seconds"]
        self.end += record["end_seconds"]
        self.waits += record["waits"]
        self.wait += record["wait_seconds"]
        self.wait_cpu += record["wait_cpu"]
        self.steps += record["steps"]
        self.step += record["step_seconds"]
        self.step_cpu += record["step_cpu"]
        self.ahead_steps += record["ahead_steps"]
        self.ahead += record["ahead_seconds"]
        self.ahead_squares += record["ahead_squares"]
        self.periods += record["periods"]
        self.period += record["period_seconds"]
        self.period_squares += record["period_squares"]
        self.other_thread |= record["other_thread"]

    def add_maker(self, record: dict[str, Any]) -> None:
        """Add what one process measured that made batches."""
        self.batches += record["batches"]
        self.fetch += record["fetch_seconds"]
        self.fetch_cpu += record["fetch_cpu"]
        self.collate += record["collate_seconds"]
        self.collate_cpu += record["collate_cpu"]
        self.observed += record["observed_seconds"]
        for kind, seconds in record["observed"].items():
            self.kinds[kind] = self.kinds.get(kind, 0.0) + seconds
        self.on_core += record.get("on_core", 0.0)
        self.for_core += record.get("for_core", 0.0)
        self.others_cpu += record.get("others_cpu", 0.0)
        self.all_for_core += record.get("all_for_core", 0.0)
        self.sent += record["sent"]
        self.send_cpu += record["send_cpu"]
        self.sent_bytes += record["sent_bytes"]


@dataclass(frozen=True)
class Rank:
    """A process that reads loaders.

    Attributes:
        name: Its rank in a distributed job, or None.
        share: The share of its time, 0 to 1, in which it waits.
    """

    name: str | None
    share: float


@dataclass(frozen=True)
class MeasuredJob:
    """The measurements of a job.

    Attributes:
        loaders: The loaders, the one with the most time first.
        ranks: The processes that read them.
        torch: The version of PyTorch, or an empty string.
    """

    loaders: list[JobLoader]
    ranks: list[Rank]
    torch: str

    @property
    def ranks_at_once(self) -> int:
        """How many processes share the machine: the ranks of a distributed job. Others may run one after the other."""
        return max(1, len({rank.name for rank in self.ranks} - {None}))


def read_records(folder: Path) -> MeasuredJob:
    """Read what the processes of a job have left in a folder."""
    # A file that is being made when its process is killed has another suffix.
    records = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    loaders: dict[str, JobLoader] = {}
    ranks, torch = [], ""
    for record in records:
        if record["kind"] != "loop":
            continue
        torch = record["torch"]
        waited = spent = 0.0
        for each in record["loaders"]:
            site = f"{each['file']}:{each['line']}"
            loaders.setdefault(site, JobLoader(each)).add_loop(each)
            waited += each["start_seconds"] + each["wait_seconds"]
            spent += each["step_seconds"]
        ranks.append(Rank(record["rank"], waited / (waited + spent) if waited else 0.0))
    for record in records:
        if record["kind"] == "maker" and record["site"] in loaders:
            loaders[record["site"]].add_maker(record)
        elif record["kind"] == "trial" and record["site"] in loaders:
            loaders[record["site"]].trial = record
    return MeasuredJob(
        sorted(loaders.values(), key=lambda it: it.start + it.wait + it.step, reverse=True), ranks, torch
    )

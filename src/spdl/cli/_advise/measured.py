"""Measurements of a job's processes, put together by the line that makes the loader."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

# Records name these `start_seconds`, and so on.
_SECONDS = ("start", "end", "wait", "step", "ahead", "period", "fetch", "collate", "observed")


@dataclass
class JobLoader:
    """The loaders that one line makes, in all processes of the job: sums of what `LoaderTimes` and `Maker` record.

    Times are in seconds. `periods` are waits with the steps after them. `kinds` are parts of `observed`, the time in
    which the dataset's calls were looked at. `on_core` and `for_core` are how long the threads that make batches were
    on a core and waited for one; `all_for_core` is the wait of all threads of worker processes. `others_cpu` is the CPU
    time of threads that the dataset has started. `trial` has the ways to load that were tried.
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
    def workers(self) -> int:
        return int(self.description["num_workers"] or 0)

    @property
    def keeps_workers(self) -> bool:
        return bool(self.description.get("persistent_workers"))

    def add(self, record: dict[str, Any]) -> None:
        for name, field_name in _RECORDED.items():
            if name in record:
                setattr(self, field_name, getattr(self, field_name) + record[name])
        for kind, seconds in record.get("observed", {}).items():
            self.kinds[kind] = self.kinds.get(kind, 0.0) + seconds
        self.other_thread |= record.get("other_thread", False)


# The fields by their names in the records.
_RECORDED = {
    (f"{each.name}_seconds" if each.name in _SECONDS else each.name): each.name
    for each in fields(JobLoader)
    if each.name not in ("description", "processes", "kinds", "other_thread", "trial")
}


@dataclass(frozen=True)
class Rank:
    """A process that reads loaders: its rank in a distributed job, and the share of its time in which it waits."""

    name: str | None
    share: float


@dataclass(frozen=True)
class MeasuredJob:
    loaders: list[JobLoader]
    ranks: list[Rank]
    torch: str

    @property
    def ranks_at_once(self) -> int:
        """How many processes share the machine: the ranks of a distributed job. Others may run one after the other."""
        return max(1, len({rank.name for rank in self.ranks} - {None}))


def read_records(folder: Path) -> MeasuredJob:
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
            loader = loaders.setdefault(site, JobLoader(each))
            loader.processes += 1
            loader.add(each)
            waited += each["start_seconds"] + each["wait_seconds"]
            spent += each["step_seconds"]
        ranks.append(Rank(record["rank"], waited / (waited + spent) if waited else 0.0))
    for record in records:
        if record["kind"] == "maker" and record["site"] in loaders:
            loaders[record["site"]].add(record)
        elif record["kind"] == "trial" and record["site"] in loaders:
            loaders[record["site"]].trial = record
    return MeasuredJob(
        sorted(loaders.values(), key=lambda it: it.start + it.wait + it.step, reverse=True), ranks, torch
    )

"""What the processes of a job leave behind, put together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spdl.cli._advise.measured import read_records

if TYPE_CHECKING:
    from pathlib import Path

NO_TIMES = dict.fromkeys(
    (
        *("made", "epochs", "start_seconds", "waits", "wait_seconds", "wait_cpu", "steps", "step_seconds", "step_cpu"),
        *("ahead_steps", "ahead_seconds", "ahead_squares", "periods", "period_seconds", "period_squares"),
    ),
    0,
)
MADE = {
    "kind": "maker",
    "batches": 3,
    "fetch_seconds": 0.5,
    "fetch_cpu": 0.25,
    "collate_seconds": 0.0,
    "collate_cpu": 0.0,
    "observed_seconds": 0.1,
    "observed": {"reading": 0.1},
    "released": 0.0,
    "sent": 3,
    "send_cpu": 0.0,
    "sent_bytes": 9,
}


def loop(rank: str | None, line: int, **times: float) -> dict[str, Any]:
    loader = {"file": "train.py", "line": line, "num_workers": 2, "other_thread": False}
    return {"kind": "loop", "rank": rank, "torch": "2.13", "loaders": [loader | NO_TIMES | times]}


def write(folder: Path, **records: dict[str, Any]) -> None:
    for name, record in records.items():
        (folder / f"{name}.json").write_text(json.dumps(record))


def test_loaders_of_several_processes(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=loop("0", 7, steps=2, step_seconds=1.0, waits=2, wait_seconds=1.0),
        b=loop("1", 7, steps=3, step_seconds=1.0),
        c=loop("1", 9, steps=1, step_seconds=9.0),
        d=MADE | {"site": "train.py:7"},
        e=MADE | {"site": "train.py:7", "on_core": 1.0, "for_core": 3.0},
        # The process whose loop this is for was killed at once.
        f=MADE | {"site": "train.py:11"},
    )
    (tmp_path / "g.json.making").write_text("{")
    measured = read_records(tmp_path)
    assert [loader.site for loader in measured.loaders] == ["train.py:9", "train.py:7"]
    loader = measured.loaders[1]
    assert (loader.steps, loader.step, loader.waits, loader.batches, loader.workers) == (5, 2.0, 2, 6, 2)
    assert loader.kinds == {"reading": 0.2}
    assert (loader.on_core, loader.for_core) == (1.0, 3.0)
    assert [(rank.name, rank.share) for rank in measured.ranks] == [("0", 0.5), ("1", 0.0), ("1", 0.0)]
    assert measured.ranks_at_once == 2


def test_a_job_that_is_not_distributed(tmp_path: Path) -> None:
    write(tmp_path, a=loop(None, 7), b=loop(None, 7))
    assert read_records(tmp_path).ranks_at_once == 1


def test_nothing(tmp_path: Path) -> None:
    measured = read_records(tmp_path)
    assert (measured.loaders, measured.ranks, measured.ranks_at_once) == ([], [], 1)

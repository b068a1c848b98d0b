"""What the processes of a job leave behind, put together, and the lines that are proposed to be changed."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

import pytest

from spdl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_TIMES = dict.fromkeys(
    (
        *(
            "made",
            "epochs",
            "start_seconds",
            "end_seconds",
            "waits",
            "wait_seconds",
            "wait_cpu",
            "steps",
            "step_seconds",
            "step_cpu",
        ),
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
    "sent": 3,
    "send_cpu": 0.0,
    "sent_bytes": 9,
}


def loop(rank: str | None, line: int, file: str = "train.py", **times: float) -> dict[str, Any]:
    """Return the record of a process that reads a loader, which a line makes."""
    loader: dict[str, Any] = {
        "file": file,
        "line": line,
        "class": "torch.utils.data.DataLoader",
        "batch_size": 1,
        "num_workers": 2,
        "by_library": False,
        "iterable": False,
        "worker_init_fn": False,
        "multiprocessing_context": False,
        "other_thread": False,
    }
    return {"kind": "loop", "rank": rank, "torch": "2.13", "loaders": [loader | NO_TIMES | times]}


@pytest.fixture
def advised(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that returns the figures on a job whose processes have left these records."""

    def figures(**records: dict[str, Any]) -> dict[str, Any]:
        left = tmp_path / "left"
        left.mkdir()
        # A file that is being made when its process is killed has another suffix.
        (left / "z.json.making").write_text("{")
        for name, record in records.items():
            (left / f"{name}.json").write_text(json.dumps(record))
        file = tmp_path / "figures.json"
        assert main(["advise", "--json", str(file), "--", "sh", "-c", f'cp "{left}"/* "$SPDL_ADVISE"']) == 0
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    return figures


def test_loaders_of_several_processes(advised: Callable[..., dict[str, Any]]) -> None:
    figures = advised(
        a=loop("0", 7, steps=2, step_seconds=1.0, waits=2, wait_seconds=1.0),
        b=loop("1", 7, steps=3, step_seconds=1.0),
        c=loop("1", 9, steps=1, step_seconds=9.0),
        d=MADE | {"site": "train.py:7"},
        e=MADE | {"site": "train.py:7", "on_core": 1.0, "for_core": 3.0},
        # The process whose loop this is for was killed at once.
        f=MADE | {"site": "train.py:11"},
    )
    assert [it["description"]["line"] for it in figures["loaders"]] == [9, 7]
    loader = figures["loaders"][1]
    assert [loader[name] for name in ("steps", "step", "waits", "batches", "processes")] == [5, 2.0, 2, 6, 2]
    assert loader["kinds"] == {"reading": 0.2}
    assert (loader["on_core"], loader["for_core"]) == (1.0, 3.0)
    assert [(rank["name"], rank["share"]) for rank in figures["ranks"]] == [("0", 0.5), ("1", 0.0), ("1", 0.0)]


def test_a_job_without_records(advised: Callable[..., dict[str, Any]]) -> None:
    figures = advised()
    assert (figures["verdict"], figures["loaders"], figures["ranks"]) == ("no loader", [], [])


MANY = """\
from __future__ import annotations
import os
from torch.utils.data import (
    DataLoader,
    Dataset,
)
loader = DataLoader(
    [1],
    batch_size=3,
)
"""
RENAMED = "from torch.utils.data.dataloader import DataLoader as Loader\nloader = list(Loader([1]))\n"
DOTTED = (
    '"""A job."""\nfrom __future__ import annotations\nimport torch.utils.data as data\nloader = data.DataLoader([1])\n'
)
WITHIN = "def make():\n    from torch.utils.data import DataLoader\n    return DataLoader([1])\n"
OTHER = "from elsewhere import make\nloader = make([1])\n"
MIGRATED = "from torch.utils.data import Dataset\nfrom mine import DataLoader\nloader = DataLoader([1])\n"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (
            MANY,
            7,
            [
                (
                    3,
                    "from torch.utils.data import Dataset",
                    "from spdl.dataloader import PyTorchDataLoader as DataLoader",
                )
            ],
        ),
        (RENAMED, 2, [(1, "from spdl.dataloader import PyTorchDataLoader as Loader")]),
        (
            DOTTED,
            4,
            [
                (3, "from spdl.dataloader import PyTorchDataLoader", "import torch.utils.data as data"),
                (4, "loader = PyTorchDataLoader([1])"),
            ],
        ),
        (WITHIN, 3, [(2, "    from spdl.dataloader import PyTorchDataLoader as DataLoader")]),
        (OTHER, 2, []),
        (MIGRATED, 3, []),
        ("def broken(:\n", 1, []),
        # The file is gone.
        (None, 1, []),
    ],
)
def test_the_lines_to_change_read_the_same_names_from_spdl(
    text: str | None,
    line: int,
    expected: list[tuple[int, str]],
    advised: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    file = tmp_path / "train.py"
    if text is not None:
        file.write_text(text)
    (loader,) = advised(a=loop(None, line, str(file), steps=9, step_seconds=1.0))["loaders"]
    assert [(it["line"], *it["new"]) for it in loader["changes"]] == expected
    for change in loader["changes"]:
        for statement in change["new"]:
            ast.parse(statement.strip())

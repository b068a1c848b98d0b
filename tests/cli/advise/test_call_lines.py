"""The lines that a job changes to switch: the changed file reads the same names, from spdl."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from spdl.cli._advise.call_lines import find_changes

if TYPE_CHECKING:
    from pathlib import Path

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
    ],
)
def test_changes(text: str, line: int, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    found = find_changes(str(file), line)
    assert [(it.line, *it.new) for it in found] == expected
    for change in found:
        for statement in change.new:
            ast.parse(statement.strip())


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    assert find_changes(str(tmp_path / "gone.py"), 1) == []

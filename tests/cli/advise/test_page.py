"""What the page proposes: lines to change only where the predicted gain is worth a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.advise.test_verdict import STARVED

from spdl.cli._advise.measured import Loader, Measured
from spdl.cli._advise.page import page
from spdl.cli._advise.verdict import judge

if TYPE_CHECKING:
    from pathlib import Path

JOB = "from torch.utils.data import DataLoader\nfor _ in DataLoader(range(10), num_workers=4):\n    pass\n"


def printed(folder: Path, cores: float, **changes: Any) -> str:
    """Return the page on a job of one loader, in one line."""
    file = folder / "train.py"
    file.write_text(JOB)
    description = {
        "file": str(file),
        "line": 2,
        "class": "torch.utils.data.DataLoader",
        "batch_size": 1,
        "num_workers": 4,
        "by_library": False,
        "iterable": False,
        "worker_init_fn": False,
        "multiprocessing_context": False,
    }
    loader = Loader(description, **STARVED | changes)
    text = page(Measured([loader], [], "2.9.0"), [judge(loader, cores)], cores, width=80)
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("cores", "gain", "is_worth"),
    # A step and its batch take 170 ms of CPU time, where a step takes 40 ms now.
    [(2.0, "0.47x", False), (4.5, "1.06x", False), (4.9, "1.15x", True), (8.0, "1.88x", True)],
)
def test_lines_to_change_are_printed_only_for_a_gain(
    cores: float, gain: str, tmp_path: Path, *, is_worth: bool
) -> None:
    text = printed(tmp_path, cores)
    assert f"{gain} as fast by prediction" in text
    assert ("To switch, change" in text) is is_worth
    assert ("+ from spdl.dataloader import PyTorchDataLoader as DataLoader" in text) is is_worth
    assert ("alone is not worth it" in text) is not is_worth
    assert ("; 1.10x would be): then the cores are the limit" in text) is not is_worth


def test_a_slow_start_is_worth_the_change(tmp_path: Path) -> None:
    # No gain of steps is predicted for it.
    text = printed(tmp_path, cores=8.0, wait=0.01, start=2.0)
    assert "spdl's threads start in a millisecond" in text
    assert "To switch, change" in text
    assert "To switch" not in printed(tmp_path, cores=8.0, wait=0.01, start=0.02)

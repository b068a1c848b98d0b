"""The benchmark of vision has contenders that do the same work, and judges by the figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.importing import importable
from tests.io.images import make_jpeg

if TYPE_CHECKING:
    from types import ModuleType

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def vision() -> ModuleType:
    with importable("benchmarks"):
        return importlib.import_module("vision")


# A process, which imports PyTorch.
@pytest.mark.timeout(180)
@pytest.mark.parametrize("job", ["classification", "simclr", "dino"])
def test_loader_takes_its_turn(tmp_path: Path, job: str) -> None:
    for index in range(12):
        (tmp_path / f"{index:02}.jpg").write_bytes(make_jpeg(80, 60, seed=index))
    arguments = {"folder": str(tmp_path), "contender": "spdl-turbo", "job": job, "workers": 1, "seconds": 0.1}
    command = [sys.executable, str(ROOT / "benchmarks" / "_vision_work.py"), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images_per_cpu_second"] > 0


def test_marks_are_judged_by_the_figures(vision: ModuleType) -> None:
    def row(contender: str, speed: float) -> dict[str, Any]:
        return {"job": "simclr", "contender": contender, "images_per_cpu_second": speed}

    rows = [row(vision.OURS, 90), row("torchvision", 20), row("albumentations", 45)]
    found = [(claim["value"], claim["met"]) for claim in vision.judge(rows)]
    assert found == [(4.5, False), (2.0, None)]
    assert vision.judge(rows[:1]) == []

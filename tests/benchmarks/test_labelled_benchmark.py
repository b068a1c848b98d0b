"""The benchmark of the image loader has contenders that do the same work, and judges by the figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.importing import importable
from tests.io.images import make_jpeg

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[None]:
    with importable("benchmarks"):
        yield


@pytest.fixture
def labelled() -> ModuleType:
    return importlib.import_module("labelled")


@pytest.fixture
def work() -> ModuleType:
    return importlib.import_module("_labelled_work")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for index in range(12):
        (tmp_path / f"{index:02}.jpg").write_bytes(make_jpeg(80, 60, seed=index))
    return tmp_path


# A process each, which import PyTorch.
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["loader", "bare", "torch"])
def test_a_contender_takes_its_turn(photos: Path, name: str) -> None:
    arguments = {"folder": str(photos), "work": name, "colors": True, "workers": 2, "seconds": 0.1}
    program = str(ROOT / "benchmarks" / "_labelled_work.py")
    command = [sys.executable, program, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images_per_second"] > 0


def test_contenders_make_the_same_batches(photos: Path, work: ModuleType) -> None:
    # Photos of one colour each: whatever part of them is cropped at random, its values are known.
    colors = [(20 * index, 250 - 20 * index, 100) for index in range(12)]
    for index, color in enumerate(colors):
        Image.new("RGB", (80, 60), color).save(photos / f"{index:02}.jpg", quality=95)
    listed = work.list_photos(str(photos))
    expected = [(np.array(color) / 255 - work.MEAN) / work.STD for color in colors]

    def shown(image: Any) -> int:
        values = np.asarray(image)
        assert values.shape == (3, work.SIZE, work.SIZE)
        differences = [np.abs(values - color[:, None, None]).max() for color in expected]
        index = int(np.argmin(differences))
        assert differences[index] < 3 / 255 / min(work.STD)
        return index

    images, labels = next(work.run_loader(listed, 1, colors=False))
    assert len(images) == work.BATCH
    assert [shown(image) % work.CLASSES for image in images] == labels.tolist()
    bare = np.asarray(next(work.run_bare(listed, 1, colors=False)))
    assert len(bare) == work.BATCH
    assert len({shown(image) for image in bare}) > 1
    dataset = work.PillowPhotos(listed, colors=False)
    assert [(shown(image), label) for image, label in map(dataset.__getitem__, range(12))] == [
        (index, index % work.CLASSES) for index in range(12)
    ]


def test_colours_of_the_contender_change_as_ours_do(work: ModuleType) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8))
    assert work.jitter(image).size == image.size
    assert (np.asarray(work.jitter(image)) != np.asarray(image)).any()


def test_marks_are_judged_by_the_figures(labelled: ModuleType) -> None:
    def row(name: str, speed: float) -> dict[str, Any]:
        return {"step": labelled.STEPS[0], "contender": name, "images_per_second": speed}

    rows = [row(labelled.LOADER, 95), row(labelled.BARE, 100), row(labelled.TORCH, 25)]
    assert [(claim["value"], claim["met"]) for claim in labelled.judge(rows)] == [(0.95, True), (3.8, False)]
    assert labelled.judge(rows[:1]) == []

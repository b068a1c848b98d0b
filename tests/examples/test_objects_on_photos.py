"""The plain scripts on masks and boxes: made photos say what is on them, and training on them makes losses fall."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

PLAIN = Path(__file__).parents[2] / "examples" / "plain"

pytestmark = pytest.mark.timeout(300)


def run(*command: object) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, command)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("objects")
    run(PLAIN / "objects_on_photos.py", root, 40)
    return root


def test_made_masks_and_boxes_agree(folder: Path) -> None:
    parts = {part: json.loads((folder / f"instances_{part}.json").read_text("utf-8")) for part in ("train", "val")}
    assert [len(part["images"]) for part in parts.values()] == [32, 8]
    objects = 0
    for part in parts.values():
        for image in part["images"]:
            mask = np.array(Image.open(folder / "SegmentationClass" / image["file_name"].replace("jpg", "png")))
            assert mask.shape == (image["height"], image["width"])
            for each in part["annotations"]:
                if each["image_id"] == image["id"]:
                    left, top, width, height = each["bbox"]
                    inside = mask[top : top + height, left : left + width]
                    number = each["category_id"]
                    assert (inside[height // 2] == number).all()
                    assert (inside[:, width // 2] == number).all()
                    assert mask[top + height // 2, left - 1] == mask[top - 1, left + width // 2] == 255
                    objects += 1
    assert objects > 60


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]


@pytest.mark.parametrize("script", ["segmentation.py", "detection.py"])
def test_losses_fall(script: str, folder: Path) -> None:
    printed = run(PLAIN / script, folder, 5)
    found: Any = losses(printed)
    assert len(found) == 5, printed
    assert found[-1] < 0.75 * found[0], printed
    # The order of threads changes nothing.
    assert run(PLAIN / script, folder, 2).splitlines() == printed.splitlines()[:2]


def test_detection_counts_the_same_on_two_ranks(folder: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    printed = run(*launcher, PLAIN / "detection.py", folder, 1)
    (objects,) = re.findall(r"found \d+ of (\d+)", printed)
    assert int(objects) == len(json.loads((folder / "instances_val.json").read_text("utf-8"))["annotations"])

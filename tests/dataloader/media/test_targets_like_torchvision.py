"""Targets move as torchvision's v2 functions move them with the same crops and flips."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from tests.dataloader.media.image_loading import make
from tests.io.images import make_jpeg

from spdl.dataloader import Boxes, Mask
from spdl.io import random_flip, random_resized_crop

pytestmark = pytest.mark.pages

COUNT, SIZE = 12, (48, 36)


@pytest.fixture(scope="module")
def v2() -> Any:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    importlib.import_module("tests.repository.beside_torchvision")
    return importlib.import_module("torchvision.transforms.v2")


def test_targets_are_those_of_torchvisions_functions(v2: Any) -> None:
    tensors = importlib.import_module("torchvision.tv_tensors")
    rng = np.random.default_rng(0)
    sizes = [(60 + 5 * index, 90 - 4 * index) for index in range(COUNT)]
    source = []
    for index, (width, height) in enumerate(sizes):
        low = rng.uniform(0, 40, (4, 2))
        boxes = np.hstack([low, low + rng.uniform(1, 30, (4, 2))]).round(2)
        mask = rng.integers(0, 255, (height, width), np.uint8)
        source.append({"image": make_jpeg(width, height, seed=index), "boxes": boxes, "mask": mask})
    (batch,) = make(
        source, COUNT, size=SIZE, augment="train", seed=4, targets={"boxes": Boxes(), "mask": Mask(dtype="uint8")}
    )
    crops = random_resized_crop(range(COUNT), seed=4, epoch=0).boxes(sizes)
    flips = random_flip(range(COUNT), seed=4, epoch=0)
    compared = 0
    exact = v2.InterpolationMode.NEAREST_EXACT
    for place, (sample, own, (left, top, right, bottom), flip) in enumerate(
        zip(source, sizes, crops, flips, strict=True)
    ):
        given: Any = (
            tensors.BoundingBoxes(torch.tensor(sample["boxes"]), format="XYXY", canvas_size=own[::-1]),
            # For a Mask, torchvision takes pixels from their corners instead of their centres, half a pixel away.
            tensors.Image(torch.from_numpy(sample["mask"])[None]),
        )
        moved = [
            v2.functional.resized_crop(it, top, left, bottom - top, right - left, list(SIZE[::-1]), exact)
            for it in given
        ]
        if flip:
            moved = [v2.functional.horizontal_flip(it) for it in moved]
        boxes = v2.functional.clamp_bounding_boxes(moved[0]).numpy()
        boxes = boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)]
        np.testing.assert_allclose(batch.boxes[place], boxes, atol=1e-3)
        # PyTorch computes in float32 which pixel a centre lies in, so one on an edge may fall on either side.
        rows, columns = np.mgrid[: SIZE[1], : SIZE[0]] + 0.5
        origins = batch.geometry[place].inverse().points(np.stack([columns, rows], -1))
        certain = (abs(origins - np.round(origins)) > 1e-3).all(-1)
        compared += int(certain.sum())
        np.testing.assert_array_equal(batch.mask[place][certain], moved[1][0].numpy()[certain])
    assert compared > COUNT * SIZE[0] * SIZE[1] / 2

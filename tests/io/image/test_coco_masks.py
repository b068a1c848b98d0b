"""COCO's segmentations as masks, against what pycocotools makes of them, written down, and against numpy."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.image.coco_vectors import VECTORS
from tests.io.image_files import AnyArray

from spdl.io import coco_masks

TRIANGLE = [[0.0, 0.0, 4.0, 0.0, 0.0, 4.0]]


def runs_of(mask: AnyArray) -> list[int]:
    """Return how many pixels lie outside and inside in turns, down the columns."""
    flat = mask.T.reshape(-1)
    ends = np.flatnonzero(np.diff(flat, prepend=0, append=2))
    return np.diff(ends, prepend=0).tolist()  # type: ignore[no-any-return]


def compressed(runs: list[int]) -> str:
    """Write runs as text: from the fourth on, the difference from the run two before, five bits for each character."""
    text = ""
    for index, run in enumerate(runs):
        number, more = run - (runs[index - 2] if index > 2 else 0), True
        while more:
            bits, number = number & 31, number >> 5
            more = number != (-1 if bits & 16 else 0)
            text += chr(48 + bits + 32 * more)
    return text


@pytest.mark.parametrize(("width", "height", "polygons", "runs"), VECTORS, ids=map(str, range(len(VECTORS))))
def test_coco_masks_are_pycocotools(width: int, height: int, polygons: Any, runs: str) -> None:
    of_polygons, of_runs = coco_masks([polygons, {"size": [height, width], "counts": runs}], width=width, height=height)
    np.testing.assert_array_equal(of_polygons, of_runs)
    assert compressed(runs_of(of_polygons)) == runs


@settings(deadline=None)
@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
    form=st.sampled_from(["list", "array", "str", "bytes", "json"]),
)
def test_coco_masks_gives_back_runs(size: tuple[int, int], share: float, seed: int, form: str) -> None:
    width, height = size
    mask = (np.random.default_rng(seed).random((height, width)) < share).astype(np.uint8)
    runs = runs_of(mask)
    text = compressed(runs)
    forms: dict[str, Any] = {"list": runs, "array": np.array(runs), "str": text, "bytes": text.encode(), "json": runs}
    segmentation: Any = {"size": (height, width), "counts": forms[form]}
    if form == "json":
        segmentation = json.loads(json.dumps(segmentation))
    np.testing.assert_array_equal(coco_masks([segmentation], width=width, height=height), mask[None])


@pytest.mark.parametrize(("dtype", "most"), [("uint8", 255), ("uint16", 65535)])
def test_coco_masks_paints_ids_in_their_order(dtype: Any, most: int) -> None:
    objects = [polygons for width, height, polygons, _ in VECTORS if (width, height) == (9, 7)]
    ids = [most - index for index in range(len(objects))]
    painted = coco_masks(objects, width=9, height=7, ids=ids, dtype=dtype)
    expected = np.zeros((7, 9), dtype)
    for each, mask in zip(ids, coco_masks(objects, width=9, height=7), strict=True):
        expected[mask > 0] = each
    np.testing.assert_array_equal(painted, expected, strict=True)


def test_coco_masks_of_no_objects() -> None:
    assert coco_masks([], width=5, height=3).shape == (0, 3, 5)
    assert not coco_masks([], width=5, height=3, ids=[]).any()


def runs(counts: Any, size: Any = (4, 4)) -> dict[str, Any]:
    return {"size": size, "counts": counts}


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "too few pixels": (runs([3, 4]), ValueError, r"segmentations\[0\]: its counts are of 7 pixels"),
    "too many pixels": (runs([3, 14]), ValueError, r"segmentations\[0\]: its counts go beyond the 16 pixels"),
    "below zero": (runs([-1, 17]), ValueError, r"segmentations\[0\]\['counts'\]\[0\]"),
    "fractions": (runs([0.5, 15.5]), TypeError, r"segmentations\[0\]\['counts'\]\[0\]"),
    "no runs": (runs(None), TypeError, r"segmentations\[0\]\['counts'\]"),
    "other characters": (runs("1!"), ValueError, "damaged at character 1"),
    "not ASCII": (runs("é"), ValueError, "damaged at character 0"),
    "cut text": (runs("T"), ValueError, "damaged at character 1"),
    "endless number": (runs("o" * 20), ValueError, "damaged at character 12"),
    "text below zero": (runs("O"), ValueError, "run 0 would have -1 pixels"),
    "another size": (runs([16], (2, 8)), ValueError, r"segmentations\[0\]\['size'\].*\(4, 4\)"),
    "no size": ({"counts": [16]}, ValueError, r"segmentations\[0\]\['size'\]"),
    "two points": ([[0, 0, 4, 4]], ValueError, r"segmentations\[0\]: one of its polygons has 4 numbers"),
    "half a point": ([[0, 0, 4, 0, 4, 4, 0]], ValueError, "has 7 numbers"),
    "no number": ([[0, 0, 4, 0, 4, float("nan")]], ValueError, "a coordinate of nan"),
    "far away": ([[0, 0, 4, 0, 4, 1e30]], ValueError, "a coordinate of 1"),
    "no polygons": ([], ValueError, r"segmentations\[0\]"),
    "a flat list": ([0, 0, 4, 0, 4, 4], TypeError, r"segmentations\[0\]"),
    "a text": ("PP", TypeError, r"segmentations\[0\]"),
    "nothing": (None, TypeError, r"segmentations\[0\]"),
}


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_coco_masks_refuses_by_name(kind: str) -> None:
    segmentation, error, words = WRONG[kind]
    with pytest.raises(error, match=words):
        coco_masks([segmentation], width=4, height=4)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"segmentations": TRIANGLE[0]}, TypeError, r"segmentations\[0\]"),
        ({"segmentations": {"size": [4, 4]}}, TypeError, "`segmentations`"),
        ({"width": 0}, ValueError, "`width`"),
        ({"width": 65535, "height": 65535}, ValueError, "`width`"),
        ({"ids": [1, 2]}, ValueError, "`ids`"),
        ({"ids": [256]}, ValueError, r"`ids\[0\]`"),
        ({"dtype": "int64"}, ValueError, "`dtype`"),
    ],
)
def test_coco_masks_refuses_other_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        coco_masks(**{"segmentations": [TRIANGLE], "width": 4, "height": 4, **arguments})

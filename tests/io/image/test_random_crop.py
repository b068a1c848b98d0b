"""random_resized_crop and random_flip: the distribution of torchvision's, from a seed, an epoch and an index alone."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.images import make_jpeg

from spdl.io import load_image_batch, random_flip, random_resized_crop, to_numpy

Box = tuple[int, int, int, int]


def boxes_of(size: tuple[int, int], count: int = 4000, seed: int = 0, epoch: int = 0, **keywords: Any) -> Any:
    crop = random_resized_crop(range(count), seed=seed, epoch=epoch, **keywords)
    return np.array(crop.boxes([size] * count))


def assert_uniform(values: np.ndarray[Any, Any]) -> None:
    """Kolmogorov and Smirnov's test against the uniform distribution from 0 to 1, at one in a million."""
    values = np.sort(values)
    steps = np.arange(1, len(values) + 1) / len(values)
    assert np.abs(values - steps).max() * math.sqrt(len(values)) < 2.7


def test_area_ratio_and_place_are_uniform() -> None:
    # Large and square: every crop fits at the first attempt, and rounding to pixels does not show.
    side = 20_000
    left, top, right, bottom = boxes_of((side, side), scale=(0.1, 0.5), ratio=(0.5, 2.0)).T
    width, height = (right - left).astype(float), (bottom - top).astype(float)
    assert_uniform((width * height / side**2 - 0.1) / 0.4)
    assert_uniform((np.log(width / height) + math.log(2)) / (2 * math.log(2)))
    assert_uniform(left / (side - width))
    assert_uniform(top / (side - height))


def resized_crop_params(rng: Any, width: int, height: int, scale: Any, ratio: Any) -> Box:
    """torchvision's get_params as documented, with numpy's random numbers."""
    for _ in range(10):
        area = width * height * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            return left, top, left + w, top + h
    own = width / height
    w, h = width, height
    if own < ratio[0]:
        h = round(w / ratio[0])
    elif own > ratio[1]:
        w = round(h * ratio[1])
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (64, 64), (2000, 300), (9, 200), (1, 1), (3, 2)])
def test_crops_that_have_to_fit_are_distributed_alike(size: tuple[int, int]) -> None:
    scale, ratio, count = (0.08, 1.0), (3 / 4, 4 / 3), 4000
    ours = boxes_of(size, count, seed=3)
    rng = np.random.default_rng(7)
    theirs = np.array([resized_crop_params(rng, *size, scale, ratio) for _ in range(count)])
    for mine, other in zip(ours.T, theirs.T, strict=True):
        # Two samples: the same test.
        edges = np.union1d(mine, other)
        mine_up_to = np.searchsorted(np.sort(mine), edges, "right") / count
        other_up_to = np.searchsorted(np.sort(other), edges, "right") / count
        assert np.abs(mine_up_to - other_up_to).max() * math.sqrt(count / 2) < 2.7
    # The last resort is the same box whenever it is taken.
    if size == (9, 200):
        assert (ours == [0, 94, 9, 106]).all()
        assert (theirs == [0, 94, 9, 106]).all()


@settings(deadline=None, max_examples=100)
@given(
    size=st.tuples(st.integers(1, 65535), st.integers(1, 65535)),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**64 - 1),
    index=st.integers(0, 2**64 - 1),
)
def test_a_crop_lies_within_its_image(size: tuple[int, int], seed: int, epoch: int, index: int) -> None:
    ((left, top, right, bottom),) = random_resized_crop([index], seed=seed, epoch=epoch).boxes([size])
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]


def test_a_crop_depends_on_nothing_else() -> None:
    all_of_them = boxes_of((500, 375), 100, seed=5, epoch=2)
    some = random_resized_crop([71, 3], seed=5, epoch=2).boxes([(500, 375)] * 2)
    np.testing.assert_array_equal(some, all_of_them[[71, 3]])
    # Hashed, not added up.
    variants = [boxes_of((500, 375), 100, seed=seed, epoch=epoch) for seed, epoch in ((5, 2), (2, 5), (6, 1), (7, 0))]
    for one in range(4):
        for other in range(one):
            assert (variants[one] == variants[other]).all(axis=1).mean() < 0.1


def test_the_numbers_stay_what_they_are() -> None:
    # A run that is resumed with another version of this library continues with the same crops.
    crop = random_resized_crop([0, 1, 2], seed=1, epoch=2)
    assert crop.boxes([(500, 375)] * 3) == PINNED_BOXES
    assert random_flip(range(16), seed=1, epoch=2) == [bool(int(digit)) for digit in PINNED_FLIPS]


PINNED_BOXES: list[Box] = [(110, 12, 423, 373), (188, 30, 388, 295), (112, 118, 419, 358)]
PINNED_FLIPS = "1111011110001100"


def test_the_batch_takes_the_crops_that_it_tells() -> None:
    inputs = [make_jpeg(90 + 10 * seed, 140 - 20 * seed, seed) for seed in range(5)]
    sizes = [(90 + 10 * seed, 140 - 20 * seed) for seed in range(5)]
    crop = random_resized_crop([4, 8, 15, 16, 23], seed=42, epoch=1)
    keywords: dict[str, Any] = {"width": 32, "height": 32, "mode": "stretch", "num_threads": 2}
    np.testing.assert_array_equal(
        to_numpy(load_image_batch(inputs, crop=crop, **keywords)),
        to_numpy(load_image_batch(inputs, crop=crop.boxes(sizes), **keywords)),
    )


def test_flips_are_as_likely_as_asked_for_and_independent_of_the_crops() -> None:
    count = 20_000
    flips = np.array(random_flip(range(count), seed=0, epoch=0))
    assert abs(flips.mean() - 0.5) < 0.02
    assert abs(np.mean(random_flip(range(count), seed=0, epoch=0, probability=0.1)) - 0.1) < 0.012
    assert not any(random_flip(range(count), seed=0, epoch=0, probability=0))
    assert all(random_flip(range(count), seed=0, epoch=0, probability=1))
    left = boxes_of((500, 375), count)[:, 0]
    assert abs(np.corrcoef(left, flips)[0, 1]) < 0.03
    following = np.corrcoef(flips[1:], flips[:-1])[0, 1]
    assert abs(following) < 0.03


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"scale": (0.0, 1.0)}, "`scale` must be two shares of an area, 0 < least <= greatest <= 1, got (0.0, 1.0)"),
        ({"scale": (0.5, 0.1)}, "`scale` must be two shares"),
        ({"scale": (0.5, 2)}, "`scale` must be two shares"),
        ({"ratio": (0, 1)}, "`ratio` must be two finite ratios of width to height, 0 < least <= greatest, got (0, 1)"),
        ({"ratio": (2, 1)}, "`ratio` must be two finite ratios"),
        ({"ratio": (1, float("inf"))}, "`ratio` must be two finite ratios"),
        ({"seed": -1}, "`seed` must be an int from 0 to 18446744073709551615, got -1"),
        ({"epoch": 2**64}, "`epoch` must be an int from 0 to 18446744073709551615, got 18446744073709551616"),
        ({"indices": [-3]}, "`indices` must be an int from 0 to 18446744073709551615, got -3"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_accepted(keywords: dict[str, Any], message: str) -> None:
    arguments = {"indices": [1], "seed": 0, "epoch": 0, **keywords}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        random_resized_crop(arguments.pop("indices"), **arguments)


@pytest.mark.parametrize("draw", [random_resized_crop, random_flip])
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"seed": 0.5}, "`seed` must be an int from 0 to 18446744073709551615, got 0.5"),
        ({"epoch": None}, "`epoch` must be an int from 0 to 18446744073709551615, got None"),
        ({"indices": ["a"]}, "`indices` must be an int from 0 to 18446744073709551615, got 'a'"),
    ],
)
def test_what_is_no_integer_is_named(draw: Callable[..., Any], keywords: dict[str, Any], message: str) -> None:
    arguments = {"indices": [1], "seed": 0, "epoch": 0, **keywords}
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        draw(arguments.pop("indices"), **arguments)


def test_boxes_need_sizes() -> None:
    crop = random_resized_crop([1, 2], seed=0, epoch=0)
    with pytest.raises(ValueError, match=r"^`sizes\[0\]` must be a positive width and height, got \(0, 5\) "):
        crop.boxes([(0, 5), (1, 1)])
    with pytest.raises(ValueError, match=r"^`sizes` must be one size for each of the 2 indices, got \[\(5, 5\)\] "):
        crop.boxes([(5, 5)])
    with pytest.raises(ValueError, match="`probability` must be a number from 0 to 1, got 2"):
        random_flip([1], seed=0, epoch=0, probability=2)

"""exact=False: a JPEG that is shrunk is decoded at a half, a quarter or an eighth, never below the target."""

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.images import RESAMPLING, Array, encode, make_image, make_jpeg

from spdl.io import load_image_batch, to_numpy

Box = tuple[int, int, int, int]


def fraction(box: Box, target: tuple[int, int]) -> int:
    """Return the largest of 8, 4, 2 and 1 by which the box can be divided and still cover the target."""
    for divisor in (8, 4, 2):
        if box[2] - box[0] >= divisor * target[0] and box[3] - box[1] >= divisor * target[1]:
            return divisor
    return 1


def resize_with_pillow(data: bytes, box: Box, target: tuple[int, int], interpolation: str) -> Array:
    """Decode by Pillow's draft mode, cut out the whole pixels that the box touches, resize what the box has of them."""
    divisor = fraction(box, target)
    with Image.open(io.BytesIO(data)) as file:
        size = file.size
        # Draft takes the smallest that is not below.
        file.draft("RGB", (size[0] // divisor, size[1] // divisor))
        image = file.convert("RGB")
    assert image.size == (math.ceil(size[0] / divisor), math.ceil(size[1] / divisor))
    left, top, right, bottom = (side / divisor for side in box)
    first = math.floor(left), math.floor(top)
    cut = image.crop((*first, math.ceil(right), math.ceil(bottom)))
    inner = left - first[0], top - first[1], right - first[0], bottom - first[1]
    return np.asarray(cut.resize(target, RESAMPLING[interpolation], box=inner))


@settings(deadline=None, max_examples=120)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    shares=st.tuples(*[st.floats(0, 1)] * 4),
    target=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    interpolation=st.sampled_from(["area", "bilinear", "bicubic", "lanczos"]),
    options=st.sampled_from([{}, {"subsampling": "4:4:4"}, {"subsampling": "4:2:2"}, {"progressive": True}]),
)
def test_it_is_pillows_draft_mode(
    size: tuple[int, int], shares: Any, target: tuple[int, int], interpolation: Any, options: dict[str, Any]
) -> None:
    left, top = int(shares[0] * (size[0] - 1)), int(shares[1] * (size[1] - 1))
    box = left, top, left + 1 + int(shares[2] * (size[0] - left - 1)), top + 1 + int(shares[3] * (size[1] - top - 1))
    data = make_jpeg(*size, 1, **options)
    batch = load_image_batch(
        [data],
        width=target[0],
        height=target[1],
        mode="stretch",
        crop=[box],
        interpolation=interpolation,
        exact=False,
    )
    expected = resize_with_pillow(data, box, target, interpolation)
    # The order of the two passes is chosen by the box, not by the pixels that it touches.
    assert np.abs(to_numpy(batch)[0].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_or_not_it_is_the_same_picture(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(make_image(301, 203), exif=exif, quality=95)
    keywords: dict[str, Any] = {"width": 40, "height": 40, "mode": "crop", "flip": True}
    exact = to_numpy(load_image_batch([data], **keywords)).astype(int)
    scaled = to_numpy(load_image_batch([data], exact=False, **keywords))
    assert 0 < np.abs(scaled - exact).mean() < 2.5


@pytest.mark.parametrize("target", [(151, 40), (40, 101), (160, 120)])
def test_above_the_half_it_is_decoded_at_its_size(target: tuple[int, int]) -> None:
    data = make_jpeg(301, 201)
    keywords: dict[str, Any] = {"width": target[0], "height": target[1], "mode": "stretch"}
    whole = to_numpy(load_image_batch([data], **keywords)).astype(int)
    assert np.abs(to_numpy(load_image_batch([data], exact=False, **keywords)) - whole).max() <= 1


def test_the_nearest_sample_is_exact_in_any_case_and_so_are_weights_below_zero() -> None:
    keywords: dict[str, Any] = {"width": 20, "height": 20}
    for data, interpolation in (
        (make_jpeg(300, 200), "nearest"),
        (encode(make_image(300, 200), "PNG"), "bicubic"),
    ):
        keywords["interpolation"] = interpolation
        np.testing.assert_array_equal(
            to_numpy(load_image_batch([data], exact=False, **keywords)), to_numpy(load_image_batch([data], **keywords))
        )

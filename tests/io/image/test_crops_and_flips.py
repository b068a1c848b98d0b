"""Crops and flips of a batch: byte for byte as Pillow, for the same box of the same upright image."""

import io
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.io.images import PILLOW, RESAMPLING, Array, encode, make_image, make_jpeg

from spdl.io import load_image_batch, random_resized_crop, to_numpy

Box = tuple[int, int, int, int]

JPEG_KINDS: dict[str, dict[str, Any]] = {
    "4:4:4": {"subsampling": "4:4:4"},
    "4:2:2": {"subsampling": "4:2:2"},
    "4:2:0": {"subsampling": "4:2:0"},
    "4:1:1": {"subsampling": "4:1:1"},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_blocks": 3},
    "4:2:2, progressive, restarts": {"subsampling": "4:2:2", "progressive": True, "restart_marker_blocks": 5},
    "rgb": {"keep_rgb": True},
    "gray": {"mode": "L"},
    "cmyk": {"mode": "CMYK"},
}


def make(kind: str, size: tuple[int, int], seed: int, orientation: int) -> bytes:
    options = dict(JPEG_KINDS[kind])
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = make_image(*size, seed).convert(options.pop("mode", "RGB"))
    return encode(image, "JPEG", quality=90, exif=exif, **options)


def view_with_pillow(data: bytes, box: Box, size: tuple[int, int], interpolation: str, *, flip: bool) -> Array:
    """Turn upright, crop, resize, flip."""
    with Image.open(io.BytesIO(data)) as file:
        upright = ImageOps.exif_transpose(file).convert("RGB")
    cropped = upright.crop(box)
    resampling = RESAMPLING[interpolation]
    shorter = cropped.height - size[1]
    # As in resize_with_pillow: the order of the passes of older ones.
    if PILLOW < 13 and shorter > 0 and 2 * (cropped.width - size[0]) < shorter and interpolation != "nearest":
        cropped = cropped.resize((cropped.width, size[1]), resampling)
    resized = cropped.resize(size, resampling)
    return np.asarray(ImageOps.mirror(resized) if flip else resized)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.tuples(st.integers(1, 150), st.integers(1, 150)))
    orientation = draw(st.integers(1, 8))
    width, height = size if orientation < 5 else size[::-1]
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    box = left, top, draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))
    own = box[2] - box[0], box[3] - box[1]
    target = tuple(draw(st.one_of(st.just(side), st.integers(1, 90))) for side in own)
    return {
        "kind": draw(st.sampled_from(sorted(JPEG_KINDS))),
        "size": size,
        "orientation": orientation,
        "box": box,
        "target": target,
        "interpolation": draw(st.sampled_from(sorted(RESAMPLING))),
        "flip": draw(st.booleans()),
        "seed": draw(st.integers(0, 3)),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(case=cases())
def test_a_view_is_identical_to_pillows(kernels: str, case: dict[str, Any]) -> None:
    data = make(case["kind"], case["size"], case["seed"], case["orientation"])
    batch = load_image_batch(
        [data],
        width=case["target"][0],
        height=case["target"][1],
        mode="stretch",
        crop=[case["box"]],
        flip=case["flip"],
        interpolation=case["interpolation"],
    )
    expected = view_with_pillow(data, case["box"], case["target"], case["interpolation"], flip=case["flip"])
    np.testing.assert_array_equal(to_numpy(batch)[0], expected, err_msg=kernels)


@pytest.mark.parametrize("kind", ["4:4:4", "4:2:2", "4:2:0", "4:1:1", "progressive", "restarts"])
def test_a_crop_has_the_whole_decodes_pixels(kind: str) -> None:
    # Larger than the decoder's blocks, so that rows and columns are skipped on all sides.
    data = make(kind, (333, 257), 1, 1)
    whole = to_numpy(load_image_batch([data], width=None, height=None))[0]
    rng = np.random.default_rng(0)
    boxes = [(0, 0, 333, 257), (332, 256, 333, 257), (0, 256, 333, 257), (160, 128, 176, 144), (15, 15, 17, 17)]
    for _ in range(60):
        left, right = sorted(rng.choice(334, 2, replace=False).tolist())
        top, bottom = sorted(rng.choice(258, 2, replace=False).tolist())
        boxes.append((left, top, right, bottom))
    for box in boxes:
        left, top, right, bottom = box
        cropped = to_numpy(load_image_batch([data], width=None, height=None, crop=[box]))[0]
        np.testing.assert_array_equal(cropped, whole[top:bottom, left:right], err_msg=str(box))


@pytest.mark.parametrize("file_format", ["PNG", "BMP", "WEBP"])
def test_other_formats_are_cropped_and_flipped_too(file_format: str) -> None:
    options = {"lossless": True} if file_format == "WEBP" else {}
    data = encode(make_image(90, 70), file_format, **options)
    box = (13, 8, 61, 70)
    batch = load_image_batch([data], width=30, height=40, mode="stretch", crop=[box], flip=True)
    expected = view_with_pillow(data, box, (30, 40), "bicubic", flip=True)
    np.testing.assert_array_equal(to_numpy(batch)[0], expected)


def test_each_image_has_its_own_view() -> None:
    inputs = [make_jpeg(80, 60, seed) for seed in range(4)]
    boxes = np.array([(0, 0, 80, 60), (10, 20, 30, 60), (5, 5, 6, 6), (0, 59, 80, 60)], np.int32)
    flips = [False, True, True, False]
    for crop in (boxes, boxes.tolist(), [tuple(box) for box in boxes.tolist()], iter(boxes)):
        batch = load_image_batch(inputs, width=24, height=16, mode="stretch", crop=crop, flip=np.array(flips))
        for row, data, box, flip in zip(to_numpy(batch), inputs, boxes.tolist(), flips, strict=True):
            np.testing.assert_array_equal(row, view_with_pillow(data, box, (24, 16), "bicubic", flip=flip))


def test_the_flip_is_that_of_the_result() -> None:
    data = make_jpeg(80, 45)
    for mode in ("pad", "crop"):
        keywords: dict[str, Any] = {"width": 33, "height": 33, "mode": mode}
        plain = to_numpy(load_image_batch([data], **keywords))
        np.testing.assert_array_equal(to_numpy(load_image_batch([data], flip=True, **keywords)), plain[:, :, ::-1])


def test_a_crop_beyond_an_image_fails_that_image() -> None:
    inputs = [make_jpeg(40, 30), make_jpeg(50, 40)]
    batch = load_image_batch(inputs, width=8, height=8, crop=[(0, 0, 41, 30)] * 2, on_error="skip")
    assert [failure.index for failure in batch.failures] == [0]
    assert batch.failures[0].reason == (
        "the crop (0, 0, 41, 30) does not lie within the image of 40x30 pixels: "
        "give left, top, right and bottom, the latter two just outside"
    )


def test_what_lies_below_a_crop_is_not_read() -> None:
    data = make_jpeg(200, 300)
    upper = to_numpy(load_image_batch([data], width=20, height=20, crop=[(0, 0, 200, 100)]))
    half = data[: len(data) // 2]
    np.testing.assert_array_equal(
        to_numpy(load_image_batch([half], width=20, height=20, crop=[(0, 0, 200, 100)])), upper
    )
    with pytest.raises(RuntimeError, match="truncated"):
        load_image_batch([half], width=20, height=20, crop=[(0, 200, 200, 300)])


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"crop": [(0, 0, 8, 8)]}, ValueError, "`crop` must be given for each of the 2 images, got [(0, 0, 8, 8)] ("),
        ({"crop": (0, 0, 8, 8)}, TypeError, "`crop[0]` must be four ints in pixels: left, top, right and bottom"),
        ({"crop": [(0, 0, 8)] * 2}, TypeError, "`crop[0]` must be four ints in pixels"),
        ({"crop": np.ones((2, 4))}, TypeError, "`crop[0]` must be four ints in pixels"),
        ({"crop": [(0, 0, 8, 8), (0, 3, 8, 3)]}, ValueError, "`crop[1]` must be left, top, right and bottom, with"),
        ({"crop": [(-1, 0, 8, 8)] * 2}, ValueError, "`crop[0]` must be left, top, right and bottom, with 0 <= left"),
        ({"crop": [(0, 0, 1 << 40, 8)] * 2}, ValueError, "`crop[0]` must be left, top, right and bottom, with"),
        ({"crop": "center"}, TypeError, "`crop` must be a box for each image, or what `random_resized_crop` returns"),
        ({"crop": 5}, TypeError, "`crop` must be a box for each image, or what `random_resized_crop` returns, got 5"),
        (
            {"crop": random_resized_crop([1], seed=0, epoch=0)},
            ValueError,
            "`crop` must be given for each of the 2 images, got (1,)",
        ),
        ({"flip": [True]}, ValueError, "`flip` must be given for each of the 2 images, got [True]"),
        ({"flip": 1}, TypeError, "`flip` must be a bool, or one for each image, got 1"),
        ({"flip": [1, 0]}, TypeError, "`flip` must be a bool, or one for each image, got [1, 0]"),
    ],
)
def test_a_wrong_crop_or_flip_is_named_with_what_is_accepted(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        load_image_batch([make_jpeg()] * 2, width=8, height=8, **keywords)

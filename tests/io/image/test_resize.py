"""The resize gives the same bytes as Pillow, with every instruction set."""

import io
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.images import RESAMPLING, encode, make_image, make_jpeg, resize_with_pillow
from tests.io.inside import instruction_sets, knows_instruction_set
from tests.io.pairs import pairs

from spdl.io import (
    convert_frames,
    decode_packets,
    demux_image,
    encode_config,
    encode_image,
    get_video_filter_desc,
    load_image,
    load_image_batch,
    to_numpy,
)

INTERPOLATIONS = sorted(RESAMPLING)
once_per_variant = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def stretch(data: bytes, width: int, height: int, interpolation: Any) -> Any:
    batch = load_image_batch([data], width=width, height=height, mode="stretch", interpolation=interpolation)
    return to_numpy(batch)[0]


@once_per_variant
@given(
    source=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from(INTERPOLATIONS),
    seed=st.integers(0, 5),
)
def test_stretching_is_identical_to_pillow(
    kernels: str, source: tuple[int, int], target: tuple[int, int], interpolation: str, seed: int
) -> None:
    data = make_jpeg(*source, seed)
    np.testing.assert_array_equal(
        stretch(data, *target, interpolation), resize_with_pillow(data, *target, interpolation), err_msg=kernels
    )


EXTREMES = [
    ((500, 375), (224, 224)),  # The common case: all taps of a pixel within one vector.
    ((1500, 40), (37, 20)),  # Scales at which a window of two vectors no longer holds the taps.
    ((3000, 20), (8, 20)),
    ((20, 3000), (20, 8)),
    ((3, 2), (400, 300)),
    ((400, 300), (1, 1)),
    ((1, 1), (65, 63)),
]


@pytest.mark.parametrize(
    ("scale", "interpolation", "kernels"),
    pairs(EXTREMES, INTERPOLATIONS, instruction_sets()),
    indirect=["kernels"],
)
def test_extreme_scales_are_identical_to_pillow(
    kernels: str, scale: tuple[tuple[int, int], tuple[int, int]], interpolation: str
) -> None:
    source, target = scale
    data = make_jpeg(*source)
    np.testing.assert_array_equal(
        stretch(data, *target, interpolation), resize_with_pillow(data, *target, interpolation), err_msg=kernels
    )


@once_per_variant
@given(
    source=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from(INTERPOLATIONS),
    seed=st.integers(0, 5),
)
def test_not_exactly_it_is_a_level_from_pillows_at_most(
    kernels: str, source: tuple[int, int], target: tuple[int, int], interpolation: Any, seed: int
) -> None:
    # Noise: what is between levels and beside it comes often. A PNG is not decoded at a fraction of its size.
    pixels = np.random.default_rng(seed).integers(0, 256, (source[1], source[0], 3), np.uint8)
    data = encode(Image.fromarray(pixels), "PNG")
    keywords: dict[str, Any] = {"width": target[0], "height": target[1], "mode": "stretch"}
    batch = to_numpy(load_image_batch([data], interpolation=interpolation, exact=False, **keywords))
    difference = batch[0].astype(int) - resize_with_pillow(data, *target, interpolation)
    assert np.abs(difference).max() <= 1, kernels


@pytest.mark.parametrize(
    ("level", "scale", "kernels"),
    pairs(
        [0, 1, 127, 254, 255],
        [((300, 200), (70, 60)), ((7000, 3), (40, 3)), ((30, 20), (70, 60))],
        instruction_sets(),
    ),
    indirect=["kernels"],
)
def test_not_exactly_an_even_area_stays_as_it_is(
    kernels: str, level: int, scale: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    source, target = scale
    data = encode(Image.new("RGB", source, (level,) * 3), "PNG")
    keywords: dict[str, Any] = {"width": target[0], "height": target[1], "mode": "stretch"}
    batch = to_numpy(load_image_batch([data], interpolation="bilinear", exact=False, **keywords))
    assert (batch == level).all(), kernels


def test_overshoot_is_clipped_like_pillows(kernels: str) -> None:
    # Edges between black and white make lanczos and bicubic overshoot most.
    y, x = np.mgrid[0:90, 0:301]
    stripes = np.where((x // 9 + y // 7) % 2, 255, 0).astype(np.uint8)[..., None].repeat(3, axis=2)
    data = encode(Image.fromarray(stripes), "PNG")
    for target in ((97, 31), (640, 200)):
        for interpolation in ("bicubic", "lanczos"):
            expected = resize_with_pillow(data, *target, interpolation)
            assert expected.min() == 0
            assert expected.max() == 255
            np.testing.assert_array_equal(stretch(data, *target, interpolation), expected, err_msg=kernels)


def test_pixels_in_memory_are_resized_alike(kernels: str) -> None:
    rng = np.random.default_rng(0)
    for size, target in (((712, 712), (224, 224)), ((50, 400), (60, 30)), ((33, 20), (90, 20)), ((33, 20), (33, 20))):
        pixels = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
        config = encode_config(format="png", width=target[0], height=target[1], scale_algo="bilinear")
        file = io.BytesIO()
        encode_image(file, pixels, encode_config=config)
        expected = resize_with_pillow(encode(Image.fromarray(pixels), "PNG"), *target, "bilinear")
        np.testing.assert_array_equal(to_numpy(load_image(file.getvalue())), expected, err_msg=kernels)


def test_every_processor_has_the_portable_variant() -> None:
    assert instruction_sets()[-1] == "scalar"
    assert not knows_instruction_set("abacus")


@pytest.mark.parametrize("interpolation", ["area", "bilinear", "bicubic", "lanczos", "neighbor"])
@pytest.mark.parametrize("mode", ["pad", "crop", None])
def test_the_builders_descriptions_are_served_with_the_same_pixels(interpolation: str, mode: Any) -> None:
    data = make_jpeg(200, 140)
    desc = get_video_filter_desc(scale_width=64, scale_height=48, scale_algo=interpolation, scale_mode=mode)
    frames = decode_packets(demux_image(data), filter_desc=desc)
    keywords: dict[str, Any] = {"width": 64, "height": 48, "mode": mode or "stretch"}
    keywords["interpolation"] = "nearest" if interpolation == "neighbor" else interpolation
    expected = to_numpy(load_image_batch([data], **keywords))
    np.testing.assert_array_equal(to_numpy(convert_frames(frames)), expected[0])
    np.testing.assert_array_equal(to_numpy(load_image_batch([data], width=1, height=1, filter_desc=desc)), expected)


@once_per_variant
@given(
    source=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    target=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    interpolation=st.sampled_from(INTERPOLATIONS),
)
def test_cropping_to_a_size_covers_it_and_cuts_its_centre_out(
    kernels: str, source: tuple[int, int], target: tuple[int, int], interpolation: Any
) -> None:
    data = make_jpeg(*source)
    batch = load_image_batch([data], width=target[0], height=target[1], mode="crop", interpolation=interpolation)
    # The sides that FFmpeg's scale filter computes: to nearest, halves up, at least those of the target.
    width = max((target[1] * source[0] + source[1] // 2) // source[1], target[0])
    height = max((target[0] * source[1] + source[0] // 2) // source[0], target[1])
    resized = resize_with_pillow(data, width, height, interpolation)
    # As torchvision's center_crop places it.
    left, top = round((width - target[0]) / 2), round((height - target[1]) / 2)
    expected = resized[top : top + target[1], left : left + target[0]]
    np.testing.assert_array_equal(to_numpy(batch)[0], expected, err_msg=kernels)


@pytest.mark.parametrize("source", [(1000, 1), (1, 1000), (2500, 2)])
def test_a_strip_is_cropped_out_of_an_image_that_would_be_too_large(source: tuple[int, int]) -> None:
    # Its other side would have 70,000 pixels or more.
    image = make_image(*source)
    width, height = max(70 * source[0] // source[1], 70), max(70 * source[1] // source[0], 70)
    resized = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
    left, top = (width - 70) // 2, (height - 70) // 2
    batch = load_image_batch([encode(image, "PNG")], width=70, height=70, mode="crop", interpolation="bicubic")
    np.testing.assert_array_equal(to_numpy(batch)[0], resized[top : top + 70, left : left + 70])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"mode": "cut"}, "`mode` must be 'pad', 'stretch' or 'crop', got 'cut' ("),
        (
            {"interpolation": "cubic"},
            "`interpolation` must be 'nearest', 'area', 'bilinear', 'bicubic' or 'lanczos', got 'cubic' (",
        ),
        ({"width": 0}, "`width` must be an int from 1 to 65535 pixels or None, got 0 ("),
        ({"height": -4}, "`height` must be an int from 1 to 65535 pixels or None, got -4 ("),
        ({"width": 65536}, "`width` must be an int from 1 to 65535 pixels or None, got 65536 ("),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_accepted(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        load_image_batch([make_jpeg()], **{"width": 8, "height": 8, **keywords})


@pytest.mark.parametrize("width", [2.5, "224", [1], True])
def test_a_size_must_be_an_integer(width: Any) -> None:
    with pytest.raises(TypeError, match=r"^`width` must be an int from 1 to 65535 pixels or None, got "):
        load_image_batch([make_jpeg()], width=width, height=8)


def test_numpy_integers_are_sizes() -> None:
    batch = load_image_batch([make_jpeg()], width=np.int32(9), height=np.uint8(7))  # type: ignore[call-overload]
    assert batch.shape == (1, 7, 9, 3)

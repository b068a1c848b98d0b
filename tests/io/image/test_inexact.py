"""exact=False: JPEGs are resized as planes, before their conversion to RGB, and decoded at a fraction of their size.

Both apply the same filters to the same samples as the exact way does, so pictures without extremes, where nothing is
clipped, come out the same but for rounding.
"""

import io
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.io.images import Array, encode, make_image, make_jpeg, resize_with_pillow
from tests.io.inside import instruction_sets, using_instruction_set

from spdl.io import load_image_batch, to_numpy

FILTERS = ["area", "bilinear", "bicubic", "lanczos"]
LEAST_SCALE = {"area": 3, "bilinear": 1.5, "bicubic": 1.6, "lanczos": 1.75}
"""The scale that has to be left for the filter if a JPEG is decoded at a fraction of its size."""

ROUNDING = 5
"""Of three planes, twice each, and of their conversion, where differences of chroma count up to 1.8 times."""

SUBSAMPLINGS = ["4:4:4", "4:2:2", "4:2:0"]

once_per_variant = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def mild_jpeg(width: int, height: int, seed: int = 0, **options: Any) -> bytes:
    """Return a JPEG without extreme colours, so that no conversion and no filter clips."""
    image = make_image(width, height, seed).point(lambda level: 75 + level * 2 // 5)
    return encode(image, "JPEG", **{"quality": 95, **options})


def load(data: bytes, width: int, height: int, **keywords: Any) -> Array:
    keywords = {"mode": "stretch", "interpolation": "bilinear", **keywords}
    image: Array = to_numpy(load_image_batch([data], width=width, height=height, **keywords))[0]
    return image


def psnr(one: Array, other: Array) -> float:
    """Return the peak signal-to-noise ratio in dB."""
    error = np.square(one.astype(float) - other).mean()
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def is_whole(size: tuple[int, int], target: tuple[int, int], interpolation: str) -> bool:
    """Return whether such a picture is decoded at its size."""
    least = 2 * LEAST_SCALE[interpolation]
    return size[0] < least * target[0] or size[1] < least * target[1]


@once_per_variant
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from(FILTERS),
    subsampling=st.sampled_from(SUBSAMPLINGS),
    progressive=st.booleans(),
    seed=st.integers(0, 5),
)
def test_a_picture_without_extremes_is_pillows_but_for_rounding(
    *,
    kernels: str,
    size: tuple[int, int],
    target: tuple[int, int],
    interpolation: str,
    subsampling: str,
    progressive: bool,
    seed: int,
) -> None:
    if not is_whole(size, target, interpolation):
        target = size[0] // 2 + 1, size[1] // 2 + 1
    data = mild_jpeg(*size, seed, subsampling=subsampling, progressive=progressive)
    ours = load(data, *target, interpolation=interpolation, exact=False)
    expected = resize_with_pillow(data, *target, interpolation)
    assert np.abs(ours.astype(int) - expected).max() <= ROUNDING, kernels


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(2, 200), st.integers(2, 200)),
    shares=st.tuples(*[st.floats(0, 1)] * 4),
    target=st.tuples(st.integers(20, 90), st.integers(20, 90)),
    subsampling=st.sampled_from(SUBSAMPLINGS),
    orientation=st.integers(1, 8),
    keywords=st.fixed_dictionaries(
        {
            "interpolation": st.sampled_from(FILTERS),
            "mode": st.sampled_from(["stretch", "pad", "crop"]),
            "flip": st.booleans(),
            "layout": st.sampled_from(["NHWC", "NCHW"]),
            "pix_fmt": st.sampled_from(["rgb24", "bgr24", "gray"]),
        }
    ),
)
def test_every_other_option_means_the_same(
    *,
    size: tuple[int, int],
    shares: Any,
    target: tuple[int, int],
    subsampling: str,
    orientation: int,
    keywords: dict[str, Any],
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = mild_jpeg(*size, subsampling=subsampling, exif=exif)
    upright = size if orientation < 5 else size[::-1]
    left, top = int(shares[0] * (upright[0] - 1)), int(shares[1] * (upright[1] - 1))
    right, bottom = left + 1 + int(shares[2] * (upright[0] - left - 1)), int(shares[3] * (upright[1] - top - 1))
    bottom += top + 1
    keywords["crop"] = [(left, top, right, bottom)]
    exact = load(data, *target, **keywords)
    loose = load(data, *target, exact=False, **keywords)
    assert loose.shape == exact.shape
    # Where a picture is decoded at a fraction of its size, something is lost. Padding makes it smaller than the target.
    whole = keywords["mode"] != "pad" and is_whole((right - left, bottom - top), target, keywords["interpolation"])
    assert np.abs(loose.astype(int) - exact).max() <= (ROUNDING if whole else 25)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_are_those_of_the_bytes(dtype: Any) -> None:
    data = mild_jpeg(120, 90)
    planes = load(data, 40, 50, exact=False)
    floats = load(data, 40, 50, exact=False, dtype=dtype, layout="NCHW", mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    expected = (planes / 255 - (0.5, 0.4, 0.3)) / (0.2, 0.3, 0.4)
    np.testing.assert_allclose(floats, expected.transpose(2, 0, 1), atol=2e-3)


@given(
    size=st.tuples(st.integers(1, 700), st.integers(1, 300)),
    target=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    interpolation=st.sampled_from(FILTERS),
    subsampling=st.sampled_from(SUBSAMPLINGS),
    flip=st.booleans(),
    pix_fmt=st.sampled_from(["rgb24", "bgr24"]),
)
@settings(deadline=None, max_examples=120)
def test_every_processor_gives_the_same_bytes(
    *,
    size: tuple[int, int],
    target: tuple[int, int],
    interpolation: str,
    subsampling: str,
    flip: bool,
    pix_fmt: Any,
) -> None:
    data = make_jpeg(*size, subsampling=subsampling)
    # The image covers the target, and so its planes are resized, if it is larger.
    target = min(target[0], size[0]), min(target[1], size[1])
    keywords: dict[str, Any] = {"interpolation": interpolation, "flip": flip, "pix_fmt": pix_fmt, "exact": False}
    pictures = {}
    for name in instruction_sets():
        with using_instruction_set(name):
            pictures[name] = load(data, *target, **keywords)
    resized = pictures.pop("scalar")
    for name, picture in pictures.items():
        same = size == target
        np.testing.assert_allclose(picture, resized, atol=0 if not same else 1, err_msg=name)


@pytest.mark.parametrize("interpolation", ["bicubic", "lanczos"])
@pytest.mark.parametrize("flip", [False, True])
def test_every_processor_enlarges_the_chroma_of_a_crop_alike(*, interpolation: str, flip: bool) -> None:
    # Where an output is one sample of chroma alone, its first sample lies behind that of the next output.
    data = make_jpeg(24, 18, subsampling="4:2:0")
    for right, target in itertools.product(range(7, 25), range(22, 60, 3)):
        keywords: dict[str, Any] = {"interpolation": interpolation, "flip": flip, "exact": False}
        pictures = {}
        for name in instruction_sets():
            with using_instruction_set(name):
                pictures[name] = load(data, target, 1, crop=[(0, 3, right, 7)], **keywords)
        resized = pictures.pop("scalar")
        for name, picture in pictures.items():
            np.testing.assert_allclose(picture, resized, atol=1, err_msg=f"{name}, {right} to {target}")


def filter_matrix(size: int, target: int) -> Any:
    """Return the weights of the antialiased bilinear filter as a matrix."""
    scale = size / target
    centres = (np.arange(target) + 0.5) * scale
    distances = (np.arange(size) + 0.5 - centres[:, None]) / max(scale, 1)
    weights = np.maximum(1 - np.abs(distances), 0)
    return weights / weights.sum(1, keepdims=True)


def mean_matrix(size: int) -> Any:
    """Return the matrix that estimates samples out of the means of pairs of them: by a parabola through three means."""
    means = -(-size // 2)
    matrix = np.zeros((2 * means, means))
    for i in range(means):
        before, behind = max(i - 1, 0), min(i + 1, means - 1)
        for sample, sign in ((2 * i, 1), (2 * i + 1, -1)):
            matrix[sample, i] += 1
            matrix[sample, before] += sign / 8
            matrix[sample, behind] -= sign / 8
    return matrix[:size]


@pytest.mark.parametrize("divisor", [2, 4, 8])
@pytest.mark.parametrize("target", [(20, 17), (19, 13)])
def test_what_a_fraction_of_the_size_lacks_is_interpolated(divisor: int, target: tuple[int, int]) -> None:
    size = target[0] * divisor * 3 // 2 + 3, target[1] * divisor * 3 // 2 + 5
    data = make_jpeg(*size)
    with Image.open(io.BytesIO(data)) as file:
        # Draft takes the smallest that is not below. Chroma is stored at half the size, so nothing is upsampled.
        file.draft("YCbCr", (size[0] // divisor, size[1] // divisor))
        planes = np.asarray(file).astype(float)
    assert planes.shape[:2] == (-(-size[1] // divisor), -(-size[0] // divisor))

    def weights(side: int) -> Any:
        matrix = filter_matrix(size[side], target[side])
        length = size[side]
        while matrix.shape[1] > planes.shape[1 - side]:
            matrix = matrix @ mean_matrix(length)
            length = -(-length // 2)
        return matrix

    y, cb, cr = (weights(1) @ planes[..., plane] @ weights(0).T for plane in range(3))
    red = y + 1.402 * (cr - 128)
    green = y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128)
    blue = y + 1.772 * (cb - 128)
    expected = np.clip(np.stack([red, green, blue], -1), 0, 255)
    ours = load(data, *target, exact=False)
    # Bytes are rounded after either side of the resize.
    assert np.abs(ours - expected).max() < 6
    assert np.abs((ours - expected).mean((0, 1))).max() < 0.35


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("target", [(200, 150), (112, 84), (150, 37), (33, 25), (64, 64), (20, 15), (9, 7)])
def test_a_picture_keeps_38_decibels(interpolation: str, target: tuple[int, int]) -> None:
    # Photos have less detail the finer it is.
    for seed in range(3):
        coarse = make_image(100, 75, seed).resize((400, 300), Image.Resampling.BICUBIC)
        data = encode(coarse, "JPEG", quality=94, subsampling="4:2:0")
        exact = load(data, *target, interpolation=interpolation)
        loose = load(data, *target, interpolation=interpolation, exact=False)
        assert psnr(exact, loose) >= 38
        assert np.abs((loose.astype(float) - exact).mean((0, 1))).max() < 1


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("side", [1, 2, 3, 8, 16])
def test_saturated_colours_are_no_further_from_what_was_encoded(subsampling: str, side: int) -> None:
    # Where pure colours meet, the conversion of whole pixels clips, and changes the mean.
    y, x = np.mgrid[0:300, 0:400]
    red, green, blue, white, black = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)
    for colors in ((red, blue), (red, green), (red, white), (black, red), (green, blue)):
        squares = np.where(((x // side + y // side) % 2)[..., None] == 0, *colors).astype(np.uint8)
        image = Image.fromarray(squares)
        data = encode(image, "JPEG", quality=94, subsampling=subsampling)
        encoded = np.asarray(image.resize((224, 168), Image.Resampling.BILINEAR)).mean((0, 1))
        exact, loose = (load(data, 224, 168, exact=each).mean((0, 1)) for each in (True, False))
        assert np.abs(loose - encoded).max() <= np.abs(exact - encoded).max() + 1, colors
        # Only the edges are clipped: the larger the squares, the less of them there is.
        assert np.abs(loose - exact).max() < (2 if subsampling == "4:4:4" else 64 / side)


@pytest.mark.parametrize(
    "data",
    [
        encode(make_image(200, 140).convert("L"), "JPEG"),
        encode(make_image(200, 140).convert("CMYK"), "JPEG"),
        encode(make_image(200, 140), "JPEG", keep_rgb=True),
        encode(make_image(200, 140), "PNG"),
    ],
)
def test_other_pictures_are_resized_as_pixels(data: bytes) -> None:
    # At most a level off, for the bilinear filter.
    exact = load(data, 111, 90).astype(int)
    assert np.abs(load(data, 111, 90, exact=False) - exact).max() <= 1
    np.testing.assert_array_equal(
        load(data, 111, 90, interpolation="bicubic", exact=False), load(data, 111, 90, interpolation="bicubic")
    )


@pytest.mark.parametrize(
    "keywords",
    [
        {"width": 40, "height": 40, "interpolation": "nearest"},
        {"width": None, "height": None},
        {"width": 300, "height": 200, "interpolation": "bicubic"},
        {"width": 20, "height": 10, "interpolation": "bicubic", "crop": [(30, 20, 61, 40)]},
        {"width": 70, "height": 50, "interpolation": "bicubic", "pix_fmt": "gray"},
    ],
)
def test_a_resize_that_saves_nothing_as_planes_stays_exact(keywords: dict[str, Any]) -> None:
    data = make_jpeg(123, 77)
    exact = to_numpy(load_image_batch([data], **keywords))
    np.testing.assert_array_equal(to_numpy(load_image_batch([data], exact=False, **keywords)), exact)


OUTCOMES: list[bytes] = [
    make_jpeg(123, 77, subsampling="4:2:0"),
    make_jpeg(64, 96, subsampling="4:2:2"),
    make_jpeg(50, 33, subsampling="4:4:4", progressive=True),
    make_jpeg(90, 70, restart_marker_blocks=3),
]


def outcome(data: bytes, **keywords: Any) -> str:
    try:
        load(data, **keywords)
    except RuntimeError as error:
        return str(error)
    return "an array"


@pytest.mark.parametrize("index", range(len(OUTCOMES)))
@pytest.mark.parametrize("target", [(40, 30), (12, 8), (3, 2)])
def test_damage_is_told_as_it_is_of_the_exact_picture(index: int, target: tuple[int, int]) -> None:
    data = OUTCOMES[index]
    chance = np.random.default_rng(index)
    keywords: dict[str, Any] = {"width": target[0], "height": target[1]}
    assert outcome(data, exact=False, **keywords) == "an array"
    for size in range(2, len(data), 17):
        assert outcome(data[:size], exact=False, **keywords) == outcome(data[:size], **keywords) != "an array"
    different = 0
    for _ in range(200):
        bad = bytearray(data)
        for place in chance.integers(2, len(data), 1 + chance.integers(3)):
            bad[place] = chance.choice([0, 255, 0xD9, 0xD0, int(chance.integers(256))])
        told = outcome(bytes(bad), exact=False, **keywords)
        assert told == outcome(bytes(bad), **keywords)
        different += told != "an array"
    assert different > 5


def test_what_is_there_of_a_truncated_picture_is_kept() -> None:
    data = mild_jpeg(200, 160)
    keywords: dict[str, Any] = {"on_error": "partial", "mode": "stretch", "width": 100, "height": 80}
    exact = load_image_batch([data[: len(data) // 2]], **keywords)
    loose = load_image_batch([data[: len(data) // 2]], exact=False, **keywords)
    assert [each.reason for each in loose.failures] == [each.reason for each in exact.failures]
    # Upsampled chroma of the missing part is mixed in at its edge.
    assert np.abs(to_numpy(loose).astype(int) - to_numpy(exact)).mean() < 1

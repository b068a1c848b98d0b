"""layout, dtype, mean and std: against numpy's float64."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.images import encode, make_image, make_jpeg
from tests.io.inside import instruction_sets, using_instruction_set

from spdl.io import decode_config, load_image_batch, to_numpy, to_torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
once_per_variant = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)


def reference(batch: np.ndarray[Any, Any], mean: Any, std: Any) -> np.ndarray[Any, Any]:
    """The expected values, in float64."""
    fractions = batch.astype(np.float64) / 255
    values: np.ndarray[Any, Any] = (fractions - np.array(mean or (0.0,) * 3)) / np.array(std or (1.0,) * 3)
    return values


@once_per_variant
@given(
    size=st.tuples(st.integers(1, 150), st.integers(1, 30)),
    layout=st.sampled_from(["NHWC", "NCHW"]),
    dtype=st.sampled_from(["uint8", "float16", "float32"]),
    mode=st.sampled_from(["pad", "stretch", "crop"]),
    orientation=st.sampled_from([1, 6]),
    normalisation=st.tuples(
        st.none() | st.tuples(*[st.floats(-1, 1)] * 3), st.none() | st.tuples(*[st.floats(0.01, 5)] * 3)
    ),
)
def test_values_are_those_of_float64_rounded(  # noqa: PLR0917 - one for each thing that varies.
    kernels: str, size: tuple[int, int], layout: Any, dtype: Any, mode: Any, orientation: int, normalisation: Any
) -> None:
    mean, std = normalisation
    exif = make_image(1, 1).getexif()
    exif[0x0112] = orientation
    inputs = [make_jpeg(50, 40, exif=exif), encode(make_image(31, 44), "PNG")]
    keywords: dict[str, Any] = {"width": size[0], "height": size[1], "mode": mode}
    plain = to_numpy(load_image_batch(inputs, **keywords))
    if dtype == "uint8":
        mean = std = None
    batch = to_numpy(load_image_batch(inputs, layout=layout, dtype=dtype, mean=mean, std=std, **keywords))
    assert batch.dtype == dtype
    if layout == "NCHW":
        assert batch.shape == (2, 3, size[1], size[0])
        batch = batch.transpose(0, 2, 3, 1)
    if dtype == "uint8":
        np.testing.assert_array_equal(batch, plain)
        return
    expected = reference(plain, mean, std)
    # byte * scale + offset with both rounded to 32 bits, where they may cancel.
    terms = np.maximum(np.abs(np.array(mean or (0.0,) * 3)), 1) / np.array(std or (1.0,) * 3)
    precision = 2.0**-22 * terms
    if dtype == "float16":
        precision = precision + 2.0**-11 * np.abs(expected) + 2.0**-25
    assert (np.abs(batch.astype(np.float64) - expected) <= precision).all(), kernels


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_all_variants_write_the_same_bits(layout: Any, dtype: Any) -> None:
    def load() -> bytes:
        batch = load_image_batch(
            [make_jpeg(70, 50)], width=67, height=41, layout=layout, dtype=dtype, mean=MEAN, std=STD
        )
        return to_numpy(batch).tobytes()

    contents = set()
    for name in instruction_sets():
        with using_instruction_set(name):
            contents.add(load())
    assert len(contents) == 1


def test_half_precision_rounds_as_numpy_does(kernels: str) -> None:
    # All bytes, small and large, subnormal and too large for 16 bits.
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)[..., None].repeat(3, axis=2)
    from PIL import Image  # noqa: PLC0415

    data = encode(Image.fromarray(gray), "PNG")
    for mean, std in ((0.0, 1.0), (0.5, 1e-6), (0.5, 1e5), (0.3, 3e6), (1.0, 1e-3)):
        values: dict[str, Any] = {"mean": (mean,) * 3, "std": (std,) * 3, "width": None, "height": None}
        single = to_numpy(load_image_batch([data], dtype="float32", **values))
        half = to_numpy(load_image_batch([data], dtype="float16", **values))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(half, single.astype(np.float16), err_msg=kernels)


def test_black_around_a_picture_is_normalised_like_black_in_it() -> None:
    batch = to_numpy(load_image_batch([make_jpeg(100, 20)], width=40, height=40, dtype="float32", mean=MEAN, std=STD))
    np.testing.assert_allclose(batch[0, 0, 0], -np.array(MEAN) / np.array(STD), rtol=1e-6)


@pytest.mark.parametrize("pix_fmt", ["bgr24", "gray"])
def test_channels_follow_the_pixel_format(pix_fmt: str) -> None:
    data = make_jpeg(60, 40)
    keywords: dict[str, Any] = {"width": 30, "height": 24, "pix_fmt": pix_fmt}
    plain = to_numpy(load_image_batch([data], **keywords))
    rgb = to_numpy(load_image_batch([data], width=30, height=24))
    if pix_fmt == "bgr24":
        np.testing.assert_array_equal(plain, rgb[..., ::-1])
    else:
        assert plain.shape == (1, 24, 30, 1)
    channels = plain.shape[-1]
    mean, std = MEAN[:channels], STD[:channels]
    planes = to_numpy(load_image_batch([data], layout="NCHW", dtype="float32", mean=mean, std=std, **keywords))
    assert planes.shape == (1, channels, 24, 30)
    expected = (plain.astype(np.float64) / 255 - mean) / std
    np.testing.assert_allclose(planes.transpose(0, 2, 3, 1), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_buffers_of_floats_go_everywhere(dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    buffer = load_image_batch([make_jpeg()], width=9, height=7, layout="NCHW", dtype=dtype)
    assert buffer.dtype == dtype
    tensor = to_torch(buffer)
    assert tensor.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(tensor.numpy(), to_numpy(buffer))
    np.testing.assert_array_equal(np.from_dlpack(buffer), to_numpy(buffer))


def test_ffmpegs_pictures_are_normalised_too() -> None:
    config = decode_config(backend="ffmpeg")
    keywords: dict[str, Any] = {"width": 30, "height": 20, "decode_config": config}
    plain = to_numpy(load_image_batch([make_jpeg()], **keywords))
    batch = to_numpy(load_image_batch([make_jpeg()], dtype="float32", layout="NCHW", mean=MEAN, std=STD, **keywords))
    np.testing.assert_allclose(batch.transpose(0, 2, 3, 1), reference(plain, MEAN, STD), atol=1e-5)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"layout": "CHW"}, ValueError, "`layout` must be 'NHWC' or 'NCHW', got 'CHW' ("),
        ({"dtype": "float64"}, ValueError, "`dtype` must be 'uint8', 'float16' or 'float32', got 'float64' ("),
        ({"mean": MEAN}, ValueError, "`dtype` must be 'float16' or 'float32' with `mean` or `std`"),
        ({"dtype": "float32", "mean": (1.0, 2.0)}, ValueError, "`mean` must be a number for each of the 3 channels"),
        ({"dtype": "float32", "std": (1, 0, 1)}, ValueError, "`std` must be numbers other than 0"),
        ({"dtype": "float32", "std": 0.5}, TypeError, "`std` must be a sequence of numbers, one for each channel"),
        ({"dtype": "float32", "mean": (0, float("nan"), 0)}, ValueError, "`mean` must be finite numbers"),
        (
            {"dtype": "float32", "mean": (123.7, 116.3, 103.5)},
            ValueError,
            "`mean` must be the means of values from 0 to 1",
        ),
        ({"num_threads": 0}, ValueError, "`num_threads` must be an int from 1 to 1024, got 0 ("),
        ({"num_threads": 1.5}, TypeError, "`num_threads` must be an int from 1 to 1024, got 1.5 ("),
        ({"exact": "False"}, TypeError, "`exact` must be True or False, got 'False' ("),
        ({"exif": 2}, TypeError, "`exif` must be True or False, got 2 ("),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_accepted(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        load_image_batch([make_jpeg()], width=8, height=8, **keywords)


@pytest.mark.parametrize("options", [{"pix_fmt": "gray16"}, {"pix_fmt": "rgb48"}, {"filter_desc": "format=gray16le"}])
def test_dtype_that_the_filters_do_not_make_is_refused(options: dict[str, str]) -> None:
    photo = make_jpeg(8, 8)
    assert load_image_batch([photo], width=4, height=4, **options).dtype == "uint16"  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"`dtype` must be 'uint16', which the filters make, or None, got 'uint8'"):
        load_image_batch([photo], width=4, height=4, dtype="uint8", **options)  # type: ignore[call-overload]
    assert load_image_batch([photo], width=4, height=4, pix_fmt="rgba", dtype="uint8").dtype == "uint8"

"""convert_frames: frames to one array."""

import gc
from typing import Any

import numpy as np
import pytest
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import ImageFrames, convert_frames, decode_packets, demux_image, to_numpy


def frames_of(data: bytes, filter_desc: str | None = "format=pix_fmts=rgb24") -> ImageFrames:
    return decode_packets(demux_image(data), filter_desc)


def in_format(pix_fmt: str, width: int = 40, height: int = 30) -> ImageFrames:
    return frames_of(encode(make_image(width, height), "PNG"), f"format=pix_fmts={pix_fmt}")


@pytest.mark.parametrize("container", [list, tuple])
def test_a_sequence_becomes_a_batch(container: Any) -> None:
    images = [make_image(40, 30, seed) for seed in range(4)]
    frames = container(frames_of(encode(image, "PNG")) for image in images)
    array = to_numpy(convert_frames(frames))
    np.testing.assert_array_equal(array, np.stack([np.asarray(image) for image in images]))


@pytest.mark.parametrize(
    ("pix_fmt", "shape", "dtype"),
    [
        ("rgb24", (30, 40, 3), "uint8"),
        ("bgr24", (30, 40, 3), "uint8"),
        ("rgba", (30, 40, 4), "uint8"),
        ("rgb0", (30, 40, 4), "uint8"),
        ("gray", (30, 40, 1), "uint8"),
        ("ya8", (30, 40, 2), "uint8"),
        ("yuv444p", (3, 30, 40), "uint8"),
        ("gbrp", (3, 30, 40), "uint8"),
        ("yuva444p", (4, 30, 40), "uint8"),
        ("yuv422p", (1, 60, 40), "uint8"),
        ("yuv420p", (1, 45, 40), "uint8"),
        ("nv12", (1, 45, 40), "uint8"),
        ("yuva420p", (1, 75, 40), "uint8"),
        ("gray16le", (30, 40, 1), "uint16"),
        ("rgb48be", (30, 40, 3), "uint16"),
        ("yuv420p10le", (1, 45, 40), "uint16"),
        ("gbrpf32le", (3, 30, 40), "float32"),
    ],
)
def test_the_shape_follows_from_the_pixel_format(pix_fmt: str, shape: tuple[int, ...], dtype: str) -> None:
    one = convert_frames(in_format(pix_fmt))
    assert (one.shape, one.dtype) == (shape, dtype)
    two = convert_frames([in_format(pix_fmt), in_format(pix_fmt)])
    assert two.shape == (2, *shape)
    np.testing.assert_array_equal(to_numpy(two)[1], to_numpy(one))
    assert len(np.unique(to_numpy(one))) > 20


def test_big_endian_samples_are_turned_round() -> None:
    big, little = (to_numpy(convert_frames(in_format(f"rgb48{order}"))) for order in ("be", "le"))
    np.testing.assert_array_equal(big, little)


@pytest.mark.parametrize("pix_fmt", ["pal8", "monob", "rgb565le", "yuyv422"])
def test_formats_that_make_no_array_are_refused_with_a_remedy(pix_fmt: str) -> None:
    with pytest.raises(RuntimeError, match=rf'"{pix_fmt}" do not make an array.*format=pix_fmts=rgb24'):
        convert_frames(in_format(pix_fmt))


def test_odd_sides_of_a_subsampled_format_are_refused() -> None:
    with pytest.raises(RuntimeError, match="not multiples of its chroma subsampling"):
        convert_frames(in_format("yuv420p", 41, 31))


def test_frames_are_consumed() -> None:
    frames = frames_of(make_jpeg())
    clone = frames.clone()
    first = to_numpy(convert_frames(frames))
    for use in (
        convert_frames,
        lambda used: convert_frames([used]),
        lambda used: used.width,
        lambda used: used.clone(),
    ):
        with pytest.raises(TypeError, match=r"consumed by convert_frames or a FilterGraph: call clone\(\)"):
            use(frames)
    assert repr(frames) == "ImageFrames(consumed)"
    np.testing.assert_array_equal(to_numpy(convert_frames(clone)), first)


def test_the_same_frames_twice_in_one_batch_are_consumed_by_the_first() -> None:
    frames = frames_of(make_jpeg())
    with pytest.raises(TypeError, match="consumed"):
        convert_frames([frames, frames])


def test_arrays_of_clones_share_no_memory() -> None:
    frames = frames_of(make_jpeg())
    first, second = to_numpy(convert_frames(frames.clone())), to_numpy(convert_frames(frames))
    first[:] = 0
    assert second.any()


def test_the_memory_outlives_frames_and_packets() -> None:
    array = to_numpy(convert_frames(frames_of(make_jpeg())))
    expected = array.copy()
    gc.collect()
    churn = [to_numpy(convert_frames(frames_of(make_jpeg(seed=seed)))) for seed in range(8)]
    assert len(churn) == 8
    np.testing.assert_array_equal(array, expected)


def test_sizes_must_agree() -> None:
    frames = [frames_of(make_jpeg(40, 30)), frames_of(make_jpeg(40, 31))]
    with pytest.raises(RuntimeError, match="the first is 40x30 rgb24, but that at index 1 is 40x31 rgb24"):
        convert_frames(frames)


def test_formats_must_agree() -> None:
    with pytest.raises(RuntimeError, match="40x30 rgb24, but that at index 1 is 40x30 gray"):
        convert_frames([in_format("rgb24"), in_format("gray")])


def test_an_empty_sequence_is_an_error() -> None:
    with pytest.raises(
        RuntimeError, match=r"^`frames` must be a sequence of at least one image, sound or video, got \[\] "
    ):
        convert_frames([])


@pytest.mark.parametrize("wrong", [7, [7], [b""]])
def test_what_are_no_frames_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"must be frames.*got (7|b'')"):
        convert_frames(wrong)

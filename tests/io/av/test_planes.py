"""By default a reader resizes the planes of a picture and converts the result, which is rounded once.

The oracle does so in floating point (`yuv_oracle.py`): Pillow's filters, and the definitions of the colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from tests.io.av import oracle
from tests.io.av.ffmpeg import run_ffmpeg
from tests.io.av.video_clips import COLORS
from tests.io.av.yuv_oracle import FILTERS, MATRICES, expected, plane_sizes, psnr, split
from tests.io.inside import instruction_sets, using_instruction_set
from tests.io.pairs import pairs

from spdl.io import VideoReader, get_video_filter_desc, load_video, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.io.av.sources import AnyArray

BOUND = 0.7
"""The largest difference to the picture before it is rounded: that takes 0.5, and the steps before it take little."""
SHIFT = 0.05
"""The largest difference of a channel's mean."""

Y4M = {"gray": "mono", "yuv411p": "411", "yuv420p": "420jpeg", "yuv422p": "422", "yuv444p": "444"}
"""The names of pixel formats in YUV4MPEG2, which stores pictures as they are."""

FLAT = [
    *["h264.mp4", "h264_422.mp4", "h264_444_odd.mp4", "h264_cropped.mp4", "h264_gray.mp4", "mpeg2.ts", "vp9.webm"],
    *["ffv1_gray.mkv", "ffv1_410.mkv", "ffv1_411.mkv", "ffv1_422.mkv", "ffv1_444.mkv", "ffv1_odd.mkv"],
    *["ffv1_odd_444.mkv", "ffv1_tiny.mkv", "mjpeg.avi", "hevc.mp4", *COLORS],
]


def noise(pix_fmt: str, width: int, height: int, seed: int = 0, extremes: float = 0.2) -> list[AnyArray]:
    """Return planes of noise and of extremes, which are a share of it."""
    generator = np.random.default_rng(seed)
    planes = []
    for size in plane_sizes(pix_fmt, width, height):
        plane = generator.integers(0, 256, size, dtype=np.uint8)
        planes.append(np.where(generator.random(size) < extremes, plane // 128 * 255, plane).astype(np.uint8))
    return planes


def y4m(planes: Sequence[AnyArray], pix_fmt: str, *, full_range: bool = False, siting: str = "") -> bytes:
    """Return a video of one picture."""
    height, width = planes[0].shape
    color_range = "FULL" if full_range else "LIMITED"
    header = f"YUV4MPEG2 W{width} H{height} F25:1 Ip C{siting or Y4M[pix_fmt]} XCOLORRANGE={color_range}\nFRAME\n"
    return header.encode() + b"".join(plane.tobytes() for plane in planes)


def read(src: Any, width: int, height: int, **keywords: Any) -> AnyArray:
    keywords = {"mode": "stretch", **keywords}
    return to_numpy(VideoReader(src, width=width, height=height, **keywords).read())


def check(ours: AnyArray, unrounded: AnyArray) -> None:
    """Hold pictures against those that are not rounded."""
    difference = ours - unrounded
    assert np.abs(difference).max() <= BOUND
    # Of a flat area, all pixels are rounded in one direction.
    assert np.abs((ours - np.rint(unrounded)).mean((0, 1))).max() <= SHIFT


def described(path: Path) -> tuple[str, dict[str, Any], int, int]:
    """Return the pixel format of a clip, what it says of its colours, and the size."""
    found = oracle.streams(path)[0]
    pix_fmt, color_range = found["pix_fmt"], found.get("color_range", "unknown")
    full = color_range == "pc" or pix_fmt.startswith("yuvj") or (pix_fmt == "gray" and color_range == "unknown")
    matrix = found.get("color_space", "unknown")
    colors = {"matrix": "smpte170m" if matrix in ("unknown", "gbr") else matrix, "full_range": full}
    return pix_fmt, colors, found["width"], found["height"]


@pytest.mark.parametrize("size", [(40, 30), (150, 100), (96, 30)])
@pytest.mark.parametrize("name", FLAT)
def test_pictures_are_those_of_exact_arithmetic(clip: Callable[[str], Path], name: str, size: tuple[int, int]) -> None:
    path = clip(name)
    pix_fmt, colors, width, height = described(path)
    ours = read(path, *size, interpolation="bilinear")
    for index, values in enumerate(oracle.pictures(path, pix_fmt="")[:3]):
        planes = split(values, pix_fmt, width, height)
        check(ours[index], expected(planes, pix_fmt, size, "bilinear", **colors))


@pytest.mark.parametrize("matrix", sorted(MATRICES))
@pytest.mark.parametrize("full_range", [False, True])
def test_colours_follow_the_matrix_and_the_range(
    *, clip: Callable[[str], Path], tmp_path: Path, matrix: str, full_range: bool
) -> None:
    path = tmp_path / "tagged.mp4"
    numbers = {"bt709": 1, "fcc": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "bt2020nc": 9}
    tags = f"h264_metadata=matrix_coefficients={numbers[matrix]}:video_full_range_flag={int(full_range)}"
    run_ffmpeg("-i", clip("h264_lossless.mp4"), "-c", "copy", "-bsf:v", tags, path)
    pix_fmt, colors, width, height = described(path)
    assert colors == {"matrix": matrix, "full_range": full_range}
    planes = split(oracle.pictures(path, pix_fmt="")[0], pix_fmt, width, height)
    check(read(path, 50, 40)[0], expected(planes, pix_fmt, (50, 40), "bicubic", **colors))


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 200)),
    target=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    pix_fmt=st.sampled_from(sorted(Y4M)),
    interpolation=st.sampled_from(sorted(FILTERS)),
    full_range=st.booleans(),
    seed=st.integers(0, 5),
    extremes=st.sampled_from([0.2, 1.0]),
)
# The negative weights of both passes add up: levels lie between -187 and 442.
@example(
    size=(13, 2),
    target=(24, 71),
    pix_fmt="yuv422p",
    interpolation="lanczos",
    full_range=False,
    seed=1,
    extremes=0.2,
)
def test_noise_of_any_size(
    *,
    size: tuple[int, int],
    target: tuple[int, int],
    pix_fmt: str,
    interpolation: str,
    full_range: bool,
    seed: int,
    extremes: float,
) -> None:
    # Beyond this scale FFmpeg takes over.
    target = max(target[0], size[0] // 20 + 1), max(target[1], size[1] // 20 + 1)
    if target == size:
        target = target[0] + 1, target[1]
    planes = noise(pix_fmt, *size, seed, extremes)
    ours = read(y4m(planes, pix_fmt, full_range=full_range), *target, interpolation=interpolation)[0]
    exact = expected(planes, pix_fmt, target, interpolation, full_range=full_range)
    # What the guide promises: at most one level off that of exact arithmetic.
    assert np.abs(ours - np.round(exact)).max() <= 1


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 700), st.integers(1, 120)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 120)),
    pix_fmt=st.sampled_from(sorted(Y4M)),
    keywords=st.fixed_dictionaries(
        {
            "interpolation": st.sampled_from(sorted(FILTERS)),
            "mode": st.sampled_from(["stretch", "pad", "crop"]),
            "pix_fmt": st.sampled_from(["rgb24", "bgr24", "gray"]),
        }
    ),
    seed=st.integers(0, 5),
)
def test_every_processor_gives_the_same_bytes(
    *, size: tuple[int, int], target: tuple[int, int], pix_fmt: str, keywords: Any, seed: int
) -> None:
    data = y4m(noise(pix_fmt, *size, seed), pix_fmt)
    pictures = {}
    for name in instruction_sets():
        with using_instruction_set(name):
            try:
                pictures[name] = read(data, *target, **keywords)
            except RuntimeError as error:
                if "cannot scale" not in str(error):
                    raise
                # libswscale, which scales what is not planar, does not shrink that far.
                reject()
    portable = pictures.pop("scalar")
    for name, picture in pictures.items():
        np.testing.assert_array_equal(picture, portable, err_msg=name)


@pytest.mark.parametrize(
    ("interpolation", "target", "mode"), pairs(sorted(FILTERS), [(40, 40), (20, 60), (200, 130)], ["pad", "crop"])
)
def test_padding_and_cropping(mode: str, interpolation: str, target: tuple[int, int]) -> None:
    planes = noise("yuv420p", 98, 66)
    data = y4m(planes, "yuv420p")
    width, height = target
    ours = read(data, width, height, mode=mode, interpolation=interpolation)[0]
    wide = (width * 66 > height * 98) == (mode == "crop")
    # As FFmpeg's scale rounds it.
    inner = (width, round(width * 66 / 98)) if wide else (round(height * 98 / 66), height)
    whole = read(data, *inner, interpolation=interpolation)[0]
    gaps = abs(width - inner[0]), abs(height - inner[1])
    # As FFmpeg's crop and pad round it.
    left, top = (round(it / 2) if mode == "crop" else it // 2 for it in gaps)
    if mode == "crop":
        assert np.array_equal(ours, whole[top : top + height, left : left + width])
    else:
        assert np.array_equal(ours[top : top + inner[1], left : left + inner[0]], whole)
        ours[top : top + inner[1], left : left + inner[0]] = 0
        assert not ours.any()


def test_every_format_has_the_same_values() -> None:
    data = y4m(noise("yuv422p", 120, 90), "yuv422p")
    rgb = read(data, 50, 41)
    assert np.array_equal(read(data, 50, 41, pix_fmt="bgr24"), rgb[..., ::-1])
    assert np.array_equal(read(data, 50, 41, layout="NCHW"), rgb.transpose(0, 3, 1, 2))
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    floats = read(data, 50, 41, dtype="float32", mean=mean, std=std)
    np.testing.assert_allclose(floats, (rgb / 255 - mean) / std, atol=1e-5)


@pytest.mark.parametrize("pix_fmt", sorted(Y4M))
def test_gray_is_luma(pix_fmt: str) -> None:
    planes = noise(pix_fmt, 120, 90)
    gray = read(y4m(planes, pix_fmt), 50, 41, pix_fmt="gray")[0, ..., 0]
    luma = expected(planes[:1], "gray", (50, 41), "bicubic")
    assert np.abs(gray - luma[..., 0]).max() <= BOUND


@pytest.mark.parametrize("degrees", [90, 180, 270])
@pytest.mark.parametrize("size", [(30, 50), (130, 120)])
def test_rotated_pictures_are_resized_upright(clip: Callable[[str], Path], degrees: int, size: tuple[int, int]) -> None:
    path = clip(f"rotated_{degrees}.mp4")
    turned = VideoReader(path).rotation
    stored = size[::-1] if degrees != 180 else size
    plain = read(path, *stored, rotate=False)
    ours = read(path, *size).astype(int)
    assert np.abs(ours - np.rot90(plain, -turned // 90, axes=(1, 2))).max() <= 1


@pytest.mark.parametrize("siting", ["420jpeg", "420mpeg2", "420paldv"])
def test_chroma_lies_where_ffmpegs_scale_takes_it(tmp_path: Path, siting: str) -> None:
    planes = [np.full(size, 128, np.uint8) for size in plane_sizes("yuv420p", 128, 96)]
    planes[1][:] = np.linspace(20, 235, 64).astype(np.uint8)
    planes[2][:] = np.linspace(20, 235, 48).astype(np.uint8)[:, None]
    path = tmp_path / "sited.y4m"
    path.write_bytes(y4m(planes, "yuv420p", full_range=True, siting=siting))
    accurate = "scale=200:150:flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp"
    theirs = oracle.pictures(path, filters=accurate)[0].astype(int)
    ours = read(path, 200, 150, interpolation="bilinear")[0].astype(int)
    assert np.abs(ours - theirs).max() <= 3
    assert np.abs((ours - theirs).mean((0, 1))).max() <= 0.5


@pytest.mark.parametrize("name", ["h264.mp4", "vp9.webm", "ffv1_422.mkv", "bt709_full.mp4"])
def test_pictures_are_near_those_of_ffmpegs_filter(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    accurate = "scale=60:44:flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp"
    theirs = oracle.pictures(path, filters=accurate)
    assert psnr(read(path, 60, 44, interpolation="bilinear"), theirs) > 40
    desc = get_video_filter_desc(scale_width=60, scale_height=44, scale_mode=None, scale_algo="bilinear")
    assert psnr(read(path, 60, 44, interpolation="bilinear"), to_numpy(load_video(path, filter_desc=desc))) > 34


@pytest.mark.parametrize(("interpolation", "scale"), [("bilinear", 64), ("bicubic", 32), ("lanczos", 21)])
def test_what_is_shrunk_further_is_left_to_ffmpeg(interpolation: Any, scale: int) -> None:
    desc = get_video_filter_desc(scale_width=10, scale_height=7, scale_mode=None, scale_algo=interpolation)
    same = []
    for width in (10 * scale, 10 * scale + 20):
        data = y4m(noise("yuv420p", width, 16), "yuv420p")
        ours = read(data, 10, 7, interpolation=interpolation)
        same.append(np.array_equal(ours, to_numpy(load_video(data, filter_desc=desc))))
    assert same == [False, True]

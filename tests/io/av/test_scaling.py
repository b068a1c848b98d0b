"""Scaling without FFmpeg's filters: the frames, their bytes and times are those of the filters.

A filter that does nothing in front of a description has everything run in a filter graph.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.media import CLIPS
from tests.io.inside import scales_by_itself, tried_scalers

from spdl.io import (
    Decoder,
    convert_frames,
    decode_packets,
    demux_video,
    get_video_filter_desc,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_ALGORITHMS = ("area", "bilinear", "bicubic", "lanczos", "neighbor")

DESCRIPTIONS = {
    "stretch": get_video_filter_desc(scale_width=40, scale_height=22, scale_mode=None),
    "pad": get_video_filter_desc(scale_width=44, scale_height=48),
    "pad in red": get_video_filter_desc(scale_width=50, scale_height=20, pad_mode="red", scale_algo="area"),
    "crop": get_video_filter_desc(scale_width=30, scale_height=30, scale_mode="crop", scale_algo="bilinear"),
    "crop of odd sides": get_video_filter_desc(scale_width=31, scale_height=29, scale_mode="crop"),
    "center": get_video_filter_desc(scale_width=48, scale_height=48, crop_width=40, crop_height=28),
    "center of a stretch": get_video_filter_desc(
        scale_width=64, scale_height=40, scale_mode=None, crop_width=31, crop_height=17, scale_algo="lanczos"
    ),
    "larger": get_video_filter_desc(scale_width=150, scale_height=100, scale_mode=None),
    "rate": get_video_filter_desc(scale_width=40, scale_height=22, scale_mode=None, frame_rate=(10, 1)),
    "higher rate": get_video_filter_desc(scale_width=40, scale_height=22, scale_mode=None, frame_rate=(60000, 1001)),
    "window": get_video_filter_desc(scale_width=40, scale_height=22, scale_mode=None, timestamp=(0.2, 0.9)),
    "rate and window": get_video_filter_desc(
        scale_width=40, scale_height=22, scale_mode="crop", timestamp=(0.2, float("inf")), frame_rate=(30, 1)
    ),
    "fewer frames": get_video_filter_desc(scale_width=40, scale_height=22, scale_mode=None, num_frames=9),
    "more frames": get_video_filter_desc(scale_width=40, scale_height=22, num_frames=80),
    "everything": get_video_filter_desc(
        scale_width=40,
        scale_height=40,
        num_frames=80,
        timestamp=(0.1, 1.5),
        frame_rate=(12, 1),
        crop_width=33,
        crop_height=30,
    ),
    "as many frames at a rate": get_video_filter_desc(
        scale_width=40, scale_height=22, frame_rate=(8, 1), num_frames=30
    ),
    "mirrored": "scale=w=40:h=22:flags=bicubic,hflip,format=pix_fmts=rgb24",
}
# Those that can be loaded whole.
_CLIPS = sorted(
    name for name, clip in CLIPS.items() if clip.pictures is not None and not name.startswith(("cut.", "damaged"))
)
_OF_ALL_KINDS = ("h264.mp4", "irregular.mp4", "ffv1_odd.mkv", "rotated_90.mp4", "bt709_full.mp4")


def frames_of(path: Path, desc: str) -> tuple[list[int], tuple[int, int], Any]:
    frames = decode_packets(demux_video(path), desc)
    times, unit = frames.get_pts(), frames.time_base
    return times, unit, to_numpy(convert_frames(frames)) if times else None


needs_scalers = pytest.mark.skipif(not scales_by_itself(), reason="this processor scales by libswscale alone")


def same_as_the_filters(path: Path, desc: str) -> None:
    try:
        expected = frames_of(path, f"null,{desc}")
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as caught:
            frames_of(path, desc)
        told = str(error).replace("null,", "").partition(" (FFmpeg")[0]
        assert str(caught.value).partition(" (FFmpeg")[0] == told, desc
        return
    found = frames_of(path, desc)
    assert found[:2] == expected[:2], desc
    assert np.array_equal(found[2], expected[2]), desc


@pytest.mark.parametrize("name", _CLIPS)
def test_the_frames_are_those_of_the_filters(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    # Three clips one after the other, which are alike, share the descriptions; some clips have all of them.
    first, step = (0, 1) if name in _OF_ALL_KINDS else (_CLIPS.index(name) % 3, 3)
    for desc in [*DESCRIPTIONS.values()][first::step]:
        same_as_the_filters(path, str(desc))


@needs_scalers
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
@pytest.mark.parametrize("color", ["", "bt709", "full"])
def test_noise(tmp_path: Path, algorithm: str, color: str) -> None:
    """Of every level, also where filters with negative weights leave their range."""
    path = tmp_path / "noise.mkv"
    noise = "if(gt(random(1),0.5),random(2)*255,if(gt(random(3),0.5),255,0))"
    source = f"nullsrc=size=322x180:rate=25:duration=0.4,geq=lum='{noise}':cb='{noise}':cr='{noise}',format=yuv420p"
    tags = {"": [], "bt709": ["-colorspace", "bt709"], "full": ["-color_range", "pc"]}[color]
    run_ffmpeg("-f", "lavfi", "-i", source, "-c:v", need_encoder("ffv1"), *tags, path)
    for width, height in (
        (112, 112),
        (96, 54),
        (64, 150),
        (318, 176),
        (400, 300),
        (30, 20),
        (113, 80),
        (322, 90),
        (100, 180),
    ):
        desc = f"scale=w={width}:h={height}:flags={algorithm},format=pix_fmts=rgb24"
        expected, found = frames_of(path, f"null,{desc}"), frames_of(path, desc)
        assert np.array_equal(expected[2], found[2])
        if algorithm != "neighbor" and (width, height) in ((112, 112), (96, 54), (318, 176)):
            worked = tried_scalers().get((322, 180, width, height))
            assert worked or (algorithm == "area" and width == 318), "the fast way was not taken"


def test_two_sizes_in_turns(clip: Callable[[str], Path]) -> None:
    path = clip("h264_320x240.mp4")
    for width in (64, 66, 64, 65, 66, 64):
        desc = f"scale=w={width}:h=48:flags=bicubic,format=pix_fmts=rgb24"
        assert np.array_equal(frames_of(path, desc)[2], frames_of(path, f"null,{desc}")[2])


def random_description(draw: random.Random) -> str:
    """Return what `get_video_filter_desc` writes for drawn arguments."""

    def maybe(share: float, choices: Sequence[Any]) -> Any:
        return draw.choice(choices) if draw.random() < share else None

    start = draw.choice([0, 0.1, 0.33, 0.5, 3])
    mode: Literal["pad", "crop"] | None = draw.choice(["pad", "crop", None])
    sides = [*range(1, 160), *range(2, 130, 2), *([None] if mode != "crop" else [])]
    desc = get_video_filter_desc(
        frame_rate=maybe(0.3, [(10, 1), (30, 1), (60000, 1001), (1, 1), (7, 2), (100, 1)]),
        timestamp=maybe(0.3, [(start, start + length) for length in (0.05, 0.2, 0.7, float("inf"))]),
        scale_mode=mode,
        scale_width=draw.choice(sides),
        scale_height=draw.choice(sides),
        scale_algo=draw.choice([*_ALGORITHMS, "spline"]),
        num_frames=maybe(0.3, [1, 3, 9, 16, 40, 80]),
        pad_mode=maybe(0.3, ["red", "gray"]),
        filter_desc=maybe(0.2, ["hflip", "vflip", "hflip,vflip"]),
    )
    assert desc is not None
    return desc


@pytest.mark.parametrize("color", ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv420p10le", "gray", "gbrp"])
@pytest.mark.parametrize("size", ["128x72", "97x61", "66x90"])
def test_random_descriptions(tmp_path: Path, color: str, size: str) -> None:
    path = tmp_path / "clip.mkv"
    # Of a variable frame rate.
    source = f"testsrc2=size={size}:rate=30:duration=1,noise=alls=40:allf=t,select='gt(random(0),0.4)',format={color}"
    run_ffmpeg("-f", "lavfi", "-i", source, "-vsync", "vfr", "-c:v", need_encoder("ffv1"), path)
    draw = random.Random(f"{color} {size}")
    for _ in range(12):
        same_as_the_filters(path, random_description(draw))


def test_no_frames(clip: Callable[[str], Path]) -> None:
    """A window without any, and sizes that do not fit, which is an error all the same."""
    path = clip("h264.mp4")
    window: dict[str, Any] = {"timestamp": (50, 60), "scale_width": 40, "scale_height": 40}
    desc = str(get_video_filter_desc(**window, num_frames=3))
    assert len(decode_packets(demux_video(path), desc)) == 0
    desc = str(get_video_filter_desc(**window, crop_width=50, crop_height=50))
    with pytest.raises(RuntimeError, match="cannot apply the filter description"):
        decode_packets(demux_video(path), desc)


def test_piece_by_piece(clip: Callable[[str], Path]) -> None:
    for desc in (DESCRIPTIONS["everything"], DESCRIPTIONS["rate"], DESCRIPTIONS["crop"]):
        packets = demux_video(clip("h264.mkv"))
        expected = decode_packets(packets.clone(), f"null,{desc}")
        decoder = Decoder(packets.codec, filter_desc=desc)
        for _ in range(2):
            decoder.set_buffer_size(7)
            pieces = [*decoder.streaming_decode_packets(packets.clone()), *decoder.flush()]
            assert [time for piece in pieces for time in piece.get_pts()] == expected.get_pts()
            found = np.concatenate([to_numpy(convert_frames(piece)) for piece in pieces])
            assert np.array_equal(found, to_numpy(convert_frames(expected.clone())))


def test_a_size_that_changes_in_mid_stream(clip: Callable[[str], Path]) -> None:
    path = clip("resolution_change.ts")
    for desc in DESCRIPTIONS.values():
        same_as_the_filters(path, str(desc))


def test_errors_quote_the_whole_description(clip: Callable[[str], Path]) -> None:
    desc = "trim=start=0:end=1,scale=w=20:h=20:flags=bicubic,crop=w=64:h=64,format=pix_fmts=rgb24"
    with pytest.raises(RuntimeError, match=rf"cannot apply the filter description \"{desc}\": "):
        decode_packets(demux_video(clip("h264.mp4")), desc)

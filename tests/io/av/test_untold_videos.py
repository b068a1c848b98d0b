"""Videos whose containers or codecs do not tell all: when frames are shown, or which of them decoding can begin with.

Whichever way they are read, the frames are those that decoding everything from the beginning gives.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.ffmpeg import need_decoder, need_encoder, run_ffprobe
from tests.io.av.sources import Pictures

from spdl.io import (
    VideoReader,
    convert_frames,
    decode_packets,
    demux_video,
    load_video,
    load_video_batch,
    sample_decode_video,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RATE = 25
_H264 = ("libx264", "-g", 12, "-bf", 3)
_MPEG2 = ("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4)
_HEVC = ("libx265", "-x265-params", "log-level=error:keyint=12:bframes=3:pools=none:frame-threads=1")
# The encoder and its options.
_CLIPS: dict[str, tuple[object, ...]] = {
    "h264.avi": _H264,
    "h264.h264": _H264,
    "hevc.hevc": _HEVC,
    "mpeg4.avi": ("mpeg4", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg2.avi": _MPEG2,
    "mpeg2.m2v": _MPEG2,
    "mpeg2.mpg": _MPEG2,
    "mpeg2.vob": _MPEG2,
    "mpeg1.m1v": ("mpeg1video", *_MPEG2[1:]),
    "mpeg1.mpg": ("mpeg1video", *_MPEG2[1:]),
    "h261.mkv": ("h261", "-g", 12, "-q:v", 4),
    "h263.3gp": ("h263", "-g", 12, "-q:v", 4),
    "h263p.avi": ("h263p", "-g", 12, "-q:v", 4),
    "h263p.mkv": ("h263p", "-g", 12, "-q:v", 4),
    "flv1.avi": ("flv", "-g", 12, "-q:v", 4),
    "msmpeg4v2.avi": ("msmpeg4v2", "-g", 12, "-q:v", 4),
    "msmpeg4v3.avi": ("msmpeg4", "-g", 12, "-q:v", 4),
    "wmv1.avi": ("wmv1", "-g", 12, "-q:v", 4),
    "wmv2.avi": ("wmv2", "-g", 12, "-q:v", 4),
    "vp8.avi": ("libvpx", "-g", 12, "-deadline", "realtime", "-cpu-used", 8, "-auto-alt-ref", 0),
    # FFmpeg has no parser for these.
    "ffv1.avi": ("ffv1", "-g", 12, "-level", 1),
    "cinepak.avi": ("cinepak", "-g", 12),
    "zmbv.avi": ("zmbv", "-g", 12),
    # All packets are said to be key frames, and most are not.
    "rpza.mov": ("rpza",),
    "gif.mkv": ("gif",),
}


@pytest.fixture(scope="module")
def untold(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that makes one of these clips, once, and returns its path."""
    folder = tmp_path_factory.mktemp("untold")

    def make(name: str) -> Path:
        path = folder / name
        if not path.exists():
            encoder, *options = _CLIPS[name]
            encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(176, 144))
        need_decoder(path)
        return path

    return make


def _whole(path: Path | bytes) -> Any:
    return to_numpy(load_video(path))


def _numbers(frames: Any, whole: Any) -> list[int]:
    """Return which frames of the whole these are; -1 for one that is none of them."""
    return [next((i for i, known in enumerate(whole) if np.array_equal(frame, known)), -1) for frame in frames]


def _sampled(path: Path | bytes, indices: list[int], window: tuple[float, float] | None = None) -> Any:
    return to_numpy(convert_frames(sample_decode_video(demux_video(path, timestamp=window), indices)))


@pytest.mark.parametrize("name", sorted(_CLIPS))
def test_the_whole_is_that_of_the_command(untold: Callable[[str], Path], name: str) -> None:
    theirs = oracle.pictures(untold(name)).astype(int)
    ours = _whole(untold(name)).astype(int)
    assert len(ours) == len(theirs)
    assert np.abs(ours - theirs).mean() < 1


@pytest.mark.parametrize("name", sorted(_CLIPS))
@pytest.mark.parametrize("window", [(0.4, 0.8), (1, 1.52), (1.24, 100), (-1, 0.2)])
def test_a_window_holds_the_same_frames_for_all(
    untold: Callable[[str], Path], name: str, window: tuple[float, float]
) -> None:
    path = untold(name)
    whole = _whole(path)
    reader = VideoReader(path)
    begin = reader.timestamps[0]
    moved = (window[0] + begin - 0.001, window[1] + begin - 0.001)
    expected = [k for k in range(len(whole)) if window[0] <= round(k / _RATE, 6) < window[1]]
    assert _numbers(to_numpy(load_video(path, timestamp=moved)), whole) == expected
    assert _numbers(to_numpy(reader.read(*moved)), whole) == expected
    packets = demux_video(path, timestamp=moved)
    assert len(packets) == len(expected)
    assert packets.get_timestamps() == pytest.approx([begin + k / _RATE for k in expected], abs=0.0011)
    wanted = [0, 2, len(expected) - 1]
    assert _numbers(_sampled(path, wanted, moved), whole) == [expected[i] for i in wanted]
    batch = load_video_batch([path], num_frames=60, width=176, height=144, timestamps=[moved])
    assert batch.lengths == [len(expected)]
    pictures = to_numpy(VideoReader(path, width=176, height=144).read())
    assert np.array_equal(to_numpy(batch.clips)[0, : len(expected)], pictures[expected])


@pytest.mark.parametrize("name", sorted(_CLIPS))
def test_each_frame_alone_is_that_of_the_whole(untold: Callable[[str], Path], name: str) -> None:
    path = untold(name)
    whole = _whole(path)
    for frame in (5, 3, 13, 12, 30, 49, 0):
        assert np.array_equal(_sampled(path, [frame])[0], whole[frame])
        assert np.array_equal(to_numpy(VideoReader(path)[frame])[0], whole[frame])


def _without_index(data: bytes) -> bytes:
    return data[: data.rfind(b"idx1")]


def _with_half_an_index(data: bytes) -> bytes:
    at = data.rfind(b"idx1")
    return data[: at + 8 + (len(data) - at - 8) // 32 * 16]


@pytest.mark.parametrize("name", sorted(it for it in _CLIPS if it.endswith(".avi")))
@pytest.mark.parametrize("cut", [_without_index, _with_half_an_index])
def test_an_avi_file_without_its_index(untold: Callable[[str], Path], name: str, cut: Callable[[bytes], bytes]) -> None:
    data = cut(untold(name).read_bytes())
    whole = _whole(untold(name))
    assert np.array_equal(_whole(data), whole)
    reader = VideoReader(data)
    assert len(reader) == len(whole)
    pictures = to_numpy(VideoReader(data, width=88, height=72).read())
    for frame in (5, 3, 13, 30, 31, 49, 0):
        assert np.array_equal(to_numpy(reader[frame])[0], whole[frame])
        assert np.array_equal(to_numpy(VideoReader(data)[frame])[0], whole[frame])
        assert np.array_equal(_sampled(data, [frame])[0], whole[frame])
        window = (frame / _RATE, (frame + 1) / _RATE)
        batch = load_video_batch([data], num_frames=1, width=88, height=72, timestamps=[window])
        assert np.array_equal(to_numpy(batch.clips)[0, 0], pictures[frame])
        assert np.array_equal(to_numpy(load_video(data, timestamp=window)), whole[frame : frame + 1])


@pytest.mark.parametrize(
    "sizes",
    [
        [(64, 48), (160, 120), (96, 64)],
        [(160, 120), (96, 64), (64, 48)],  # As low as one of two fields.
        [(96, 360), (96, 24)],
        [(64, 32), (48, 64), (64, 40)],
    ],
)
@pytest.mark.parametrize(("count", "pix_fmt"), [(5, "yuvj444p"), (20, "yuvj420p")])
def test_raw_pictures_of_several_sizes(tmp_path: Path, sizes: list[tuple[int, int]], pix_fmt: str, count: int) -> None:
    data, parts = b"", []
    for width, height in sizes:
        path = tmp_path / "part.mjpeg"
        encode(path, ["-c:v", "mjpeg", "-q:v", 3, "-pix_fmt", pix_fmt], pictures=Pictures(width, height, count))
        data += path.read_bytes()
        parts.append(to_numpy(VideoReader(path, width=48, height=32).read()))
    path = tmp_path / "whole.mjpeg"
    path.write_bytes(data)
    shown = run_ffprobe("-show_entries", "frame=width,height", "-of", "csv=p=0", path).decode().split()
    assert shown == [f"{width},{height}" for width, height in sizes for _ in range(count)]
    # The pictures of each size by themselves.
    whole = np.concatenate(parts)
    reader = VideoReader(data, width=48, height=32)
    assert np.array_equal(to_numpy(reader.read()), whole)
    for frame in [*range(len(whole))[::-4], 1, 0]:
        assert np.array_equal(to_numpy(reader[frame])[0], whole[frame])
        assert np.array_equal(to_numpy(VideoReader(data, width=48, height=32)[frame])[0], whole[frame])
        window = (frame / 25, (frame + 1) / 25)
        batch = load_video_batch([data], num_frames=1, width=48, height=32, timestamps=[window])
        assert np.array_equal(to_numpy(batch.clips)[0, 0], whole[frame])


def test_pickled_packets_still_know_that_frames_are_counted(untold: Callable[[str], Path]) -> None:
    path = untold("h264.avi")
    whole = _whole(path)
    packets = pickle.loads(pickle.dumps(demux_video(path, timestamp=(1, 2))))
    assert _numbers(to_numpy(convert_frames(sample_decode_video(packets, [3]))), whole) == [28]
    packets = pickle.loads(pickle.dumps(demux_video(path, timestamp=(1, 2))))
    assert np.array_equal(to_numpy(convert_frames(decode_packets(packets))), whole[25:])

"""Videos are decoded frame by frame as the ffmpeg command does it: whole, in windows, by index and by time."""

from __future__ import annotations

import hashlib
import math
import pickle
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.video_clips import CODECS, PIXEL_FORMATS, TIMES, VIDEO_CLIPS

from spdl.io import (
    Decoder,
    Demuxer,
    VideoFrames,
    VideoPackets,
    VideoReader,
    convert_frames,
    decode_packets,
    demux_video,
    get_video_filter_desc,
    load_video,
    sample_decode_video,
    to_numpy,
)
from spdl.io.utils import get_ffmpeg_log_level, set_ffmpeg_log_level

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# FFmpeg's decoders of these are not the same bit by bit in all releases.
_NEAR = {"mpeg4.avi", "mpeg4.mp4", "theora.ogv", "mjpeg.avi", "mjpeg.mov", "prores.mov"}
_SEEKABLE = sorted({*CODECS, *TIMES})


def hashes(frames: VideoFrames) -> list[str]:
    """Return the MD5 of each frame in its own pixel format, as the ffmpeg command prints it."""
    return [
        hashlib.md5(to_numpy(convert_frames(frames[i])).tobytes(), usedforsecurity=False).hexdigest()
        for i in range(len(frames))
    ]


def stored(path: Path) -> VideoFrames:
    return decode_packets(demux_video(path), filter_desc=None)


@pytest.mark.parametrize("name", sorted(VIDEO_CLIPS))
def test_the_frames_are_those_of_the_command(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    frames = stored(path)
    expected = oracle.frame_hashes(path)
    assert len(frames) == len(expected)
    if "odd" in name and "444" not in name:
        with pytest.raises(RuntimeError, match="not multiples of its chroma subsampling"):
            convert_frames(frames)
        frames = decode_packets(demux_video(path), filter_desc="format=gbrp")
        expected = oracle.frame_hashes(path, filters="format=gbrp")
    if name in _NEAR:
        theirs = oracle.pictures(path).astype(int)
        ours = to_numpy(load_video(path)).astype(int)
        assert np.abs(ours - theirs).mean() < 1
    else:
        assert hashes(frames) == expected


@pytest.mark.parametrize("name", sorted({*CODECS, *TIMES} - {"elementary.h264"}))
def test_the_times_are_those_of_the_command(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    times = oracle.frame_times(path)
    if None in times:
        pytest.skip("the container has no times")
    ours = stored(path).get_timestamps()
    assert ours == pytest.approx([float(it) for it in times if it is not None], abs=1e-6)


@pytest.mark.parametrize("name", _SEEKABLE)
def test_a_window_is_a_slice_of_the_whole(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    frames = stored(path)
    whole, times = hashes(frames), frames.get_timestamps()
    generator = random.Random(name)
    with Demuxer(path) as demuxer:
        for _ in range(6):
            first = generator.randrange(len(whole))
            last = generator.randrange(first, len(whole)) + 1
            end = math.inf if last == len(whole) else times[last]
            packets = demuxer.demux_video((times[first], end))
            assert hashes(decode_packets(packets, filter_desc=None)) == whole[first:last]


@pytest.mark.parametrize("name", sorted(VIDEO_CLIPS))
def test_a_reader_knows_what_a_demuxer_knows(clip: Callable[[str], Path], name: str) -> None:
    # It decodes no frame to find that out before it is asked.
    path = clip(name)
    with Demuxer(path) as demuxer:
        expected = demuxer.video_codec
    reader = VideoReader(path)
    assert reader.rotation == expected.rotation
    for fact in ("name", "width", "height", "pix_fmt", "frame_rate", "time_base", "rotation"):
        assert getattr(reader.codec, fact) == getattr(expected, fact), fact
    # 0 says that it is not known, which counts as square.
    assert (reader.codec.sample_aspect_ratio[0] or 1) == (expected.sample_aspect_ratio[0] or 1)


def test_that_decoding_is_left_to_later_is_not_logged(
    clip: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    before = get_ffmpeg_log_level()
    set_ffmpeg_log_level(24)
    try:
        assert VideoReader(clip("h264.mp4")).codec.pix_fmt == "yuv420p"
    finally:
        set_ffmpeg_log_level(before)
    assert [record.getMessage() for record in caplog.records if record.name == "spdl.io.ffmpeg"] == []


@pytest.mark.parametrize("name", _SEEKABLE)
def test_frames_by_index_in_any_order(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    whole = hashes(stored(path))
    generator = random.Random(name)
    reader = VideoReader(path)
    assert len(reader) == len(whole)
    for _ in range(8):
        indices = [generator.randrange(-len(whole), len(whole)) for _ in range(generator.randint(1, 5))]
        assert hashes(reader.decode(indices)) == [whole[i] for i in indices]
    for index in range(len(whole)):  # One after the other goes on from where it is.
        assert hashes(reader.decode([index])) == [whole[index]]


def test_a_reader_gives_the_pictures_of_the_command(clip: Callable[[str], Path]) -> None:
    path = clip("h264_lossless.mp4")
    theirs = oracle.pictures(path, filters="scale=flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp")
    reader = VideoReader(path, exact=True)
    for indices in ([0, 5, 5, 3], [len(theirs) - 1], range(len(theirs))):
        ours = to_numpy(reader.read_frames(indices))
        assert np.abs(ours.astype(int) - theirs[list(indices)]).max() <= 1
    assert np.array_equal(to_numpy(reader[-1]), to_numpy(reader.read_frames([len(reader) - 1])))
    assert np.array_equal(to_numpy(reader[2:9:3]), to_numpy(reader.read_frames([2, 5, 8])))


@pytest.mark.parametrize("name", ["h264_10bit.mp4", "ffv1_alpha.mkv", "ffv1_444_10bit.mkv"])
@pytest.mark.parametrize("mode", ["stretch", "pad", "crop"])
def test_what_is_no_planes_of_bytes_is_scaled_as_the_filters_do(
    clip: Callable[[str], Path], name: str, mode: Any
) -> None:
    path = clip(name)
    desc = get_video_filter_desc(
        scale_width=40, scale_height=40, scale_mode=None if mode == "stretch" else mode, scale_algo="bilinear"
    )
    expected = to_numpy(load_video(path, filter_desc=desc))
    reader = VideoReader(path, width=40, height=40, mode=mode, interpolation="bilinear")
    assert np.array_equal(to_numpy(reader.read()), expected)


@pytest.mark.parametrize("name", ["h264.mp4", "ffv1_odd.mkv", "mjpeg.avi"])
def test_nearest_and_the_own_size_are_left_to_the_filters(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    desc = get_video_filter_desc(scale_width=40, scale_height=30, scale_mode=None, scale_algo="neighbor")
    reader = VideoReader(path, width=40, height=30, mode="stretch", interpolation="nearest")
    assert np.array_equal(to_numpy(reader.read()), to_numpy(load_video(path, filter_desc=desc)))
    assert np.array_equal(to_numpy(VideoReader(path).read()), to_numpy(load_video(path)))


def test_resized_normalised_and_into_the_callers_memory(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    plain = VideoReader(path, width=32, height=24, mode="stretch")
    reader = VideoReader(path, width=32, height=24, mode="stretch", layout="NCHW", dtype="float32", mean=mean, std=std)
    pixels = to_numpy(plain.read_frames([1, 2])).astype(np.float64)
    expected = ((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)
    memory = np.empty((2, 3, 24, 32), np.float32)
    ours = to_numpy(reader.read_frames([1, 2], storage=memory))
    assert ours.shape == (2, 3, 24, 32)
    assert np.abs(ours - expected).max() < 1e-5
    assert np.array_equal(memory, ours)


def test_frames_by_time(clip: Callable[[str], Path]) -> None:
    reader = VideoReader(clip("irregular.mp4"))
    times = reader.timestamps
    frames = [0, 4, 10, len(times) - 1]
    at_start = [times[i] for i in frames]
    in_between = [times[i] + 0.039 for i in frames]
    expected = to_numpy(reader.read_frames(frames))
    assert np.array_equal(to_numpy(reader.read_at(at_start)), expected)
    assert np.array_equal(to_numpy(reader.read_at(in_between)), expected)
    assert np.array_equal(to_numpy(reader.read(times[3], times[7])), to_numpy(reader.read_frames(range(3, 7))))
    with pytest.raises(ValueError, match="when frames are shown, got -1"):
        reader.read_at([-1])
    with pytest.raises(ValueError, match="when frames are shown, got 1000"):
        reader.read_at([1000])


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotated_pictures_are_turned_upright(clip: Callable[[str], Path], degrees: int) -> None:
    path = clip(f"rotated_{degrees}.mp4")
    reader, as_stored = VideoReader(path), VideoReader(path, rotate=False)
    assert reader.rotation in (degrees, 360 - degrees)
    expected = np.rot90(to_numpy(as_stored[3])[0], -reader.rotation // 90)
    assert np.array_equal(to_numpy(reader[3])[0], expected)


def test_a_reader_and_its_index_can_be_pickled(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mkv")
    reader = VideoReader(path, width=40)
    expected = to_numpy(reader.read_frames([7, 2]))
    again = pickle.loads(pickle.dumps(reader))
    assert np.array_equal(to_numpy(again.read_frames([7, 2])), expected)
    with path.open("rb") as file:
        other = VideoReader(file, width=40, index=reader.index)
        assert np.array_equal(to_numpy(other.read_frames([7, 2])), expected)
        with pytest.raises(TypeError, match="open file cannot be pickled"):
            pickle.dumps(other)


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "vp9.webm", "mpeg2.ts"])
def test_sampled_frames_of_a_window(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    times = stored(path).get_timestamps()
    window = (times[5], times[20])
    whole = hashes(decode_packets(demux_video(path, timestamp=window), filter_desc=None))
    indices = [0, 3, 4, 14]
    frames = sample_decode_video(demux_video(path, timestamp=window), indices, filter_desc=None)
    found = [hashlib.md5(to_numpy(convert_frames(it)).tobytes(), usedforsecurity=False).hexdigest() for it in frames]
    assert found == [whole[i] for i in indices]
    for wrong in ([], [3, 2], [1, 1]):
        with pytest.raises(ValueError, match="ascending order"):
            sample_decode_video(demux_video(path), wrong)
    for outside in ([-1], [len(times)]):
        with pytest.raises(IndexError, match="from 0 to"):
            sample_decode_video(demux_video(path), outside)


@pytest.mark.parametrize("source", ["path", "bytes", "file", "pipe"])
@pytest.mark.parametrize("name", ["h264.mkv", "h264.ts", "h264_fragmented.mp4"])
def test_streams_of_every_kind_of_source(clip: Callable[[str], Path], source: str, name: str) -> None:
    path = clip(name)
    expected = hashes(stored(path))
    with path.open("rb") as file:
        src: Any = {"path": path, "bytes": path.read_bytes(), "file": file, "pipe": _Pipe(file)}[source]
        with Demuxer(src) as demuxer:
            decoder = Decoder(demuxer.video_codec, filter_desc=None)
            found: list[str] = []
            for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=7):
                assert isinstance(packets, VideoPackets)
                for frames in decoder.streaming_decode_packets(packets):
                    found += hashes(frames)
            for frames in decoder.flush():
                found += hashes(frames)
    assert found == expected


class _Pipe:
    """A file that can only be read on."""

    def __init__(self, file: Any) -> None:
        self.read = file.read


@pytest.mark.parametrize("name", [*PIXEL_FORMATS, "bt601.mp4", "bt709.mp4", "bt2020.mp4", "bt709_full.mp4"])
def test_the_default_is_rgb_as_the_command_converts_it(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    ours, theirs = to_numpy(load_video(path)), oracle.pictures(path)
    assert ours.shape == theirs.shape
    # Another release may round otherwise.
    assert np.abs(ours.astype(int) - theirs).max() <= 3


def test_windows_are_exact_in_every_notation(clip: Callable[[str], Path]) -> None:
    path = clip("h264_ntsc.mp4")
    frame = Fraction(1001, 30000)
    whole = hashes(stored(path))
    for start, end in (
        (frame * 3, frame * 7),
        (float(frame * 3), float(frame * 7)),
        (str(frame * 3), str(frame * 7)),
        (np.float64(frame * 3), np.float64(frame * 7)),
    ):
        packets = demux_video(path, timestamp=(start, end))
        assert len(packets) == 4
        assert hashes(decode_packets(packets, filter_desc=None)) == whole[3:7]


@pytest.mark.parametrize("window", [(2, 1), (1, 1), (math.inf, math.inf), (-1, -math.inf), ("1", "1/2")])
@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_empty_window_is_an_error(clip: Callable[[str], Path], window: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`window` must be a window that starts before it ends"):
        demux_video(clip("h264.mp4"), timestamp=window)


@pytest.mark.parametrize("window", [3, (1,), "12", ("a", 2), (None, 3), (True, 3), (math.nan, 3), (1, 10**12)])
def test_what_is_no_window_is_an_error(clip: Callable[[str], Path], window: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"`window"):
        demux_video(clip("h264.mp4"), timestamp=window)


def test_no_frames_make_no_array(clip: Callable[[str], Path]) -> None:
    frames = decode_packets(demux_video(clip("h264.mp4")))[:0]
    assert len(frames) == 0
    for empty in (frames.clone(), [frames.clone()]):
        with pytest.raises(RuntimeError, match="there are no frames to make an array of"):
            convert_frames(empty)

"""Recordings, which begin anywhere: there are the frames from the first key frame on, as for the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg, run_ffprobe
from tests.io.av.sources import Pictures

from spdl.io import (
    Decoder,
    Demuxer,
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
    from pathlib import Path

_OPEN = "keyint=12:bframes=3:open-gop=1"
_CODECS: dict[str, tuple[object, ...]] = {
    "h264": ("libx264", "-g", 12, "-bf", 3),
    "h264_open": ("libx264", "-bf", 3, "-x264-params", "open-gop=1:keyint=12:b-pyramid=normal"),
    "hevc": ("libx265", "-x265-params", f"log-level=error:{_OPEN}:pools=none:frame-threads=1"),
    "hevc_once": ("libx265", "-x265-params", "log-level=error:keyint=200:pools=none:frame-threads=1"),
    "refresh": ("libx264", "-x264-params", "intra-refresh=1:keyint=12:bframes=2"),
    "mpeg2": ("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4),
    "mpeg2_closed": ("mpeg2video", "-g", 12, "-bf", 2, "-q:v", 4, "-flags", "+cgop", "-sc_threshold", 1000000000),
}


def _begun_late(path: Path, codec: str, packet: int) -> list[bool]:
    """Write a stream without its first packets. Return of the others whether they are key frames."""
    encoder, *options = _CODECS[codec]
    encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(count=50))
    lines = run_ffprobe("-show_entries", "packet=pos,flags", "-of", "csv=p=0", path).decode().split()
    places = [(int(line.split(",")[0]), "K" in line) for line in lines]
    data = path.read_bytes()
    # The tables of the container come first.
    path.write_bytes(data[: 3 * 188] + data[places[packet][0] :])
    return [key for _, key in places[packet:]]


@pytest.mark.parametrize("codec", ["h264", "h264_open", "hevc", "mpeg2", "mpeg2_closed"])
@pytest.mark.parametrize("packet", [1, 5, 12, 14, 24])
def test_there_are_the_frames_from_the_first_key_frame_on(tmp_path: Path, codec: str, packet: int) -> None:
    path = tmp_path / "late.ts"
    keys = _begun_late(path, codec, packet)
    whole = to_numpy(load_video(path))
    theirs = oracle.pictures(path)
    times = [float(time or 0) for time in oracle.frame_times(path)]
    # The command also shows frames of HEVC that build on lost ones.
    first = len(theirs) - len(whole)
    assert first == 0 or (codec == "hevc" and not keys[0])
    assert oracle.are_same(whole, theirs[first:])
    assert len(whole) >= sum(1 for _ in keys[keys.index(True) :]) - 4
    reader = VideoReader(path)
    assert reader.timestamps == pytest.approx(times[first:])
    assert np.array_equal(to_numpy(reader.read()), whole)
    for frame in (0, 1, len(whole) - 1):
        assert np.array_equal(to_numpy(VideoReader(path)[frame])[0], whole[frame])
    for window in (None, (0, 100), (reader.timestamps[3] - 0.001, 100)):
        skipped = 3 if window and window[0] else 0
        assert np.array_equal(to_numpy(load_video(path, timestamp=window)), whole[skipped:])
        found = to_numpy(convert_frames(sample_decode_video(demux_video(path, timestamp=window), [0, 2])))
        assert np.array_equal(found, whole[[skipped, skipped + 2]])
    batch = load_video_batch([path], num_frames=50, width=48, height=32)
    assert batch.lengths == [len(whole)]
    # Packets are packets, whether frames can be made of them or not.
    assert len(demux_video(path)) == len(keys)


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [
        ("h264", "mkv"),
        ("h264", "h264"),
        ("h264", "avi"),
        ("h264_open", "mkv"),
        ("hevc", "mp4"),
        ("hevc", "hevc"),
        ("mpeg2", "mkv"),
        ("mpeg2", "mpg"),
        ("mpeg2", "m2v"),
        ("mpeg2_closed", "mpg"),
        ("mpeg2_closed", "m2v"),
        ("refresh", "mkv"),
        ("refresh", "avi"),
    ],
)
@pytest.mark.parametrize("packet", [12, 14])
def test_recordings_in_other_containers(tmp_path: Path, codec: str, suffix: str, packet: int) -> None:
    recorded, path = tmp_path / "late.ts", tmp_path / f"late.{suffix}"
    keys = _begun_late(recorded, codec, packet)
    run_ffmpeg("-i", recorded, "-c", "copy", "-copyinkf", path)
    theirs = oracle.pictures(path)
    whole = to_numpy(load_video(path))
    first = len(theirs) - len(whole)
    assert first == 0 or (codec == "hevc" and not keys[0])
    assert oracle.are_same(whole, theirs[first:])
    reader = VideoReader(path)
    assert np.array_equal(to_numpy(reader.read()), whole)
    times = decode_packets(demux_video(path), filter_desc=None).get_timestamps()
    assert reader.timestamps == pytest.approx(times, abs=1e-6)
    assert VideoReader(path, index=reader.index).timestamps == reader.timestamps
    assert np.array_equal(to_numpy(VideoReader(path)[-1])[0], whole[-1])
    assert load_video_batch([path], num_frames=50, width=48, height=32).lengths == [len(whole)]


@pytest.mark.parametrize("codec", ["h264_open", "hevc", "mpeg2"])
@pytest.mark.parametrize("size", [1, 7])
def test_pieces_of_a_recording_hold_every_packet(tmp_path: Path, codec: str, size: int) -> None:
    path = tmp_path / "late.ts"
    keys = _begun_late(path, codec, 5)
    whole = to_numpy(load_video(path))
    pieces, count = [], 0
    with Demuxer(path) as demuxer:
        decoder = Decoder(demuxer.video_codec, filter_desc=None)
        packets: Any
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=size):
            count += len(packets)
            pieces += list(decoder.streaming_decode_packets(packets))
    pieces += list(decoder.flush())
    assert count == len(keys)
    assert sum(len(piece) for piece in pieces) == len(whole)


def test_without_any_key_frame_there_is_what_the_decoder_gives(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.mkv", tmp_path / "late.mkv"
    encoder, *options = _CODECS["hevc_once"]
    encode(whole, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(count=50))
    run_ffmpeg("-i", whole, "-ss", 0.2, "-c", "copy", "-copyinkf", path)
    assert "K" not in run_ffprobe("-show_entries", "packet=flags", "-of", "csv=p=0", path).decode()
    theirs = oracle.pictures(path)
    assert len(theirs) > 30
    assert oracle.are_same(to_numpy(load_video(path)), theirs)
    assert len(VideoReader(path)) == len(theirs)


def _frames(path: Path, start: float) -> Any:
    return to_numpy(load_video(path, timestamp=(start, 100)))


@pytest.mark.parametrize("count", range(37, 50))
def test_no_frame_is_lost_after_the_last_recovery_point(tmp_path: Path, count: int) -> None:
    path = tmp_path / "open.mp4"
    encoder, *options = _CODECS["h264_open"]
    encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(count=count))
    theirs = oracle.pictures(path)
    assert len(theirs) == count
    for begin in range(count - 14, count):
        assert oracle.are_same(_frames(path, begin / 25), theirs[begin:])
        sampled = sample_decode_video(demux_video(path, timestamp=(begin / 25, 100)), [count - begin - 1])
        assert oracle.are_same(to_numpy(convert_frames(sampled))[0], theirs[-1])


def _at_rate(path: Path, window: tuple[float, float] | None, fps: float, num_frames: int = 60) -> Any:
    keywords: dict[str, Any] = {"num_frames": num_frames, "width": 96, "height": 64, "fps": fps}
    batch = load_video_batch([path], timestamps=[window], **keywords)
    return to_numpy(batch.clips)[0, : batch.lengths[0]]


def test_a_rate_takes_the_frame_on_the_screen_at_each_moment(tmp_path: Path) -> None:
    path = tmp_path / "varying.mp4"
    # Shown at 0, 0.04, 0.12, 0.24, 0.4, 0.6, ...
    times = "setpts=N*(N+1)/2/25/TB"
    options = ["-vf", times, "-fps_mode", "passthrough", "-c:v", need_encoder("libx264"), "-bf", 2]
    encode(path, options, pictures=Pictures(count=10))
    shown = [float(time or 0) for time in oracle.frame_times(path)]
    assert len(shown) == 10
    reader = VideoReader(path, width=96, height=64)
    every = to_numpy(reader.read())

    def on_screen(moments: list[float]) -> Any:
        return every[[max(i for i, time in enumerate(shown) if time <= moment + 1e-6) for moment in moments]]

    moments = [0.3 + i / 25 for i in range(20)]
    assert np.array_equal(_at_rate(path, (0.3, 1.1), 25), on_screen(moments))
    assert np.array_equal(_at_rate(path, (0.6, 0.6091), 100), on_screen([0.6]))
    assert np.array_equal(_at_rate(path, (0.5, 0.55), 100), on_screen([0.5, 0.51, 0.52, 0.53, 0.54]))
    assert np.array_equal(_at_rate(path, None, 5, 5), on_screen([0, 0.2, 0.4, 0.6, 0.8]))
    assert np.array_equal(_at_rate(path, (-5, 0.05), 50), on_screen([0, 0.02, 0.04]))
    with pytest.raises(RuntimeError, match="no frame appears within the window"):
        _at_rate(path, (50, 60), 25)

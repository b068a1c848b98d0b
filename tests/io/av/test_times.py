"""Times that are negative, absurd, or counted in another unit in mid-stream."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import (
    BSF,
    FilterGraph,
    Muxer,
    VideoFrames,
    VideoReader,
    apply_bsf,
    audio_encode_config,
    create_reference_audio_frame,
    create_reference_video_frame,
    decode_packets,
    demux_audio,
    demux_video,
    get_abuffer_desc,
    get_buffer_desc,
    video_encode_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PICTURES = np.zeros((6, 24, 32, 3), np.uint8)


def _pictures(pts: int) -> VideoFrames:
    return create_reference_video_frame(_PICTURES, "rgb24", 25, pts)


@pytest.mark.parametrize("pts", [-50, -3, 0, 7])
def test_a_graph_keeps_negative_times_of_pictures(pts: int) -> None:
    graph = FilterGraph(f"{get_buffer_desc(_pictures(0))},hflip,buffersink")
    graph.add_frames(_pictures(pts))
    frames = graph.get_frames()
    assert isinstance(frames, VideoFrames)
    assert frames.get_pts() == list(range(pts, pts + 6))


def test_a_graph_cuts_at_a_negative_time() -> None:
    graph = FilterGraph(f"{get_buffer_desc(_pictures(0))},trim=start=-0.04:end=0.04,buffersink")
    graph.add_frames(_pictures(-3))
    frames = graph.get_frames()
    assert isinstance(frames, VideoFrames)
    assert frames.get_pts() == [-1, 0]


@pytest.mark.parametrize("filters", ["aformat=sample_fmts=s16p", "aformat=sample_fmts=s16p,asetnsamples=100"])
def test_times_go_on_if_the_rate_changes_in_mid_stream(clip: Callable[[str], Path], filters: str) -> None:
    packets = demux_audio(clip("sample_rate_change.mp3"))
    expected = decode_packets(packets.clone(), None).get_timestamps()
    times = decode_packets(packets, filters).get_timestamps()
    steps = {round(b - a, 4) for a, b in pairwise(times)}
    assert times[0] == pytest.approx(expected[0], abs=1e-3)
    assert times[-1] == pytest.approx(expected[-1], abs=0.03)
    assert max(steps) <= 1152 / 44100 + 1e-3


_ABSURD = [2**61, 2**62, -(2**62)]


@pytest.mark.parametrize("time", _ABSURD)
def test_absurd_times_of_packets_are_refused(clip: Callable[[str], Path], time: int) -> None:
    packets = apply_bsf(demux_video(clip("ffv1.mkv")), f"setts=pts={time}:dts={time}")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"the time of a packet is -?\d+ units, which no clip can have"):
            decode_packets(packets.clone(), None)
    with pytest.raises((RuntimeError, ValueError), match=r"a time is|2\*\*60"):
        pickle.loads(pickle.dumps(packets))
    muxer = Muxer(io.BytesIO(), format="nut")
    muxer.add_remux_stream(packets.codec)
    with pytest.raises(RuntimeError, match="no clip can have"), muxer.open():
        muxer.write(0, packets)


def test_an_index_with_absurd_times_is_refused(clip: Callable[[str], Path]) -> None:
    index = VideoReader(clip("h264.mp4")).index
    times = np.frombuffer(index.times, np.int64).copy()
    times[3] = 2**62
    damaged = replace(index, times=times.tobytes())
    with pytest.raises(RuntimeError, match="no clip can have"):
        VideoReader(clip("h264.mp4"), index=damaged)


@pytest.mark.parametrize("time", [2**59, -(2**59)])
def test_times_that_overflow_in_another_unit_are_refused(clip: Callable[[str], Path], time: int) -> None:
    # In milliseconds, which are many more frames or samples of a finer unit.
    pictures = decode_packets(apply_bsf(demux_video(clip("ffv1.mkv")), f"setts=pts={time}+N:dts={time}+N"), None)
    muxer = Muxer(io.BytesIO(), format="matroska")
    config = video_encode_config(height=64, width=96, frame_rate=1_000_000, pix_fmt="yuv420p")
    encoder = muxer.add_encode_stream(config, encoder="ffv1")
    with pytest.raises(RuntimeError, match=r"the time of a frame, -?\d+ x 1/1000 s, is one that no clip can have"):
        encoder.encode(pictures)
    desc = get_buffer_desc(pictures).replace("time_base=1/1000", "time_base=1/1000000000")
    graph = FilterGraph(f"{desc},buffersink")
    with pytest.raises(RuntimeError, match="no clip can have"):
        graph.add_frames(pictures)

    packets = apply_bsf(demux_audio(clip("both.mkv")), f"setts=pts={time}+N:dts={time}+N")
    with pytest.raises(RuntimeError, match="no clip can have"):
        decode_packets(packets, None)


def _samples(count: int, pts: int, rate: int = 8000) -> Any:
    return create_reference_audio_frame(np.zeros((count, 1), np.int16), "s16", rate, pts)


def test_a_graph_refuses_times_of_sound_that_overflow() -> None:
    desc = get_abuffer_desc(_samples(10, 0))
    late = FilterGraph(f"{desc},asetpts={2**59},abuffersink")
    late.add_frames(_samples(10, 0))
    frames = late.get_frames()
    assert frames is not None
    graph = FilterGraph(f"{desc.replace('time_base=1/8000', 'time_base=1/2000000000')},abuffersink")
    with pytest.raises(RuntimeError, match="no clip can have"):
        graph.add_frames(frames)


@pytest.mark.parametrize("overlap", [1, 300, 1900])
def test_sound_that_overlaps_is_refused(overlap: int) -> None:
    muxer = Muxer(io.BytesIO(), format="wav")
    encoder = muxer.add_encode_stream(audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16"))
    with muxer.open():
        encoder.encode(_samples(4000, 100))
        with pytest.raises(RuntimeError, match="begin before the end of those before them"):
            encoder.encode(_samples(4000, 4100 - overlap))
        encoder.encode(_samples(4000, 4100))


@pytest.mark.parametrize("encoder", ["pcm_s16le", "flac"])
def test_rounded_times_make_no_gaps(clip: Callable[[str], Path], encoder: str) -> None:
    """Those of Matroska are in milliseconds, which hold no whole number of samples."""
    frames = decode_packets(demux_audio(clip("two_sounds.mkv")), "aformat=sample_fmts=s16")
    rate = frames.sample_rate
    file = io.BytesIO()
    muxer = Muxer(file, format="matroska" if encoder == "flac" else "nut")
    config = audio_encode_config(num_channels=frames.num_channels, sample_rate=rate, sample_fmt="s16")
    made = muxer.add_encode_stream(config, encoder=encoder)
    with muxer.open():
        packets = made.encode(frames)
        assert packets is not None
        muxer.write(0, packets)
        decoded = decode_packets(packets, None)
    times, lengths = decoded.get_pts(), len(decoded)
    assert times[0] == 0
    assert len({b - a for a, b in pairwise(times[:-1])}) <= 1
    assert times[-1] < lengths


def test_bit_stream_filters_hand_on_absurd_times_only_to_be_refused(clip: Callable[[str], Path]) -> None:
    packets = demux_audio(clip("s16.wav"))
    absurd = BSF(packets.codec, "setts=pts=9e18:dts=9e18").filter(packets)
    with pytest.raises(RuntimeError, match="no clip can have"):
        decode_packets(absurd, None)

"""Arguments that are wrong, absurd or endless: one clear error, before anything is made of them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.image_files import png

from spdl.io import (
    BSF,
    AudioReader,
    Decoder,
    Demuxer,
    VideoReader,
    convert_frames,
    decode_packets,
    demux_audio,
    demux_image,
    demux_video,
    get_abuffer_desc,
    get_audio_filter_desc,
    get_buffer_desc,
    get_video_filter_desc,
    load_audio_batch,
    load_image_batch,
    load_video,
    load_video_batch,
    random_clips,
    uniform_clips,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_HUGE = range(10**13)


@pytest.mark.parametrize("index", [2**63, -(2**63) - 1, 10**4000, 50, -51], ids=["63", "-63", "4000", "50", "-51"])
def test_there_is_no_such_frame(clip: Callable[[str], Path], index: int) -> None:
    frames: Any = decode_packets(demux_video(clip("h264.mp4")))
    for wanted in (index, [0, index]):
        with pytest.raises(IndexError, match=r"there is no frame .*: there are 50"):
            frames[wanted]
    with pytest.raises(IndexError):
        VideoReader(clip("h264.mp4")).read_frames([index])
    with pytest.raises(TypeError):
        frames["0"]


@pytest.mark.parametrize("step", [1e308, 1e300, 10**400], ids=["308", "300", "int"])
def test_clips_of_enormous_steps_stay_at_the_end(step: float) -> None:
    assert uniform_clips(100, num_clips=2, num_frames=3, step=1e307) == [[0, 99, 99]] * 2
    if step == 10**400:
        with pytest.raises(ValueError, match="`step` must be a number above 0"):
            uniform_clips(100, num_clips=2, num_frames=3, step=step)
        return
    assert uniform_clips(100, num_clips=2, num_frames=3, step=step) == [[0, 99, 99]] * 2
    clips = random_clips(100, num_clips=1, num_frames=3, step=step, seed=0, epoch=0, index=0)
    assert clips == [[0, 99, 99]]


@pytest.mark.parametrize(
    ("length", "num_clips", "num_frames"),
    [(10**400, 1, 1), (10, 10**12, 1), (10, 1, 10**12), (10, 10**6, 10**6)],
    ids=["long", "many clips", "many frames", "both"],
)
def test_absurdly_many_clips_are_refused(length: int, num_clips: int, num_frames: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        uniform_clips(length, num_clips=num_clips, num_frames=num_frames)


_VIDEO: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"frame_rate": (30, 0)}, ValueError, "`frame_rate` must be a rate above 0"),
    ({"frame_rate": (-1, 1)}, ValueError, "`frame_rate` must be a rate above 0"),
    ({"frame_rate": 29.97}, TypeError, "`frame_rate` must be a rate above 0"),
    ({"frame_rate": (30,)}, TypeError, "`frame_rate` must be a rate above 0"),
    ({"frame_rate": "30"}, TypeError, "`frame_rate` must be a rate above 0"),
    ({"timestamp": (float("nan"), 1)}, ValueError, r"`timestamp\[0\]` must be a number of seconds, got nan"),
    ({"timestamp": (0, float("nan"))}, ValueError, r"`timestamp\[1\]` must be a number of seconds, got nan"),
    ({"timestamp": (2, 1)}, ValueError, "`timestamp` must be a window that starts before it ends"),
    ({"timestamp": ("0,hflip", 1)}, TypeError, r"`timestamp\[0\]` must be a number of seconds"),
    ({"timestamp": 5}, TypeError, "`timestamp` must be a pair of seconds"),
    ({"timestamp": (1, 2, 3)}, ValueError, "`timestamp` must be a pair of seconds"),
    ({"scale_width": 10.5}, TypeError, "`scale_width` must be an int"),
    ({"scale_width": -1}, ValueError, "`scale_width` must be at least 0, or None, as `scale_mode` is 'pad'"),
    ({"scale_height": "64:flags=area"}, TypeError, "`scale_height` must be an int"),
    ({"scale_height": 2**31}, ValueError, "`scale_height` must be an int"),
    ({"scale_width": 8, "scale_algo": "area,hflip"}, ValueError, "`scale_algo` must be a name of letters"),
    ({"scale_width": 8, "scale_algo": None}, TypeError, "`scale_algo` must be a str"),
    ({"crop_width": -4}, ValueError, "`crop_width` must be an int from 0"),
    ({"crop_height": float("nan")}, TypeError, "`crop_height` must be an int"),
    ({"num_frames": 0}, ValueError, "`num_frames` must be an int from 1"),
    ({"num_frames": -3}, ValueError, "`num_frames` must be an int from 1"),
    ({"pad_mode": "black'"}, ValueError, "`pad_mode` must be a colour"),
    ({"pad_mode": "black,hflip", "num_frames": 3}, ValueError, "`pad_mode` must be a colour"),
    ({"pix_fmt": "rgb24,hflip"}, ValueError, "`pix_fmt` must be a name of letters"),
    ({"pix_fmt": "rgb24'"}, ValueError, "`pix_fmt` must be a name of letters"),
    ({"pix_fmt": ""}, ValueError, "`pix_fmt` must be a name of letters"),
    ({"pix_fmt": 3}, TypeError, "`pix_fmt` must be a str"),
    ({"filter_desc": b"hflip"}, TypeError, "`filter_desc` must be a str"),
    ({"filter_desc": "hflip\0"}, ValueError, "`filter_desc` must be a str without null characters"),
]

_AUDIO: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"sample_rate": 0}, ValueError, "`sample_rate` must be an int from 1"),
    ({"sample_rate": 16000.0}, TypeError, "`sample_rate` must be an int"),
    ({"sample_rate": "16000,volume=9"}, TypeError, "`sample_rate` must be an int"),
    ({"num_channels": -1}, ValueError, "`num_channels` must be an int from 1"),
    ({"num_frames": float("nan")}, TypeError, "`num_frames` must be an int"),
    ({"timestamp": (float("nan"), 1)}, ValueError, r"`timestamp\[0\]` must be a number of seconds"),
    ({"timestamp": (1, 1)}, ValueError, "`timestamp` must be a window that starts before it ends"),
    ({"sample_fmt": "s16'"}, ValueError, "`sample_fmt` must be a name of letters"),
    ({"sample_fmt": "s16:volume"}, ValueError, "`sample_fmt` must be a name of letters"),
]


@pytest.mark.parametrize(("keywords", "error", "told"), _VIDEO, ids=str)
def test_what_no_filter_for_pictures_takes(keywords: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        get_video_filter_desc(**keywords)


@pytest.mark.parametrize(("keywords", "error", "told"), _AUDIO, ids=str)
def test_what_no_filter_for_sound_takes(keywords: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        get_audio_filter_desc(**keywords)


def test_names_of_inputs(clip: Callable[[str], Path]) -> None:
    video, audio = demux_video(clip("h264.mp4")).codec, demux_audio(clip("s16.wav")).codec
    for label in ("a b", "a'", "a]", ""):
        with pytest.raises(ValueError, match="`label` must be a name"):
            get_buffer_desc(video, label)
        with pytest.raises(ValueError, match="`label` must be a name"):
            get_abuffer_desc(audio, label=label)
    with pytest.raises(ValueError, match="`pix_fmt` must be a name"):
        get_buffer_desc(video, pix_fmt="rgb24:x=1")
    with pytest.raises(ValueError, match="`sample_fmt` must be a name"):
        get_abuffer_desc(audio, sample_fmt="s16:x=1")


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"frame_rate": Fraction(30000, 1001)}, "fps=30000/1001"),
        ({"frame_rate": 25}, "fps=25/1"),
        ({"timestamp": (1e-5, 1e20)}, "trim=start=0.000010:end=100000000000000000000.000000"),
        ({"timestamp": (np.float64(0.5), np.float32(0.75))}, "trim=start=0.5:end=0.75"),
        ({"timestamp": (Fraction(1, 4), 2)}, "trim=start=0.25:end=2"),
        ({"scale_width": -2, "scale_height": 32, "scale_mode": None}, "scale=w=-2:h=32:flags=bicubic"),
        (
            {"scale_width": 8, "scale_mode": None, "scale_algo": "area+accurate_rnd"},
            "scale=w=8:h=0:flags=area+accurate_rnd",
        ),
        ({"filter_desc": ""}, None),
        ({"num_frames": 2, "pad_mode": "#ff8000"}, "tpad=stop=-1:stop_mode=add:color=#ff8000,trim=end_frame=2"),
    ],
)
def test_what_is_accepted_runs(clip: Callable[[str], Path], keywords: dict[str, Any], expected: str | None) -> None:
    desc = get_video_filter_desc(**keywords, pix_fmt=None)
    assert desc == expected
    if desc is not None and "1000000000" not in desc:
        assert load_video(clip("h264.mp4"), filter_desc=f"{desc},format=rgb24").shape[0] > 0


def test_endless_arguments_are_refused_before_they_are_listed(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    with pytest.raises(ValueError, match="`mean` must be a number for each of the 3 channels"):
        VideoReader(path, dtype="float32", mean=_HUGE)
    with pytest.raises(ValueError, match="`std` must be"):
        load_image_batch([path], width=8, height=8, dtype="float32", std=range(1, 10**13))
    endless: tuple[Any, ...] = (_HUGE, itertools.count(), itertools.repeat(1.5))
    for srcs in endless:
        with pytest.raises(TypeError, match=r"`srcs\[0\]` must be a path"):
            load_image_batch(srcs, width=8, height=8)
        with pytest.raises(TypeError, match=r"`srcs\[0\]` must be a path"):
            load_video_batch(srcs, num_frames=1, width=8, height=8)
        with pytest.raises(TypeError, match=r"`srcs\[0\]` must be a path"):
            load_audio_batch(srcs, sample_rate=None)
        with pytest.raises(TypeError, match=r"`frames\[0\]` must be frames"):
            convert_frames(srcs)
    windows: Any = itertools.repeat((0, 1))
    with pytest.raises((TypeError, ValueError), match="`timestamps"):
        load_video_batch([path], num_frames=1, width=8, height=8, timestamps=windows)
    with Demuxer(path) as demuxer:
        for indices in (_HUGE, itertools.count()):
            with pytest.raises(RuntimeError, match="there is no stream 1"):
                next(demuxer.streaming_demux(indices, num_packets=1))
        with pytest.raises(ValueError, match="at most 100000 streams"):
            demuxer.streaming_demux(itertools.repeat(0), num_packets=1)
    reader = VideoReader(path)
    for wanted in (_HUGE, itertools.count()):
        with pytest.raises(IndexError):
            reader.read_frames(wanted)
        with pytest.raises(IndexError):
            reader.decode(wanted)
        with pytest.raises(ValueError, match="`seconds` must be from"):
            reader.read_at(wanted)


def test_memory_that_there_is_not(clip: Callable[[str], Path]) -> None:
    with pytest.raises(
        RuntimeError, match=r"does not fit this machine's memory of \d+ bytes: ask for fewer or smaller o"
    ):
        load_video_batch([clip("h264.mp4")], num_frames=2**30, width=4096, height=4096)
    assert AudioReader(clip("s16.wav")).num_samples == len(oracle.samples(clip("s16.wav")))


def _streaming(codec: Any, packets: Any) -> Any:
    return list(Decoder(codec).streaming_decode_packets(packets))


def _filtering(codec: Any, packets: Any) -> Any:
    return BSF(codec, "null").filter(packets)


@pytest.mark.parametrize("work", [_streaming, _filtering])
@pytest.mark.parametrize("medium", ["audio", "video"])
def test_what_is_no_packets_of_the_medium_is_named(clip: Callable[[str], Path], work: Any, medium: str) -> None:
    path = clip("both.mp4")
    made: dict[str, Any] = {"audio": demux_audio(path), "video": demux_video(path)}
    taken, name = made.pop(medium), medium.capitalize()
    (other,) = made.values()
    image = demux_image(png(np.zeros((3, 4, 3), np.uint8), 8, 2))
    codec = taken.codec
    for wrong in (other, image, None, 3, [taken]):
        with pytest.raises(TypeError) as raised:
            work(codec, wrong)
        assert f"`packets` must be {name}Packets, as `demux_{medium}` returns, got" in str(raised.value)
        assert "nanobind" not in str(raised.value)
        assert (type(wrong).__name__ if wrong in (other, image) else repr(wrong)[:5]) in str(raised.value)
    assert len(work(codec, taken)) > 0

"""A window of a video is that part of the whole, whichever way it is read: of clips that hypothesis draws."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.io.av import oracle
from tests.io.av.drawn_clips import DrawnClip, Part, drawn_clips
from tests.io.av.sources import read_number
from tests.io.av.video_windows import WholeVideo

if TYPE_CHECKING:
    from collections.abc import Iterable

# The most seconds by which a frame is decoded before it is shown.
_REORDERED = 0.41

# A clip that fails is told as it is, since making smaller ones takes long.
_SETTINGS = settings(phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow])


def _numbers(pictures: Iterable[Any]) -> list[int]:
    return [read_number(it) for it in pictures]


def _check_times(clip: DrawnClip, whole: WholeVideo) -> None:
    """Hold the times of frames against those of the parts, each of which follows the one before.

    Nothing tells a part whose clock is ahead from the same recording behind a gap.
    """
    steps = [1 / part.rate for part in clip.parts]
    parts = clip.times() or []
    if any(abs(b[0] - a[-1]) < _REORDERED for a, b in itertools.pairwise(parts)):
        return  # One may be decoded before the one before it is shown, or say the same time.
    first, before = 0, float("-inf")
    for own in parts:
        times = whole.times[first : first + len(own)]
        ahead = own[0] - before
        if first and ahead < 0:
            # Encoders of HEVC may say a frame too early when they are decoded.
            assert min(steps) - 2e-3 <= times[0] - whole.times[first - 1] <= 2 * max(steps) + 2e-3
        else:
            start = whole.times[first - 1] + ahead if first else own[0]
            assert times[0] == pytest.approx(start, abs=2e-3)
        assert [time - times[0] for time in times] == pytest.approx([time - own[0] for time in own], abs=2e-3)
        first, before = first + len(own), own[-1]


def _check(clip: DrawnClip, seed: int, num_windows: int) -> None:
    rng = random.Random(seed)
    with TemporaryDirectory() as name:
        whole = WholeVideo(clip.make(Path(name)))
        numbers = _numbers(whole.pictures)
        if not clip.lost and not clip.cut:
            assert numbers == _numbers(oracle.pictures(whole.path))
        if (shown := clip.numbers()) is not None:
            assert numbers == shown[-len(numbers) :]
        _check_times(clip, whole)
        whole.check_reader()
        # Packets of MPEG-PS may say wrong times, and those of several parts the same, which shows when all are read.
        alone = len(clip.parts) == 1 or whole.reader.index.timed
        timed = alone and not clip.copied and clip.container not in ("mpg", "vob")
        whole.check_pieces(rng.choice([1, 3, 8]), timed=timed)
        whole.check_windows(rng, num_windows)


def _clip(codec: str, container: str, *parts: Part, copied: str = "", lost: int = 0) -> DrawnClip:
    return DrawnClip(codec, container, parts, copied=copied, lost=lost)


def _part(count: int, b_frames: int, gop: int, dropped: tuple[int, int], late: float = 0, *, rate: int = 25) -> Part:
    return Part(count, b_frames, gop, open_gop=True, dropped=dropped, late=late, rate=rate)


# What was read wrongly once.
_KNOWN = {
    "ahead": _clip("h264", "ts", _part(36, 3, 3, (24, 3)), _part(39, 3, 12, (28, 1), 3.04)),
    # FFmpeg takes it for one of 50 pictures per second until it has read on.
    "rates": _clip("h264", "mpg", _part(27, 0, 12, (19, 0), rate=50), _part(33, 3, 12, (23, 3))),
    "nobody says when the last frames are shown": _clip("h264", "mpg", _part(28, 3, 100, (22, 3))),
    # The last frame of the first waits for one behind a gap.
    "waits": _clip("mpeg2", "vob", _part(26, 2, 100, (17, 7)), _part(29, 0, 3, (10, 1), rate=10)),
    "two of one time": _clip("mpeg1", "mpg", _part(25, 0, 3, (16, 0)), copied="mp4", lost=1),
    "no key frame": _clip("mpeg4", "avi", _part(26, 1, 12, (6, 3)), copied="mp4", lost=5),
    "no key frame, it says": _clip("mpeg2", "avi", _part(36, 3, 8, (15, 1)), copied="mov", lost=5),
    # The times of decoding stand for those of showing in the beginning only.
    "decoding": _clip("mpeg2", "mpg", _part(24, 3, 3, (3, 1)), copied="mp4", lost=1),
    "decoding, no key frame": _clip("mpeg1", "mpg", _part(29, 1, 3, (20, 0)), copied="mov", lost=2),
}


@pytest.mark.parametrize("name", _KNOWN)
def test_known_clips(name: str) -> None:
    _check(_KNOWN[name], seed=2, num_windows=12)


@settings(_SETTINGS, max_examples=8)
@given(clip=drawn_clips())
def test_windows_of_drawn_clips(clip: DrawnClip) -> None:
    _check(clip, seed=0, num_windows=8)


@pytest.mark.long
@pytest.mark.timeout(7200)
@settings(_SETTINGS, max_examples=200)
@given(clip=drawn_clips())
def test_many_windows_of_many_drawn_clips(clip: DrawnClip) -> None:
    _check(clip, seed=1, num_windows=250)

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
from tests.io.av.drawn_clips import DrawnClip, drawn_clips
from tests.io.av.sources import read_number
from tests.io.av.video_windows import WholeVideo

if TYPE_CHECKING:
    from collections.abc import Iterable

# A clip that fails is told as it is, since making smaller ones takes long.
_SETTINGS = settings(phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow])


def _numbers(pictures: Iterable[Any]) -> list[int]:
    return [read_number(it) for it in pictures]


def _check(clip: DrawnClip, seed: int, num_windows: int) -> None:
    rng = random.Random(seed)
    with TemporaryDirectory() as name:
        whole = WholeVideo(clip.make(Path(name)))
        numbers = _numbers(whole.pictures)
        if not clip.lost:
            if not clip.cut:
                assert numbers == _numbers(oracle.pictures(whole.path))
            assert numbers == clip.numbers()[-len(numbers) :]
        if (times := clip.times()) is not None:
            assert whole.times == pytest.approx(times, abs=2e-3)
        whole.check_reader()
        shown = [it.pts for it in oracle.packets(whole.path)]
        if all(a is None or a != b for a, b in itertools.pairwise(shown)):
            # FFmpeg's demuxer of MPEG-PS may repeat a time, which shows behind the piece only.
            whole.check_pieces(rng.choice([1, 3, 8]), timed=not clip.copied)
        whole.check_windows(rng, num_windows)


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

"""The tests' clips are what they are said to be, and so are the oracle's answers about them."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.io.av import oracle
from tests.io.av.media import CLIPS, clip
from tests.io.av.odd_clips import SYNC_PERIOD_SECONDS, SYNC_PICTURES, SYNC_SOUND
from tests.io.av.real_media import CLIPS as REAL_CLIPS
from tests.io.av.real_media import real_clip
from tests.io.av.sources import Pictures, Sound, read_number
from tests.io.av.video_clips import irregular_times

if TYPE_CHECKING:
    from pathlib import Path

WITH_PICTURES = [name for name, it in CLIPS.items() if it.pictures and it.whole]
WITH_SOUND = [name for name, it in CLIPS.items() if it.sound and not it.pictures]
EXACT_PICTURES = [name for name, it in CLIPS.items() if it.pictures and it.lossless]
EXACT_SOUND = [name for name, it in CLIPS.items() if it.sound and it.lossless]


@pytest.mark.parametrize("pix_fmt", ["gray", "yuv420p", "gbrp"])
def test_a_picture_carries_its_number(pix_fmt: str) -> None:
    shown = Pictures(97, 65, 256, pix_fmt)
    assert [read_number(shown.planes(index)[0]) for index in range(255)] == list(range(255))


@pytest.mark.parametrize("name", WITH_PICTURES)
def test_each_picture_is_there_once_in_order(name: str) -> None:
    shown = CLIPS[name].pictures
    assert shown
    found = oracle.pictures(clip(name))
    assert found.shape == (shown.count, shown.height, shown.width, 3)
    assert [read_number(it) for it in found] == list(range(shown.count))


@pytest.mark.parametrize("name", EXACT_PICTURES)
def test_a_lossless_clip_has_the_pictures_that_were_encoded(name: str) -> None:
    shown = CLIPS[name].pictures
    assert shown
    assert oracle.pictures(clip(name), pix_fmt="").tobytes() == shown.raw()


@pytest.mark.parametrize("name", WITH_SOUND)
def test_a_sound_lasts_as_long_as_it_should(name: str) -> None:
    sound = CLIPS[name].sound
    assert sound
    found = oracle.samples(clip(name))
    assert found.shape[1] == sound.channels
    # Raw streams have no place to say how much of the first and the last frame is padding. Some versions of the command
    # leave the padding at the end of AAC there.
    bare = name.endswith((".aac", ".mp2", ".ac3", "bare.mp3", "adpcm.wav"))
    longest = 3 * 1152 if bare else 1024 if "aac" in name else 64 if "vorbis" in name else 0
    assert 0 <= found.shape[0] - sound.count <= longest


@pytest.mark.parametrize("name", EXACT_SOUND)
def test_a_lossless_clip_has_the_samples_that_were_encoded(name: str) -> None:
    it = CLIPS[name]
    assert it.sound
    assert np.array_equal(oracle.samples(clip(name), it.dtype), it.sound.as_dtype(it.dtype))


def test_times_of_irregular_pictures() -> None:
    for name in ("irregular.mp4", "irregular.mkv"):
        times = oracle.frame_times(clip(name))
        expected = irregular_times()
        assert [round(float(it or 0) - float(expected[0]), 3) for it in times] == [float(it) for it in expected]


def test_packets_come_in_another_order_than_pictures_are_shown() -> None:
    packets = oracle.packets(clip("h264.mp4"))
    times = [it.pts for it in packets if it.pts is not None]
    assert len(times) == 50
    assert times != sorted(times)
    assert sorted(times) == [Fraction(index, 25) for index in range(50)]
    assert packets[0].key
    assert sum(it.key for it in packets) >= 5


def test_streams_without_times_and_with_strange_ones() -> None:
    assert all(it.pts is None for it in oracle.packets(clip("elementary.h264")))
    assert (oracle.frame_times(clip("offset.ts"))[0] or 0) >= 4000
    edited = oracle.packets(clip("edit_list.mp4"))
    assert min(it.pts for it in edited if it.pts is not None) < 0


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotated_clips_say_so(degrees: int) -> None:
    (stream,) = oracle.streams(clip(f"rotated_{degrees}.mp4"))
    (side_data,) = [it for it in stream["side_data_list"] if "rotation" in it]
    assert side_data["rotation"] % 360 == degrees


@pytest.mark.parametrize(
    ("name", "space", "color_range"),
    [("bt601", "smpte170m", "tv"), ("bt601_full", "smpte170m", "pc"), ("bt709", "bt709", "tv"),
     ("bt709_full", "bt709", "pc"), ("bt2020", "bt2020nc", "tv")],
)  # fmt: skip
def test_clips_name_their_colors(name: str, space: str, color_range: str) -> None:
    (stream,) = oracle.streams(clip(f"{name}.mp4"))
    assert (stream["color_space"], stream["color_range"]) == (space, color_range)


@pytest.mark.parametrize("suffix", ["mkv", "mp4", "ts"])
def test_flashes_and_beeps_come_together(suffix: str) -> None:
    path = clip(f"sync.{suffix}")
    bright = oracle.pictures(path, pix_fmt="gray").mean(axis=(1, 2)) > 120
    loud = np.abs(oracle.samples(path)[:, 0]) > 0.05
    rate = float(Fraction(SYNC_PICTURES.rate))
    flashes = [(index + 1) / rate for index, (a, b) in enumerate(pairwise(bright)) if b and not a]
    assert np.diff(flashes) == pytest.approx(SYNC_PERIOD_SECONDS)
    for start in flashes:
        before = loud[int((start - 0.2) * SYNC_SOUND.rate) : int((start - 0.05) * SYNC_SOUND.rate)]
        after = loud[int((start + 0.03) * SYNC_SOUND.rate) : int((start + 0.08) * SYNC_SOUND.rate)]
        assert before.mean() < 0.05
        assert after.mean() > 0.5


def test_streams_change_midway() -> None:
    # The command scales all pictures to the size of the first one.
    numbers = [read_number(it) for it in oracle.pictures(clip("resolution_change.ts"))]
    assert numbers == list(range(50))
    kinds = [(it["codec_type"], it.get("channels")) for it in oracle.streams(clip("two_sounds.mkv"))]
    assert kinds == [("video", None), ("audio", 2), ("audio", 1)]
    assert "video" in {it["codec_type"] for it in oracle.streams(clip("cover.mp3"))}


@pytest.mark.parametrize("name", ["cut.ts", "damaged.ts", "damaged.mkv"])
def test_broken_clips_are_broken(name: str) -> None:
    assert oracle.errors(clip(name))


def test_a_cut_clip_cannot_be_opened() -> None:
    with pytest.raises(Exception, match="moov"):
        oracle.streams(clip("cut.mp4"))


@pytest.mark.timeout(300)  # It may have to fetch 30 MB.
@pytest.mark.parametrize("name", REAL_CLIPS)
def test_a_real_clip_can_be_read(name: str) -> None:
    kinds = {it["codec_type"] for it in oracle.streams(real_clip(name))}
    assert kinds & {"video", "audio"}


def test_sounds_of_another_rate_and_another_number_of_channels(tmp_path: Path) -> None:
    assert oracle.samples(clip("s16.wav"), rate=16000, channels=1).shape == (32000, 1)
    assert Sound().as_dtype("f4").dtype == np.float32


def test_pyav_agrees_with_the_command() -> None:
    found = oracle.pyav_pictures(clip("h264_lossless.mp4"), [3, 20])
    assert np.array_equal(np.stack(found)[:, None], Pictures().packed()[[3, 20]])
    between = oracle.pyav_picture_at(clip("h264_lossless.mp4"), 0.81)
    assert np.array_equal(between, found[1])

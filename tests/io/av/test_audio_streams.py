"""Files with more in them than one even sound: pictures, several sounds, and sounds that change on the way."""

from __future__ import annotations

import wave
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import audio, copied
from tests.io.av.ffmpeg import run_ffmpeg
from tests.io.av.long_sounds import long_sound
from tests.io.av.sources import Sound

from spdl.io import AudioReader, Demuxer, get_audio_filter_desc, load_audio, to_numpy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["mp3.mp3", "aac.m4a", "flac.flac"])
def test_a_cover_picture_disturbs_nothing(name: str, tmp_path: Path) -> None:
    bare, covered, picture = tmp_path / name, tmp_path / f"covered_{name}", tmp_path / "cover.png"
    bare.write_bytes(long_sound(name))
    run_ffmpeg("-f", "lavfi", "-i", "color=red:s=64x64", "-frames:v", 1, picture)
    run_ffmpeg(
        "-i", bare, "-i", picture, "-map", "0:a", "-map", "1:v", "-c:a", "copy", "-c:v", "png",
        "-disposition:v:0", "attached_pic", covered,
    )  # fmt: skip
    assert len(oracle.streams(covered)) == 2
    expected = to_numpy(load_audio(bare))
    assert np.array_equal(to_numpy(load_audio(covered)), expected)
    reader = AudioReader(covered)
    assert reader.num_samples == expected.shape[1]
    assert np.array_equal(to_numpy(reader.read_samples(150_001, 150_101)), expected[:, 150_001:150_101])


def test_of_two_sounds_the_main_one_is_read(tmp_path: Path) -> None:
    first, second, path = tmp_path / "first.wav", tmp_path / "second.wav", tmp_path / "both.mkv"
    audio("pcm_s16le", sound=Sound(48000, 2, 2.0), lossless=True).make(first)
    audio("pcm_s16le", sound=Sound(48000, 2, 2.0, 1000), lossless=True).make(second)
    run_ffmpeg(
        "-i", first, "-i", second, "-map", 0, "-map", 1, "-c", "copy",
        "-disposition:a:0", 0, "-disposition:a:1", "default", path,
    )  # fmt: skip
    assert np.array_equal(to_numpy(load_audio(path)), to_numpy(load_audio(second)))


def test_times_before_zero_and_far_after_it(tmp_path: Path) -> None:
    source = tmp_path / "source.wav"
    source.write_bytes(long_sound("s16.wav"))
    expected = to_numpy(load_audio(source))
    late = tmp_path / "late.mkv"
    copied(late, source, before=("-itsoffset", 1000.5))
    reader = AudioReader(late)
    assert reader.start_time == 1000.5
    assert np.array_equal(to_numpy(reader.read_samples(99_999, 123_456)), expected[:, 99_999:123_456])
    assert np.array_equal(to_numpy(load_audio(late, timestamp=(1001.5, Fraction(10025, 10)))), expected[:, 44100:88200])


def test_a_sound_whose_rate_changes(tmp_path: Path) -> None:
    slow, fast = tmp_path / "slow.ogg", tmp_path / "fast.ogg"
    audio("libvorbis", sound=Sound(22050, 1, 1.0)).make(slow)
    audio("libvorbis", sound=Sound(44100, 1, 1.0)).make(fast)
    chained = slow.read_bytes() + fast.read_bytes()
    with pytest.raises(RuntimeError, match="the first is 1 channels of fltp at 22050 Hz, but a later one is"):
        load_audio(chained)
    resampled = to_numpy(load_audio(chained, filter_desc=get_audio_filter_desc(sample_rate=16000)))
    assert abs(resampled.shape[1] - 32000) < 100


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_coded_sound_in_a_wav_file_of_samples_is_decoded(byte_order: str, tmp_path: Path) -> None:
    # As discs of DTS hold it: the header promises samples of 16 bits.
    coded, path = tmp_path / "sound.dts", tmp_path / "disc.wav"
    run_ffmpeg("-f", "lavfi", "-i", "sine=440:r=44100:d=1", "-ac", 2, "-c:a", "dca", "-strict", -2, "-f", "dts", coded)
    try:
        Demuxer(coded).close()
    except RuntimeError:
        pytest.skip("FFmpeg has no demuxer of DTS, so it takes the blocks for samples")
    blocks = coded.read_bytes()
    if byte_order == "little":
        blocks = np.frombuffer(blocks, ">u2").astype("<u2").tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(blocks)
    assert oracle.streams(path)[0]["codec_name"] == "dts"
    with Demuxer(path) as demuxer:
        assert demuxer.audio_codec.name.startswith(("dts", "dca"))
    # Not a hiss of full volume.
    assert np.abs(to_numpy(load_audio(path, filter_desc=get_audio_filter_desc(sample_fmt="fltp")))).max() < 0.5


def test_samples_with_the_code_word_of_dts_are_samples(tmp_path: Path) -> None:
    path = tmp_path / "noise.wav"
    samples = np.random.default_rng(1).integers(-3000, 3000, 44_100, dtype="<i2")
    samples[500:502] = np.frombuffer(b"\xfe\x7f\x01\x80", "<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(samples.tobytes())
    assert np.array_equal(to_numpy(load_audio(path, filter_desc=None)).ravel(), samples)

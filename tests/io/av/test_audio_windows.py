"""Sound is what the ffmpeg command makes of it, and a window is the part of the whole, whatever the codec and file."""

from __future__ import annotations

import functools
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import audio
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.long_sounds import LONG_SOUNDS, long_sound, tolerance
from tests.io.av.sources import Sound

from spdl.io import (
    AudioReader,
    Decoder,
    Demuxer,
    convert_frames,
    decode_config,
    decode_packets,
    demux_audio,
    get_audio_filter_desc,
    load_audio,
    to_numpy,
)

if TYPE_CHECKING:
    from pathlib import Path

Samples = npt.NDArray[np.float32]

WINDOWS = 12


@functools.cache
def whole(name: str) -> Samples:
    return to_numpy(load_audio(long_sound(name)))


def windows(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Return random windows of a sound, among them single samples, its beginning and its end."""
    draw = random.Random(seed)
    drawn = [tuple(sorted(draw.sample(range(count + 1), 2))) for _ in range(WINDOWS)]
    short = [(at, at + draw.randrange(1, 3000)) for at in (draw.randrange(count - 3000) for _ in range(WINDOWS))]
    return [(0, 1), (count - 1, count), (0, count), (1, 700), (count - 2000, count), *drawn, *short]  # type: ignore[list-item]


@pytest.mark.parametrize("name", LONG_SOUNDS)
def test_the_whole_is_what_the_command_decodes(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(long_sound(name))
    expected = oracle.samples(path).T
    assert whole(name).shape == expected.shape
    # Another version of FFmpeg may have made the command.
    np.testing.assert_allclose(whole(name), expected, rtol=0, atol=0 if LONG_SOUNDS[name].lossless else 2e-4)


@pytest.mark.parametrize("name", LONG_SOUNDS)
def test_a_window_is_the_part_of_the_whole(name: str) -> None:
    data, sound = long_sound(name), LONG_SOUNDS[name].sound
    assert sound
    # In samples: most files begin at 0, but not MP3 with a header, nor MPEG-TS.
    first = round(decode_packets(demux_audio(data)).get_timestamps()[0] * sound.rate)
    with Demuxer(data) as demuxer:  # Also after seeks of all kinds.
        for start, stop in windows(whole(name).shape[1]):
            moments = Fraction(first + start, sound.rate), Fraction(first + stop, sound.rate)
            found = to_numpy(convert_frames(decode_packets(demuxer.demux_audio(moments))))
            expected = whole(name)[:, start:stop]
            assert found.shape == expected.shape, (start, stop)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(name), err_msg=f"{start} to {stop}")


@pytest.mark.parametrize("name", ["s16.wav", "aac.m4a", "mp3.mp3", "opus.webm", "vorbis.ogg"])
def test_a_decoder_that_gets_packets_piece_by_piece_gives_the_whole(name: str) -> None:
    with Demuxer(long_sound(name)) as demuxer:
        decoder = Decoder(demuxer.audio_codec)
        pieces = [
            piece
            for packets in demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=7)
            for piece in decoder.streaming_decode_packets(packets)  # type: ignore[arg-type]
        ]
        pieces += decoder.flush()
    found = np.concatenate([to_numpy(convert_frames(piece)) for piece in pieces], axis=1)
    assert np.array_equal(found, whole(name))


def test_a_window_that_is_resampled_is_resampled_in_one_piece() -> None:
    data = long_sound("s16.wav")
    desc = get_audio_filter_desc(sample_rate=16000, num_channels=1)
    # The last frame is cut. Filters that began anew with it would end the sound before it.
    start, stop = Fraction(44100, 44100), Fraction(2 * 44100 + 300, 44100)
    found = to_numpy(load_audio(data, timestamp=(start, stop), filter_desc=desc))
    everything = to_numpy(load_audio(data, filter_desc=desc))
    margin = 100  # Samples that the resampler makes of what is outside.
    np.testing.assert_allclose(
        found[:, margin : 16000 - margin], everything[:, 16000 + margin : 32000 - margin], rtol=0, atol=1e-6
    )
    assert found.shape[1] == -(-(44100 + 300) * 16000 // 44100)


def test_pages_of_vorbis_whose_blocks_have_two_sizes(tmp_path: Path) -> None:
    # Silence and clicks in turn. After a seek, FFmpeg cannot tell where the first page begins.
    draw = np.random.default_rng(5)
    noise = draw.standard_normal((44100 * 8, 1)) * (np.arange(44100 * 8) % 5003 < 400)[:, None]
    path, raw = tmp_path / "clicks.ogg", tmp_path / "clicks.raw"
    raw.write_bytes((noise * 6000).astype("<i2").tobytes())
    encoder = need_encoder("libvorbis")
    run_ffmpeg("-f", "s16le", "-ar", 44100, "-ac", 1, "-i", raw, "-c:a", encoder, "-page_duration", 200_000, path)
    expected = to_numpy(load_audio(path))
    for start, stop in windows(expected.shape[1], seed=9):
        found = to_numpy(load_audio(path, timestamp=(Fraction(start, 44100), Fraction(stop, 44100))))
        assert np.array_equal(found, expected[:, start:stop]), (start, stop)


def test_a_window_of_mpeg_sound_that_a_seek_cuts(tmp_path: Path) -> None:
    wav, path = tmp_path / "sound.wav", tmp_path / "sound.mpg"
    wav.write_bytes(long_sound("s16.wav"))
    run_ffmpeg("-i", wav, "-c:a", need_encoder("mp2"), "-b:a", "192k", path)
    expected = to_numpy(load_audio(path))
    reader = AudioReader(path)
    assert reader.num_samples == expected.shape[1]
    for start, stop in windows(expected.shape[1], seed=3):
        found = to_numpy(reader.read_samples(start, stop))
        np.testing.assert_allclose(found, expected[:, start:stop], rtol=0, atol=2**-14, err_msg=f"{start} to {stop}")


@pytest.mark.parametrize("suffix", ["mkv", "mpg", "ts", "mp2"])
def test_the_float_decoder_of_mp2_gives_exact_windows(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"sound.{suffix}"
    audio("mp2", sound=Sound(48000, 2, 3.0)).make(path)
    exact = decode_config(decoder="mp2float")
    with AudioReader(path, decode_config=exact) as reader, AudioReader(path) as other:
        expected, rounded = to_numpy(reader.read()), to_numpy(other.read())
        for start, stop in windows(reader.num_samples)[:8]:
            assert np.array_equal(to_numpy(reader.read_samples(start, stop)), expected[:, start:stop])
            found = to_numpy(other.read_samples(start, stop))
            np.testing.assert_allclose(found, rounded[:, start:stop], rtol=0, atol=2**-14)

"""Channels are mixed with one gain, whatever the type of the samples, the rate, the codec and the function.

It is the gain of the ffmpeg command for 16-bit samples. For floats, that command has another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.media import clip
from tests.io.av.sources import Sound
from tests.io.pairs import pairs

from spdl.io import (
    AudioReader,
    FilterGraph,
    convert_frames,
    decode_packets,
    demux_audio,
    get_abuffer_desc,
    get_audio_filter_desc,
    load_audio,
    load_audio_batch,
    to_numpy,
)

NAMES = [
    "cd.wav",
    "u8.wav",
    "s16.mkv",
    "s24.wav",
    "f32.wav",
    "f64.wav",
    "flac.flac",
    "mp3.mp3",
    "aac.m4a",
    "surround.wav",
]
# Rounding to 16 bits before the mix, between it and the resampling, and afterwards.
_STEPS = 5 / 32768


def mixed(name: str, rate: int | None, channels: int) -> dict[str, Any]:
    """Return the sound as each function mixes it."""
    path = clip(name)
    desc = get_audio_filter_desc(sample_rate=rate, num_channels=channels)
    whole = to_numpy(AudioReader(path, sample_rate=rate, num_channels=channels, dtype="int16").read())
    return {
        "reader": to_numpy(AudioReader(path, sample_rate=rate, num_channels=channels).read()),
        "reader of integers": whole / 32768,
        "batch": to_numpy(load_audio_batch([path], sample_rate=rate, num_channels=channels).samples)[0],
        "load_audio": to_numpy(load_audio(path, filter_desc=desc)),
    }


@pytest.mark.parametrize(("name", "rate", "channels"), pairs(NAMES, [None, 32000], [1, 2]))
def test_every_function_mixes_as_the_command_mixes_integers(name: str, rate: int | None, channels: int) -> None:
    expected = oracle.samples(clip(name), "i2", rate=rate, channels=channels).T / 32768
    # Coarse steps, and another version of a decoder.
    close = {"u8.wav": 1 / 64, "mp3.mp3": 1e-3, "aac.m4a": 1e-3}.get(name, _STEPS)
    for function, found in mixed(name, rate, channels).items():
        assert found.shape == expected.shape, function
        assert np.abs(expected).max() > 0.2
        assert np.abs(found - expected).max() <= close, function


@pytest.mark.parametrize("name", ["cd.wav", "f32.wav", "flac.flac"])
def test_two_channels_become_their_mean(name: str) -> None:
    expected = oracle.samples(clip(name), "f8").mean(axis=1)
    found = to_numpy(AudioReader(clip(name), num_channels=1).read())[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_no_mix_is_beyond_full_scale(dtype: str, tmp_path: Any) -> None:
    # All channels are in phase, and as loud as can be.
    loud = np.ones((4800, 6)) * np.sign(np.sin(np.arange(4800) / 20))[:, None]

    class Loud(Sound):
        def as_dtype(self, dtype: str) -> Any:
            return (loud * 32767).astype("i2") if dtype == "i2" else loud.astype("f4")

    path = tmp_path / "loud.wav"
    encode(path, ["-c:a", {"i2": "pcm_s16le", "f4": "pcm_f32le"}[dtype]], sounds=[Loud(48000, 6)], dtype=dtype)
    for channels in (1, 2, 4):
        found = to_numpy(load_audio_batch([path], sample_rate=None, num_channels=channels).samples)
        assert 0.99 < np.abs(found).max() <= 1 + 1e-6


def test_descriptions_of_ones_own() -> None:
    path = clip("f32.wav")
    expected = to_numpy(AudioReader(path, num_channels=1).read())
    own = "aformat=channel_layouts=mono:sample_fmts=fltp"
    assert np.array_equal(to_numpy(load_audio(path, filter_desc=own)), expected)
    frames = decode_packets(demux_audio(path), None)
    graph = FilterGraph(f"{get_abuffer_desc(frames)},{own},abuffersink")
    graph.add_frames(frames)
    graph.flush()
    found = graph.get_frames()
    assert found is not None
    assert np.array_equal(to_numpy(convert_frames(found)), expected)

"""Broken, cut and lying sound files are errors that say what is wrong, before they cost memory."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
from tests.io.av.long_sounds import long_sound

from spdl.io import AudioReader, demux_config, load_audio, load_audio_batch, to_numpy

PARTIAL = demux_config(format_options={"err_detect": "ignore_err"})


def plain_wav(count: int = 8000) -> bytearray:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 8000, 0, "NONE", ""))
        out.writeframes((np.arange(count) % 100 * 300).astype("<i2").tobytes())
    return bytearray(file.getvalue())


def changed(offset: int, layout: str, value: int) -> bytes:
    data = plain_wav()
    struct.pack_into(layout, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes: cannot read the file: there are no bytes in it"),
        (b"some text\n" * 100, "1000 bytes: cannot read the file: Invalid data"),
        (
            changed(22, "<H", 65535),
            r"cannot decode the audio stream 0 \(pcm_s16le\).*Too many channels: 65535|there is no audio stream",
        ),
        (changed(22, "<H", 0), "there is no audio stream in it|channel"),
        (changed(24, "<I", 4_000_000_000), "Invalid sample rate"),
        (changed(24, "<I", 0), "Invalid sample rate: 0"),
        (b"RIFF\0\0\0\0WAVE" + long_sound.__doc__.encode(), "cannot read the file"),  # type: ignore[union-attr]
    ],
    ids=["empty", "text", "65535 channels", "no channels", "4 GHz", "0 Hz", "no format"],
)
def test_what_no_sound_can_be(data: bytes, reason: str) -> None:
    with pytest.raises(RuntimeError, match=reason):
        load_audio(data)
    with pytest.raises(RuntimeError, match=reason):
        AudioReader(data).read_samples(0, 10)


def test_a_size_that_stands_for_none() -> None:
    for size in (0xFFFFFFFF, 0xFFFFFFF0, 0x7FFFFFFF, 0x7FFFF000):
        assert load_audio(changed(40, "<I", size)).shape == (1, 8000)


@pytest.mark.parametrize("name", ["s16.wav", "f64.wav", "flac.flac"])
def test_a_file_that_ends_before_its_header_says(name: str) -> None:
    data = long_sound(name)
    if name == "flac.flac":
        # Cut between two frames: only the header can tell.
        cut = data[: data.rindex(b"\xff\xf8", 0, len(data) // 2)]
    else:
        cut = data[: data.index(b"data") + 8 + len(data) * 5 // 12 // 16 * 16]  # Within no sample.
    message = r"bytes: the file ends after 1\d{5} samples of sound, but its header says 264600: it is cut off" + (
        "|cannot decode" if name == "flac.flac" else ""
    )
    with pytest.raises(RuntimeError, match=message):
        load_audio(cut)
    with pytest.raises(RuntimeError, match=message):
        load_audio_batch([cut], sample_rate=None)
    # Before the end all is well.
    expected = to_numpy(load_audio(data))[:, :44100]
    assert np.array_equal(to_numpy(load_audio(cut, timestamp=(0, 1))), expected)
    if name != "flac.flac":
        partial = to_numpy(load_audio(cut, demux_config=PARTIAL))
        assert np.array_equal(partial[:, :44100], expected)
        assert 2 * 44100 < partial.shape[1] < 3.1 * 44100


@pytest.mark.parametrize("name", ["mp3.mp3", "aac.m4a", "flac.flac", "wavpack.wv"])
def test_damage_in_the_middle(name: str) -> None:
    data = bytearray(long_sound(name))
    middle = len(data) // 2
    data[middle : middle + 300] = b"\x55" * 300
    with pytest.raises(
        RuntimeError, match=r"bytes: cannot decode the audio stream 0 \(\w+\)( at [23]\.\d+ s)?: .*FFmpeg"
    ):
        load_audio(bytes(data))
    # What lies before it is not touched.
    expected = to_numpy(load_audio(long_sound(name)))[:, :44100]
    assert np.array_equal(to_numpy(load_audio(bytes(data), timestamp=(0, 2)))[:, :44100], expected)

"""Sound in WAVE files, against soundfile and the wave module."""

from __future__ import annotations

import importlib
import io
import struct
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.arrays import same
from tests.pipeline.support import FREE_THREADED

from spdl.io import FormatError, load_wav, parse_wav, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

# Its cffi does not support the free-threaded 3.13.
soundfile: Any = None if FREE_THREADED else importlib.import_module("soundfile")

SUBTYPES = {"PCM_U8": "uint8", "PCM_16": "int16", "PCM_32": "int32", "FLOAT": "float32", "DOUBLE": "float64"}


def by_soundfile(samples: Any, rate: int = 8000, subtype: str = "PCM_16", container: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype=subtype, format=container)
    return file.getvalue()


@pytest.mark.skipif(soundfile is None, reason="soundfile needs cffi, which does not support this Python")
@given(
    st.sampled_from(sorted(SUBTYPES)),
    st.sampled_from(["WAV", "WAVEX", "RF64"]),
    st.integers(1, 6),
    st.integers(0, 50),
    st.integers(1, 200_000),
)
def test_reads_what_soundfile_writes(subtype: str, container: str, channels: int, frames: int, rate: int) -> None:
    samples = np.sin(np.arange(frames * channels)).reshape(frames, channels) * 0.9
    data = by_soundfile(samples, rate, subtype, container)
    ours = load_wav(data)
    assert ours.dtype == SUBTYPES[subtype]
    assert ours.shape == (frames, channels)
    if subtype == "PCM_U8":
        theirs = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)[0]
        assert same((ours.astype(np.int16) - 128) * np.int16(256), theirs)
    else:
        assert same(ours, soundfile.read(io.BytesIO(data), dtype=SUBTYPES[subtype], always_2d=True)[0])
    header = parse_wav(data)
    information = soundfile.info(io.BytesIO(data))
    assert (header.sample_rate, header.num_channels) == (information.samplerate, information.channels)
    assert header.data_size == ours.nbytes
    assert header.audio_format == (3 if subtype in {"FLOAT", "DOUBLE"} else 1)
    assert header.block_align == ours.itemsize * channels
    assert header.byte_rate == header.block_align * rate
    assert header.bits_per_sample == 8 * ours.itemsize


def by_wave(samples: np.ndarray[Any, Any], rate: int = 8000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(samples.itemsize)
        sound.setframerate(rate)
        sound.writeframes(samples.tobytes())
    return file.getvalue()


SAMPLES = np.arange(16_000, dtype="<i2").reshape(8000, 2)
SOUND = by_wave(SAMPLES)


def test_is_a_view() -> None:
    content = bytearray(SOUND)
    array = load_wav(content)
    array[0, 1] = 42
    assert load_wav(content)[0, 1] == 42
    assert not load_wav(SOUND).flags.writeable
    assert id(load_wav(SOUND).base) == id(SOUND)
    assert to_numpy(array) is array


def test_maps_a_path(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(SOUND)
    assert same(load_wav(path), SAMPLES)
    assert parse_wav(str(path)).num_channels == 2


@given(st.integers(0, 7999), st.integers(0, 9000))
def test_times_that_are_frames(first: int, count: int) -> None:
    assert same(load_wav(SOUND, first / 8000, count / 8000), SAMPLES[first : first + count])


@pytest.mark.parametrize(
    ("start", "duration", "expected"),
    [
        (None, None, slice(None)),
        (0.3, None, slice(2400, None)),
        (0.5, 0.25, slice(4000, 6000)),
        (0.5, 10, slice(4000, None)),
        (0.5, float("inf"), slice(4000, None)),
        (None, 0.0, slice(0, 0)),
        (3.7 / 8000, 2.6 / 8000, slice(3, 5)),
        (7999.9 / 8000, None, slice(7999, None)),
    ],
)
def test_a_part_of_the_sound(start: float | None, duration: float | None, expected: slice) -> None:
    assert same(load_wav(SOUND, start, duration), SAMPLES[expected])


@pytest.mark.parametrize(
    ("start", "duration", "message"),
    [
        (-0.1, None, "`time_offset_seconds` must be a number of seconds of at least 0, got -0.1"),
        (float("nan"), None, "`time_offset_seconds` must be a number of seconds of at least 0, got nan"),
        (None, -1, "`duration_seconds` must be a number of seconds of at least 0, got -1"),
        (1.0, None, "`time_offset_seconds` must be less than the 1.0+ seconds"),
        (float("inf"), None, "`time_offset_seconds` must be less than"),
    ],
)
def test_times_that_are_not_there(start: float | None, duration: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_wav(SOUND, start, duration)


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(content) if size is None else size) + content + b"\0" * (len(content) % 2)


def form(tag: int = 1, channels: int = 2, rate: int = 8000, bits: int = 16, align: int | None = None) -> bytes:
    block = channels * bits // 8 if align is None else align
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits))


def riff(*chunks: bytes, name: bytes = b"RIFF") -> bytes:
    content = b"WAVE" + b"".join(chunks)
    return name + struct.pack("<I", len(content)) + content


DATA = chunk(b"data", bytes(range(40)))


def test_other_chunks_are_skipped() -> None:
    sound = riff(chunk(b"LIST", b"odd"), form(), chunk(b"fact", bytes(4)), DATA, chunk(b"LIST", b"INFO"))
    assert load_wav(sound).shape == (10, 2)


def test_a_header_alone_can_be_parsed() -> None:
    assert repr(parse_wav(SOUND[:44])) == (
        "WAVHeader(audio_format=1, num_channels=2, sample_rate=8000, bits_per_sample=16, data_size=32000)"
    )
    with pytest.raises(FormatError, match="truncated: its data chunk at byte 44 has 8000 frames, of which 0 are"):
        load_wav(SOUND[:44])


def test_sizes_in_64_bits() -> None:
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, 40, 10, 0))
    sound = riff(sizes, form(), chunk(b"data", bytes(40), 0xFFFFFFFF), name=b"RF64")
    assert load_wav(sound).shape == (10, 2)
    assert parse_wav(sound).data_size == 40


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF024, 0x7FFFFFFF - 36])
def test_a_size_that_was_not_known(size: int) -> None:
    """Programs that write to a pipe cannot fill in the size: the sound is all that follows."""
    sound = b"RIFF" + struct.pack("<I", size) + riff(form(), chunk(b"data", SAMPLES[:10].tobytes(), size))[8:]
    assert same(load_wav(sound), SAMPLES[:10])
    assert same(load_wav(sound + b"\1\2\3"), SAMPLES[:10])
    assert parse_wav(sound).data_size == size


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF])
@pytest.mark.parametrize("name", [b"RF64", b"BW64"])
def test_a_size_in_64_bits_that_was_not_known(size: int, name: bytes) -> None:
    sizes = chunk(b"ds64", struct.pack("<QQQI", size, size, 0, 0))
    sound = riff(sizes, form(), chunk(b"data", SAMPLES[:10].tobytes(), 0xFFFFFFFF), name=name)
    assert same(load_wav(sound), SAMPLES[:10])


def test_no_sound_in_front_of_other_chunks() -> None:
    assert load_wav(riff(form(), chunk(b"data", b""), chunk(b"LIST", b"INFO"))).shape == (0, 2)


@pytest.mark.parametrize("extra", [1, 2, 3])
def test_sound_that_ends_within_a_frame(extra: int) -> None:
    content = SAMPLES[:10].tobytes() + b"\1\2\3"[:extra]
    for chunks in ([chunk(b"data", content)], [chunk(b"data", content), chunk(b"LIST", b"INFO")]):
        sound = riff(form(), *chunks)
        assert same(load_wav(sound), SAMPLES[:10])
        assert soundfile is None or same(load_wav(sound), soundfile.read(io.BytesIO(sound), dtype="int16")[0])
    # What is missing is no whole frame.
    assert same(load_wav(riff(form(), chunk(b"data", content, 43))), SAMPLES[:10])


def test_a_header_that_counts_itself_as_sound() -> None:
    content = SAMPLES[:10].tobytes()
    assert same(load_wav(riff(form(), chunk(b"data", content, len(content) + 44))), SAMPLES[:10])


def test_a_truncated_header_is_refused() -> None:
    for size in range(44):
        with pytest.raises(FormatError, match="wav data"):
            parse_wav(SOUND[:size])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is not wav data: the 0 bytes"),
        (b"RIFX" + SOUND[4:], "this is not wav data"),
        (riff(DATA), "data chunk before a fmt chunk, at byte 12"),
        (riff(form()), "ends without a data chunk"),
        (riff(), "ends without a fmt chunk"),
        (riff(form(), form(), DATA), "a second fmt chunk"),
        (riff(chunk(b"fmt ", bytes(14)), DATA), "a fmt chunk of 14 bytes, fewer than 16"),
        (riff(chunk(b"\n\xff  ", b"", 100), form(), DATA), r'its chunk "\?\?  " of 100 bytes at byte 12 goes beyond'),
        (riff(form(channels=0), DATA), "0 channels"),
        (riff(form(rate=0), DATA), "sample rate is 0"),
        (riff(form(align=8), DATA), "a frame has 8 bytes, but 2 channels of 2 bytes have 4"),
        (riff(form(bits=24), DATA), "format 1 with 24 bits, of which no array can be a view"),
        (riff(form(bits=12), DATA), "with 12 bits"),
        (riff(form(tag=6, bits=8), DATA), "format 6 with 8 bits"),
        (riff(form(tag=3, bits=16), DATA), "format 3 with 16 bits"),
        (
            riff(form(), chunk(b"data", bytes(40), 44)),
            "truncated: its data chunk at byte 44 has 11 frames, of which 10 are",
        ),
    ],
)
def test_broken_chunks_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_wav(data)


def test_other_inputs_are_refused() -> None:
    with pytest.raises(TypeError, match="`data` must be a path"):
        load_wav(io.BytesIO(SOUND))
    with pytest.raises(TypeError, match="`data` must be a path"):
        parse_wav(None)

"""load_audio_batch gives the samples of load_audio, padded or cut to one length."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av.long_sounds import long_sound

from spdl.io import LoadError, cpu_storage, get_audio_filter_desc, load_audio, load_audio_batch, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["s16.wav", "flac.flac", "mp3.mp3", "aac.m4a", "opus.webm", "vorbis.ogg", "mp3_low.mp3"]


def alone(name: str, window: tuple[float, float] | None = None, rate: int | None = 16000, channels: int = 1) -> object:
    desc = get_audio_filter_desc(sample_rate=rate, num_channels=channels)
    return to_numpy(load_audio(long_sound(name), timestamp=window, filter_desc=desc))


@pytest.mark.parametrize("num_threads", [1, 4])
def test_rows_are_what_each_file_gives_alone(num_threads: int, tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(long_sound(NAMES[0]))
    srcs = [path, io.BytesIO(long_sound(NAMES[1])), *(long_sound(name) for name in NAMES[2:])]
    samples, lengths = load_audio_batch(srcs, sample_rate=16000, num_threads=num_threads)
    rows = to_numpy(samples)
    assert rows.dtype == np.float32
    assert rows.shape == (len(NAMES), 1, max(lengths))
    for row, length, name in zip(rows, lengths, NAMES, strict=True):
        expected = alone(name)
        assert np.array_equal(row[:, :length], expected)  # type: ignore[arg-type]
        assert not row[:, length:].any()


def test_a_length_cuts_and_pads() -> None:
    batch = load_audio_batch(
        [long_sound(name) for name in ("flac.flac", "mp3.mp3", "s16.wav")],
        sample_rate=None,
        num_channels=2,
        num_frames=44100,
        timestamps=[(1, 1.5), None, (5.25, float("inf"))],
    )
    rows = to_numpy(batch.samples)
    assert rows.shape == (3, 2, 44100)
    assert batch.lengths == [22050, 44100, 33075]
    assert np.array_equal(rows[0, :, :22050], alone("flac.flac", (1, 1.5), None, 2))  # type: ignore[arg-type]
    assert np.array_equal(rows[1], alone("mp3.mp3", None, None, 2)[:, :44100])  # type: ignore[index]
    assert not rows[0, :, 22050:].any()
    assert not rows[2, :, 33075:].any()


def test_failures_are_those_of_images() -> None:
    srcs = [long_sound("flac.flac"), b"no sound", long_sound("mp3.mp3"), "/no/such/file"]
    with pytest.raises(RuntimeError, match=r"2 of 4 sounds could not be loaded\n  srcs\[1\], 8 bytes: cannot read"):
        load_audio_batch(srcs, sample_rate=8000)
    skipped = load_audio_batch(srcs, sample_rate=8000, on_error="skip")
    assert to_numpy(skipped.samples).shape == (2, 1, 48000)
    assert skipped.lengths == [48000, 48000]
    assert [(it.index, it.source) for it in skipped.samples.failures] == [(1, b"no sound"), (3, "/no/such/file")]
    assert "No such file" in skipped.samples.failures[1].reason
    zeros = load_audio_batch(srcs, sample_rate=8000, on_error="zero")
    assert zeros.lengths == [48000, 0, 48000, 0]
    assert not to_numpy(zeros.samples)[[1, 3]].any()
    assert np.array_equal(to_numpy(zeros.samples)[[0, 2]], to_numpy(skipped.samples))


@pytest.mark.parametrize("num_channels", [1, 2])
def test_places_are_kept_if_all_sounds_fail(num_channels: int) -> None:
    srcs = [b"no sound", "/no/such/file", b""]
    options: dict[str, Any] = {"sample_rate": 8000, "num_frames": 50, "num_channels": num_channels, "num_threads": 2}
    memory = np.full((3, num_channels, 50), 7, np.float32)
    batch = load_audio_batch(srcs, on_error="zero", storage=memory, **options)
    assert (to_numpy(batch.samples).shape, batch.lengths) == (memory.shape, [0, 0, 0])
    assert not memory.any()
    assert [failure.index for failure in batch.samples.failures] == [0, 1, 2]
    with pytest.raises(LoadError, match="3 of 3 sounds could not be loaded"):
        load_audio_batch(srcs, on_error="skip", **options)
    for unknown in ({"num_frames": None}, {"num_channels": None}):
        with pytest.raises(LoadError, match=r"(?s)3 of 3 sounds .* give both num_frames and num_channels"):
            load_audio_batch(srcs, on_error="zero", **(options | unknown))


def test_channels_that_differ() -> None:
    srcs = [long_sound("flac.flac"), long_sound("mp3_low.mp3")]
    with pytest.raises(RuntimeError, match=r"it has 1 channels, but the sounds before it 2: give num_channels"):
        load_audio_batch(srcs, sample_rate=16000, num_channels=None)
    assert to_numpy(load_audio_batch(srcs, sample_rate=16000, num_channels=3).samples).shape[1] == 3


def test_the_callers_memory() -> None:
    memory = np.ones((2, 1, 8000), np.float32)
    srcs = [long_sound("flac.flac"), long_sound("mp3.mp3")]
    batch = load_audio_batch(srcs, sample_rate=16000, num_frames=8000, storage=memory)
    assert np.shares_memory(to_numpy(batch.samples), memory)
    assert np.array_equal(memory[0], alone("flac.flac")[:, :8000])  # type: ignore[index]
    storage = cpu_storage(2 * 8000 * 4, pin_memory=False)
    stored = load_audio_batch(srcs, sample_rate=16000, num_frames=8000, storage=storage)
    assert np.array_equal(to_numpy(stored.samples), memory)
    with pytest.raises(RuntimeError, match="storage"):
        load_audio_batch(srcs, sample_rate=16000, num_frames=8001, storage=storage)
    with pytest.raises(ValueError, match="storage"):
        load_audio_batch(srcs, sample_rate=16000, num_frames=8000, storage=np.ones((2, 2, 8000), np.float32))


def test_wrong_arguments() -> None:
    data = long_sound("flac.flac")
    with pytest.raises(ValueError, match=r"`timestamps` must be .* for each of the 1 inputs"):
        load_audio_batch([data], sample_rate=None, timestamps=[(0, 1), (0, 1)])
    with pytest.raises(ValueError, match=r"`timestamps\[0\]` must be a window"):
        load_audio_batch([data], sample_rate=None, timestamps=[(1, 1)])
    with pytest.raises(ValueError, match="`srcs` must be at least one input"):
        load_audio_batch([], sample_rate=None)
    with pytest.raises(TypeError, match=r"For a batch of one, pass a list, as in `load_audio_batch\(\[src\]"):
        load_audio_batch(data, sample_rate=None)
    with pytest.raises(ValueError, match="`on_error` must be 'raise', 'skip' or 'zero'"):
        load_audio_batch([data], sample_rate=None, on_error="partial")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="there is no sound within the window"):
        load_audio_batch([data], sample_rate=None, timestamps=[(100, 101)])

"""AudioReader reads any part of a sound as it is in the whole, resampled or not."""

from __future__ import annotations

import functools
import io
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from tests.hammer import assert_agree, hammer
from tests.io.av import oracle
from tests.io.av.encoded import audio
from tests.io.av.long_sounds import LONG_SOUNDS, long_sound, tolerance
from tests.io.av.sources import Sound
from tests.io.av.test_audio_windows import windows

from spdl.io import AudioReader, cpu_storage, get_audio_filter_desc, load_audio, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

RESAMPLED = ["s16.wav", "flac.mkv", "aac.m4a", "mp3.mp3", "opus.webm", "vorbis.ogg", "aac.ts"]


@functools.cache
def whole(name: str, rate: int | None) -> npt.NDArray[np.float32]:
    desc = get_audio_filter_desc(sample_rate=rate, num_channels=1 if rate else None)
    return to_numpy(load_audio(long_sound(name), filter_desc=desc))


@pytest.mark.parametrize("name", LONG_SOUNDS)
def test_the_number_of_samples_is_that_of_the_decoder(name: str) -> None:
    sound = LONG_SOUNDS[name].sound
    assert sound
    reader = AudioReader(long_sound(name))
    assert reader.num_samples == whole(name, None).shape[1]
    assert reader.duration == reader.num_samples / sound.rate
    assert (reader.sample_rate, reader.num_channels) == (sound.rate, sound.channels)


@pytest.mark.parametrize("name", LONG_SOUNDS)
def test_a_part_is_that_of_the_whole(name: str) -> None:
    reader = AudioReader(long_sound(name))
    for start, stop in windows(reader.num_samples)[:16]:
        found = to_numpy(reader.read_samples(start, stop))
        np.testing.assert_allclose(found, whole(name, None)[:, start:stop], rtol=0, atol=tolerance(name))


@pytest.mark.parametrize("rate", [16000, 48000, 11025, 22051])
@pytest.mark.parametrize("name", RESAMPLED)
def test_a_resampled_part_is_that_of_the_whole(name: str, rate: int) -> None:
    reader = AudioReader(long_sound(name), sample_rate=rate, num_channels=1)
    expected = whole(name, rate)
    assert reader.num_samples == expected.shape[1]
    for start, stop in windows(reader.num_samples, seed=rate)[:12]:
        found = to_numpy(reader.read_samples(start, stop))
        np.testing.assert_allclose(found, expected[:, start:stop], rtol=0, atol=tolerance(name) + 1e-6)
    assert np.array_equal(to_numpy(reader.read()), expected)


def test_moments_are_rounded_up_to_samples() -> None:
    reader = AudioReader(long_sound("s16.wav"))
    expected = whole("s16.wav", None)
    assert np.array_equal(to_numpy(reader.read(1, 2)), expected[:, 44100:88200])
    assert np.array_equal(to_numpy(reader.read("1/3", Fraction(2, 3))), expected[:, 14700:29400])
    assert np.array_equal(to_numpy(reader.read(Fraction(1, 44099))), expected[:, 2:])
    assert np.array_equal(to_numpy(reader.read(5.5, 100)), expected[:, 242550:])
    assert np.array_equal(to_numpy(reader.read(5.5, float("inf"))), expected[:, 242550:])


def test_the_start_on_the_clock_of_the_file() -> None:
    assert AudioReader(long_sound("aac.ts")).start_time == 1.4
    assert AudioReader(long_sound("mp3.mp3")).start_time == 1105 / 44100  # What the encoder has put in front.
    assert AudioReader(long_sound("s16.wav")).start_time == 0


def test_int16_and_the_callers_memory() -> None:
    reader = AudioReader(long_sound("s16.wav"), dtype="int16")
    sound = LONG_SOUNDS["s16.wav"].sound
    assert sound
    expected = sound.as_dtype("i2").T
    memory = np.zeros((2, 1000), np.int16)
    reader.read_samples(500, 1500, storage=memory)
    assert np.array_equal(memory, expected[:, 500:1500])
    storage = cpu_storage(4000, pin_memory=False)
    assert np.array_equal(to_numpy(reader.read_samples(7, 1007, storage=storage)), expected[:, 7:1007])
    with pytest.raises(ValueError, match="storage"):
        reader.read_samples(0, 1000, storage=np.zeros((2, 999), np.int16))
    with pytest.raises(ValueError, match="array of int16"):
        reader.read_samples(0, 1000, storage=np.zeros((2, 1000), np.float32))


def test_what_is_no_part() -> None:
    reader = AudioReader(long_sound("s16.wav"), sample_rate=16000)
    with pytest.raises(IndexError, match="`start` must be before the end of the sound, which has 96000 samples"):
        reader.read_samples(96000)
    with pytest.raises(IndexError):
        reader.read(6, 7)
    with pytest.raises(ValueError, match="`stop` must be beyond `start`"):
        reader.read_samples(5, 5)
    with pytest.raises(ValueError, match="`start` must be an int of at least 0"):
        reader.read_samples(-1)
    with pytest.raises(ValueError, match="`start` must be a moment that is not negative"):
        reader.read(-0.5)
    with pytest.raises(ValueError, match="`start` must be a moment within the sound"):
        reader.read(float("inf"))
    with pytest.raises(TypeError, match="`start` must be an int"):
        reader.read_samples(0.5)  # type: ignore[arg-type]
    for keywords in ({"sample_rate": 0}, {"num_channels": 0}, {"dtype": "float64"}):
        with pytest.raises(ValueError, match=next(iter(keywords))):
            AudioReader(long_sound("s16.wav"), **keywords)


def test_open_files_and_closing() -> None:
    expected = whole("mp3.mp3", None)
    with AudioReader(io.BytesIO(long_sound("mp3.mp3"))) as reader:
        assert np.array_equal(to_numpy(reader.read_samples(100_000, 100_100)), expected[:, 100_000:100_100])
        with pytest.raises(TypeError, match="open file cannot be pickled"):
            pickle.dumps(reader)
    with pytest.raises(RuntimeError, match="closed"):
        reader.read()


def test_pickling_keeps_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    path.write_bytes(long_sound("flac.flac"))
    reader = AudioReader(path, sample_rate=16000, num_channels=1)
    count = reader.num_samples
    other = pickle.loads(pickle.dumps(reader))
    assert repr(other) == repr(reader)
    assert other.num_samples == count
    assert np.array_equal(to_numpy(other.read_samples(9, 99)), whole("flac.flac", 16000)[:, 9:99])


def test_many_threads_read_from_one_reader() -> None:
    reader = AudioReader(long_sound("mp3_variable.mp3"))
    expected = whole("mp3_variable.mp3", None)

    def read(start: int) -> bytes:
        return to_numpy(reader.read_samples(start, start + 500)).tobytes()

    returned = hammer(lambda: read(200_000), lambda: read(3), lambda: str(reader.num_samples).encode())
    assert_agree(returned)
    assert returned[0][0] == expected[:, 200_000:200_500].tobytes()
    assert returned[1][0] == expected[:, 3:503].tobytes()


def test_a_file_without_sound() -> None:
    with pytest.raises(RuntimeError, match=r"12 bytes: cannot read the file"):
        AudioReader(b"not a sound.")


class _Counted(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("flac.flac", ("flac", "-compression_level", 0)),
        ("aac.aac", ("aac", "-b:a", "500k", "-aac_pns", 0)),
        ("flac.ogg", ("flac", "-page_duration", 100_000)),
    ],
)
def test_a_late_part_is_read_from_where_it_is(name: str, options: tuple[object, ...], tmp_path: Path) -> None:
    """What was found out of all packets is used by every part from then on."""
    encoder, *rest = options
    path = tmp_path / name
    audio(str(encoder), *rest, sound=Sound(48000, 2, 40)).make(path)
    expected = oracle.samples(path).T
    file = _Counted(path.read_bytes())
    reader = AudioReader(file)
    count = reader.num_samples
    assert count == expected.shape[1]
    drawn = np.random.default_rng(3)
    for _ in range(30):
        file.count = 0
        start = int(drawn.integers(count // 2, count - 100))
        assert np.array_equal(to_numpy(reader.read_samples(start, start + 100)), expected[:, start : start + 100])
        assert file.count < path.stat().st_size // 3

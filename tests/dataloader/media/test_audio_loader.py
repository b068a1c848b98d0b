"""The loader of sounds delivers what `load_audio` loads, from windows that depend on seed, epoch and index."""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.io.av.media import clip

from spdl.dataloader import AudioLoader, SoundBatch
from spdl.io import AudioReader, LoadError, get_audio_filter_desc, load_audio
from spdl.source import AudioFolder, MediaList
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

RATE = 8000


def make_wav(seconds: float, seed: int, rate: int = RATE) -> bytes:
    samples = np.random.default_rng(seed).integers(-3000, 3000, round(seconds * rate), np.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, rate, 0, "NONE", ""))
        sound.writeframes(samples.tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> AudioFolder:
    """Nine sounds of half a second to two and a half, in two classes; the fourth is damaged."""
    root = tmp_path_factory.mktemp("sounds")
    for index in range(9):
        path = root / ("no" if index < 5 else "yes") / f"{index}.wav"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no sound" if index == 3 else make_wav(0.5 + index / 4, index))
    return AudioFolder(root)


def make(source: Any, batch_size: int = 2, **options: Any) -> AudioLoader:
    arguments: dict[str, Any] = {"sample_rate": RATE, "seconds": 1, "output": "numpy", "num_threads": 2}
    return AudioLoader(source, batch_size, **{**arguments, **options})


def contents_of(batch: SoundBatch) -> list[tuple[int, bytes]]:
    return [(int(index), it.tobytes()) for index, it in zip(batch.index, batch.sound, strict=True)]


def contents(batches: Any) -> list[tuple[int, bytes]]:
    return [it for batch in batches for it in contents_of(batch)]


def sound(folder: AudioFolder) -> list[Any]:
    return [sample for sample in folder if sample.index != 3]


def test_a_batch_unpacks_as_sounds_and_labels_and_has_a_mask(folder: AudioFolder) -> None:
    batches = list(make(sound(folder), output="torch"))
    for batch in batches:
        assert isinstance(batch, SoundBatch)
        sounds, labels = batch
        assert (sounds.shape, sounds.dtype, labels.dtype) == ((2, 1, RATE), torch.float32, torch.int64)
        for path, samples, length, mask in zip(batch.path, sounds, batch.length, batch.mask, strict=True):
            whole = load_audio(str(path))
            assert length == min(whole.shape[1], RATE) == mask.sum()
            assert (samples[:, :length].numpy() == np.asarray(whole)[:, :RATE]).all()
            assert not samples[:, length:].any()
    assert [label for _, labels in batches for label in labels.tolist()] == [0] * 4 + [1] * 4


@pytest.mark.parametrize("sampling", ["random", "center", "start"])
def test_windows_are_parts_of_the_whole(folder: AudioFolder, sampling: str) -> None:
    for batch in make(sound(folder), sampling=sampling, seed=5):
        for path, samples, length, window in zip(batch.path, batch.sound, batch.length, batch.window, strict=True):
            whole = np.asarray(load_audio(str(path)))
            if whole.shape[1] <= RATE:
                assert length == whole.shape[1]
                continue
            begin = round(window[0] * RATE)
            assert sampling != "start" or begin == 0
            assert sampling != "center" or begin == round((whole.shape[1] - RATE) / 2)
            # A window begins with the sample at its beginning or after it.
            parts = [whole[:, first : first + RATE] for first in range(max(begin - 1, 0), begin + 2)]
            assert any(part.shape == samples.shape and (part == samples).all() for part in parts)


def test_random_windows_depend_on_seed_epoch_and_index_alone(folder: AudioFolder) -> None:
    whole = dict(contents(make(sound(folder), sampling="random", seed=2)))
    options: dict[str, Any]
    for options in ({"batch_size": 5}, {"num_threads": 4}, {"shuffle": True}):
        assert dict(contents(make(sound(folder), sampling="random", seed=2, **options))) == whole
    loader = make(sound(folder), sampling="random", seed=2)
    loader.set_epoch(1)
    other = dict(contents(loader))
    # Those that are longer than a second.
    assert sum(whole[index] != other[index] for index in whole) == 5


def test_sounds_are_resampled_and_mixed(folder: AudioFolder) -> None:
    batch = next(iter(make(sound(folder), sample_rate=16000, num_channels=2, seconds=0.25)))
    assert batch.sound.shape == (2, 2, 4000)
    filters = get_audio_filter_desc(sample_rate=16000, num_channels=2)
    expected = np.asarray(load_audio(str(batch.path[1]), filter_desc=filters, timestamp=(0, 0.25)))
    assert (batch.sound[1] == expected).all()


def test_windows_of_the_source_bound_sounds(folder: AudioFolder) -> None:
    path = folder[8].path
    words = MediaList([(path, (0.25, 0.75), "yes"), (path, (1, 2.5), "no")], classes=["no", "yes"])
    (batch,) = make(words, sampling="random")
    assert batch.length.tolist() == [RATE // 2, RATE]
    assert 1 <= batch.window[1][0] <= 1.5
    assert batch.label.tolist() == [1, 0]
    assert make(words).state_dict() != make(MediaList([(path, (0.5, 0.75), 1), (path, (1, 2.5), 0)])).state_dict()


@pytest.mark.parametrize("sampling", ["random", "center", "start"])
@pytest.mark.parametrize("name", ["mp3.mp3", "vorbis.ogg", "opus.ogg", "aac.m4a", "both.ts", "sync.mkv", "flac.ogg"])
def test_sounds_lie_where_the_stream_is(name: str, sampling: str) -> None:
    path = clip(name)
    whole = np.asarray(load_audio(str(path)))
    channels, count = whole.shape
    rate = AudioReader(path).sample_rate
    for seconds in (0.02, 0.4, 60.0):
        options = {"sample_rate": rate, "num_channels": channels, "seconds": seconds, "sampling": sampling}
        for seed in range(4):
            (batch,) = make([(path, 0)], **options, seed=seed)
            length = min(round(seconds * rate), count)
            assert batch.length.tolist() == [length]
            # The samples around the moment that it says it begins with.
            begin = round((batch.window[0][0] - AudioReader(path).start_time) * rate)
            parts = [whole[:, first : first + length] for first in range(max(begin - 1, 0), begin + 2)]
            found = batch.sound[0, :, :length]
            # AAC's decoder depends in its last bits on where it has begun.
            assert any(part.shape == found.shape and np.allclose(part, found, atol=1e-4) for part in parts)
            assert sampling != "start" or np.array_equal(batch.sound[0, :, :length], whole[:, :length])


@pytest.mark.parametrize("name", ["mp3.mp3", "both.ts"])
def test_a_part_at_the_start_of_a_window_begins_where_the_stream_does(name: str) -> None:
    path = clip(name)
    whole = np.asarray(load_audio(str(path)))
    reader = AudioReader(path)
    channels, rate, start = len(whole), reader.sample_rate, reader.start_time
    assert start > 0
    words = MediaList([(path, (0, 60), 0), (path, (start / 2, start + 0.25), 1), (path, (0, start / 2), 2)])
    options = {"sample_rate": rate, "num_channels": channels, "seconds": 0.2, "sampling": "start"}
    loader = make(words, 3, on_error="skip", **options)
    (batch,) = loader
    length = round(0.2 * rate)
    assert batch.label.tolist() == [0, 1]
    assert batch.length.tolist() == [length] * 2
    assert all(np.array_equal(found, whole[:, :length]) for found in batch.sound)
    np.testing.assert_allclose(batch.window, [[start, start + 0.2]] * 2)
    assert [failure.index for failure in loader.failures] == [2]


def test_a_window_is_bounded_by_the_end_of_the_sound(folder: AudioFolder) -> None:
    # It lasts one second and a half, less than the window.
    words = MediaList([(folder[4].path, (0.25, 9), 0)] * 20)
    for sampling in ("random", "center", "start"):
        (batch,) = make(words, 20, sampling=sampling, seconds=0.5)
        assert (batch.length == RATE // 2).all()
        assert (batch.window[:, 0] >= 0.25).all()
        assert (batch.window[:, 1] <= 1.5).all()


def test_damaged_sounds_are_errors_left_out_or_replaced(folder: AudioFolder) -> None:
    with pytest.raises(LoadError, match=r"1 of 2 sounds of a batch could not be loaded\n  sample 3, .*3\.wav'"):
        list(make(folder))
    batches = list(make(folder, on_error="skip"))
    assert [batch.index.tolist() for batch in batches] == [[0, 1], [2], [4, 5], [6, 7], [8]]
    assert all(len(batch.mask) == len(batch.window) == len(batch.sound) == len(batch.label) for batch in batches)
    loader = make(folder, on_error="refill")
    batches = list(loader)
    (failure,) = loader.failures
    assert batches[1].index.tolist() == [2, failure.replacement]
    assert batches[1].label[1] == folder[failure.replacement or 0].label


def test_any_two_cuts_lose_nothing(folder: AudioFolder) -> None:
    def make_loader(batch_size: int, rank: int, world_size: int) -> AudioLoader:
        place = {"rank": rank, "world_size": world_size}
        return make(sound(folder), batch_size, shuffle=True, sampling="random", num_threads=1, **place)

    assert_resumes_exactly(make_loader, world=(1, 2), batch=(1, 4), items=contents_of)


def test_bytes_and_open_files_are_sounds(tmp_path: Path) -> None:
    data = make_wav(1.5, 1)
    (tmp_path / "1.wav").write_bytes(data)
    expected = contents(make([(tmp_path / "1.wav", 0)], sampling="center"))
    assert contents(make([(data, 0)], sampling="center")) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sample_rate": 0}, ValueError, "`sample_rate`"),
        ({"seconds": 0}, ValueError, "`seconds`"),
        ({"seconds": 1e-9}, ValueError, "`seconds`"),
        ({"seconds": "1"}, TypeError, "`seconds`"),
        ({"num_channels": 0}, ValueError, "`num_channels`"),
        ({"sampling": "spread"}, ValueError, "`sampling`"),
    ],
)
def test_mistakes_are_explained(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make([("a.wav", 0)], **options)

"""Samples that make no sense fail alone, as files that cannot be read do."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.io.av.media import clip

from spdl.dataloader import ArrayLoader, AudioLoader, ClipLoader, ImageLoader, PyTorchDataLoader
from spdl.io import LoadError
from spdl.source import MediaList, MediaSample


def make_wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(np.arange(8000, dtype=np.int16).tobytes())
    return file.getvalue()


WINDOWS = [(0, 1e-9), (1, 0), (float("nan"), 1), "x", (0,), 5, (0, 1, 2), (0, "x"), (float("inf"), float("inf"))]


def make(kind: str, media: Any, window: Any, **options: Any) -> Any:
    good: Any = make_wav() if kind == "sound" else str(clip("h264.mp4"))
    samples = [MediaSample(good, (0, 0.5), index, f"file {index}", index) for index in range(4)]
    samples[2] = MediaSample(good if media == "good" else media, window, 2, "file 2", 2)
    place: dict[str, Any] = {"output": "numpy", "rank": 0, "world_size": 1, **options}
    if kind == "sound":
        return AudioLoader(samples, 4, sample_rate=8000, seconds=0.25, **place)
    return ClipLoader(samples, 4, num_frames=2, size=8, **place)


@pytest.mark.parametrize("sampling", ["random", "start"])
@pytest.mark.parametrize("kind", ["sound", "clip"])
@pytest.mark.parametrize(
    ("media", "window", "reason"),
    [("good", window, "`window` must be") for window in WINDOWS]
    + [(media, (0, 1), "`media` must be") for media in (None, 5, ("a.mp4", (0, 1), 3), object())],
)
def test_it_fails_alone(kind: str, sampling: Any, media: Any, window: Any, reason: str) -> None:
    with pytest.raises(LoadError, match=rf"1 of 4 .* could not be loaded\n  sample 2, 'file 2': {reason}") as raised:
        list(make(kind, media, window, sampling=sampling))
    assert "threading.py" not in str(raised.value)
    (batch,) = make(kind, media, window, sampling=sampling, on_error="skip")
    assert batch.index.tolist() == [0, 1, 3]
    loader = make(kind, media, window, sampling=sampling, on_error="refill")
    (batch,) = loader
    (failure,) = loader.failures
    assert (failure.index, batch.index[2]) == (2, failure.replacement)
    (whole,) = make(kind, "good", (0, 0.5), sampling=sampling)
    medium, place = (batch.clip, whole.clip) if kind == "clip" else (batch.sound, whole.sound)
    assert (medium[[0, 1, 3]] == place[[0, 1, 3]]).all()
    assert (medium[2] == place[failure.replacement]).all()


@pytest.mark.parametrize("kind", ["sound", "clip"])
def test_if_none_makes_sense_all_fail(kind: str) -> None:
    samples = [MediaSample(None, (0, 1), 0, "file", 0)] * 2
    options: dict[str, Any] = {"output": "numpy", "rank": 0, "world_size": 1, "on_error": "skip"}
    loader: Any = (
        AudioLoader(samples, 2, sample_rate=8000, seconds=1, **options)
        if kind == "sound"
        else ClipLoader(samples, 2, num_frames=2, size=8, **options)
    )
    with pytest.raises(LoadError, match=r"All .* of epoch 0 failed.*`media` must be"):
        list(loader)


@pytest.mark.parametrize(
    "decoded",
    [np.zeros((8, 8, 3), np.uint8), torch.zeros(3, 8, 8), Image.new("RGB", (8, 8))],
    ids=["array", "tensor", "PIL"],
)
@pytest.mark.parametrize("kind", ["image", "sound", "clip"])
def test_what_is_decoded_already_is_told_where_to_go(kind: str, decoded: Any) -> None:
    def load(on_error: Any) -> None:
        if kind == "image":
            list(ImageLoader([(decoded, 0)] * 7, 7, size=8, output="numpy", on_error=on_error))
        else:
            loader: Any = AudioLoader if kind == "sound" else ClipLoader
            more = {"sample_rate": 8000, "seconds": 1} if kind == "sound" else {"num_frames": 2, "size": 8}
            list(loader([(decoded, 0)] * 7, 7, output="numpy", on_error=on_error, **more))

    told = (
        r"must be a path or the bytes of a file.*, got .*\. It is decoded already, .*encoded bytes, or take PyTorchData"
    )
    with pytest.raises(LoadError, match=told) as raised:
        load("raise")
    # To leave all of them out is no remedy.
    assert "on_error" not in str(raised.value)
    assert str(raised.value).endswith("\n  and 2 more")
    with pytest.raises(LoadError, match=rf"All .* failed.*{told}"):
        load("skip")


def test_the_loader_that_is_named_takes_what_is_decoded() -> None:
    pairs = [(np.full((8, 8, 3), number, np.uint8), number) for number in range(4)]
    batches = list(PyTorchDataLoader(pairs, batch_size=2))
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 3]]
    assert batches[1][0][0].unique().tolist() == [2]


def test_an_open_file_is_no_video() -> None:
    with (
        clip("h264.mp4").open("rb") as file,
        pytest.raises(LoadError, match="sample 2, 'file 2': `media` must be a path"),
    ):
        list(make("clip", file, (0, 1)))


@pytest.mark.parametrize("window", [window for window in WINDOWS if window is not None] + [(0, 1e12)])
def test_a_list_refuses_windows_that_no_loader_can_read(window: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"`items\[0\]` must be a triple whose window is"):
        MediaList([("a.wav", window, 0)])


def test_where_no_field_is_the_medium_the_message_says_how_to_name_it() -> None:
    samples = [{"__key__": "1", "cls": b"7", "jpg": memoryview(b"a photo"), "json": b"{}"}]
    with pytest.raises(TypeError, match=r"`source\[0\]` must be .*MappedRecords\(.*'image': sample\['jpg'\]") as raised:
        list(ImageLoader(samples, 1, size=8, output="numpy", rank=0, world_size=1))
    # The batch was made in a thread, which no line of the user's has called.
    assert "threading.py" not in str(raised.value)
    with pytest.raises(TypeError, match=r"or a path, got \{'label': 3\}\.\n"):
        list(ImageLoader([{"label": 3}], 1, size=8, output="numpy", rank=0, world_size=1))


def test_a_loader_says_what_it_loads() -> None:
    loader: Any = ImageLoader(["a.jpg"] * 1200, 32, size=8, output="numpy", rank=0, world_size=1)
    assert repr(loader) == "ImageLoader: 1,200 samples of list in batches of 32, epoch 0"
    loader.set_epoch(3)
    assert repr(loader).endswith("epoch 3")


def test_array_loader_says_how_to_take_arrays_in_memory() -> None:
    pairs = [(np.full((2, 3), number), number) for number in range(4)]
    with pytest.raises(
        LoadError, match=r"`file` must be .*It is an array already: pass `load=numpy.asarray`"
    ) as raised:
        list(ArrayLoader(pairs, 2, output="numpy"))
    assert "on_error" not in str(raised.value)
    batches = list(ArrayLoader(pairs, 2, output="numpy", load=np.asarray))
    assert [batch.label.tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert (np.concatenate([batch.data for batch in batches]) == np.stack([array for array, _ in pairs])).all()


@pytest.mark.parametrize("sample", [(0, "a.jpg"), ("a.mp4", (0, 1), 5)])
def test_samples_with_their_parts_in_another_order_are_told_the_right_one(sample: Any) -> None:
    with pytest.raises(LoadError, match=r"`image` must be .*A sample is a path, a pair \(file, label\) or a record"):
        list(ImageLoader([sample], 1, size=8, output="numpy"))


def test_image_loader_tells_once_of_fields_that_do_not_move_with_their_image(caplog: pytest.LogCaptureFixture) -> None:
    sample = {"image": b"P6 4 3 255 " + bytes(36), "boxes": [[0, 0, 2, 2]], "vector": np.zeros(4), "note": ["a", "b"]}
    for batch in ImageLoader([sample] * 4, 1, size=8, output="numpy"):
        assert batch.boxes == [[[0, 0, 2, 2]]]
    (record,) = caplog.records
    assert "The field 'boxes' of the samples stays as it is" in record.getMessage()

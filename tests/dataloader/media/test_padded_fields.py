"""Texts beside media: fields of different lengths as one array, with a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.io.av.media import clip

from spdl.dataloader import AudioLoader, ClipLoader, ImageLoader
from spdl.io import pad

pytest.importorskip("torch", reason="needs PyTorch")

PHOTO = b"P6 4 3 255 " + bytes(4 * 3 * 3)
PAIRS: list[dict[str, Any]] = [
    {"image": PHOTO, "chosen": [1, 2, 3], "rejected": np.array([4], np.uint16)},
    {"image": PHOTO, "chosen": [5], "rejected": np.array([6, 7], np.uint16)},
]


def test_image_loader_pads_texts_beside_images() -> None:
    loader = ImageLoader(PAIRS, 2, size=8, pad=["chosen", "rejected"])
    (batch,) = loader
    assert batch.chosen.tolist() == [[1, 2, 3], [5, 0, 0]]
    assert batch.chosen_mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.rejected.tolist() == [[4, 0], [6, 7]]
    assert batch.image.shape == (2, 3, 8, 8)
    options = {"chosen": {"value": -100, "multiple": 8, "side": "left", "dtype": "int32"}}
    (batch,) = ImageLoader(PAIRS, 2, size=8, pad=options, output="numpy")
    assert np.array_equal(batch.chosen, pad([[1, 2, 3], [5]], **options["chosen"]).values)  # type: ignore[arg-type]
    assert isinstance(batch.rejected, list)


def test_image_loader_pads_the_samples_that_are_left() -> None:
    samples = [*PAIRS, {"image": b"broken", "chosen": [0] * 9, "rejected": np.zeros(0, np.uint16)}]
    (batch,) = ImageLoader(samples, 3, size=8, pad=["chosen"], on_error="skip")
    assert batch.chosen.shape == (2, 3)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"pad": "chosen"}, TypeError, "`pad` must be names of fields"),
        ({"pad": 3}, TypeError, "`pad` must be names of fields"),
        ({"pad": [3]}, TypeError, "`pad` must be names of fields"),
        ({"pad": {"chosen": {"length": 3}}}, TypeError, "`pad` must be names of fields"),
        ({"pad": {"chosen": {"multiple": 0}}}, ValueError, "`multiple` must be"),
        ({"pad": ["other"]}, ValueError, "`pad` must be a field of the samples besides 'image'"),
        ({"pad": ["image"]}, ValueError, "`pad` must be a field of the samples besides 'image'"),
        ({"pad": {"rejected": {"value": -1}}}, ValueError, "`value` must be a number that uint16"),
    ],
)
def test_image_loader_refuses_fields_that_it_cannot_pad(
    options: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        list(ImageLoader(PAIRS, 2, size=8, **options))
    samples = [{**sample, "chosen_mask": 1} for sample in PAIRS]
    with pytest.raises(ValueError, match="`pad` adds the field 'chosen_mask', which the samples have already"):
        list(ImageLoader(samples, 2, size=8, pad=["chosen"]))


def test_audio_loader_pads_texts_beside_sounds() -> None:
    wav = b"RIFF" + (36 + 400).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    wav += (1).to_bytes(2, "little") * 2 + (8000).to_bytes(4, "little") + (16000).to_bytes(4, "little")
    wav += (2).to_bytes(2, "little") + (16).to_bytes(2, "little") + b"data" + (400).to_bytes(4, "little") + bytes(400)
    samples = [{"media": wav, "text": [1]}, {"media": wav, "text": [2, 3]}]
    (batch,) = AudioLoader(samples, 2, sample_rate=8000, seconds=0.02, pad=["text"])
    assert batch.text.tolist() == [[1, 0], [2, 3]]


def test_clip_loader_pads_texts_beside_clips() -> None:
    samples = [{"media": str(clip("h264.mp4")), "text": [1, 2]}, {"media": str(clip("h264.mp4")), "text": [3]}]
    (batch,) = ClipLoader(samples, 2, num_frames=2, size=8, pad={"text": {"value": -1, "multiple": 4}})
    assert batch.text.tolist() == [[1, 2, -1, -1], [3, -1, -1, -1]]
    assert batch.text_mask.tolist() == [[True, True, False, False], [True, False, False, False]]
    assert batch.clip.shape == (2, 2, 3, 8, 8)

"""Arrays of numpy.ma: whatever would read them as if they had no mask refuses them, unless nothing is masked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.dataloader import ArrayLoader, ImageLoader, Mask, Pack, TextLoader, Values
from spdl.io import EncodeConfig, convert_array, encode_image, load_mask_batch, load_npz, pad, save_npy, save_npz
from spdl.source import BlockShuffledOrder, BucketedOrder, MixedOrder, PackedOrder, WeightedOrder

if TYPE_CHECKING:
    from collections.abc import Callable

PHOTO = b"P5 2 2 255 abcd"


def masked(values: Any, *, masks: bool = True) -> Any:
    array = np.array(values)
    return np.ma.MaskedArray(array, mask=np.arange(array.size).reshape(array.shape) == (1 if masks else -1))


def load(sample: dict[str, Any], **options: Any) -> Any:
    return next(iter(ImageLoader([{"image": PHOTO, **sample}], 1, size=2, output="numpy", num_threads=1, **options)))


def load_arrays(arrays: Any, **options: Any) -> Any:
    loader = ArrayLoader([{"file": arrays}], 1, data="x", label=None, output="numpy", num_threads=1, **options)
    return next(iter(loader))


def load_text(source: Any, **options: Any) -> Any:
    return next(iter(TextLoader(source, 1, length=4, output="numpy", num_threads=1, **options)))


def save(how: Callable[..., Any], given: Any) -> bytes:
    file = io.BytesIO()
    how(file, given)
    return file.getvalue()


def encode(array: Any) -> None:
    encode_image(io.BytesIO(), array, "gray", encode_config=EncodeConfig(format="png"))


WAYS: dict[str, Callable[[Any], Any]] = {
    "a field": lambda masks: load({"label": masked([1, 2, 3], masks=masks)}),
    "a number": lambda masks: load({"label": masked([1, 2, 3], masks=masks)[1]}),
    "a target": lambda masks: load({"seen": masked([1, 2, 3], masks=masks)}, targets={"seen": Values()}),
    "a mask": lambda masks: load({"ids": masked([[1, 2], [3, 4]], masks=masks)}, targets={"ids": Mask()}),
    "transform": lambda masks: load({}, transform=lambda image: masked(image, masks=masks)),
    "arrays": lambda masks: load_arrays({"x": masked([1, 2, 3], masks=masks)}),
    "load": lambda masks: load_arrays(b"", load=lambda _: masked([1, 2, 3], masks=masks)),
    "ragged": lambda masks: load_arrays({"x": masked([1, 2, 3], masks=masks)}, ragged={"data": "pad"}),
    "ids": lambda masks: load_text([masked([1, 2, 3], masks=masks)]),
    "records": lambda masks: load_text([{"input_ids": masked([1, 2, 3], masks=masks)}]),
    "loss_mask": lambda masks: load_text([{"input_ids": [1, 2, 3], "loss_mask": masked([1, 1, 1], masks=masks)}]),
    "labels": lambda masks: load_text([{"input_ids": [1, 2, 3], "labels": masked([1, 2, 3], masks=masks)}]),
    "tokenizer": lambda masks: load_text(["a"], tokenizer=lambda _: masked([1, 2, 3], masks=masks)),
    "Pack": lambda masks: Pack(4).accumulate(masked([1, 2, 3], masks=masks)),
    "pad": lambda masks: pad([masked([1, 2, 3], masks=masks)]),
    "save_npy": lambda masks: save(save_npy, masked([1, 2, 3], masks=masks)),
    "save_npz": lambda masks: load_npz(save(save_npz, {"a": masked([1, 2, 3], masks=masks)})),
    "convert_array": lambda masks: convert_array(masked([1, 2, 3], masks=masks)),
    "load_mask_batch": lambda masks: load_mask_batch([masked([[1, 2], [3, 4]], masks=masks)], width=2, height=2),
    "PackedOrder": lambda masks: PackedOrder(masked([1, 2, 3], masks=masks), 4),
    "BucketedOrder": lambda masks: BucketedOrder(masked([1, 2, 3], masks=masks), group=1),
    "BlockShuffledOrder": lambda masks: BlockShuffledOrder(6, block=masked([1, 2, 3], masks=masks), window=1),
    "WeightedOrder": lambda masks: WeightedOrder(masked([1.0, 2.0, 3.0], masks=masks), replacement=True),
    "MixedOrder": lambda masks: MixedOrder(
        [3, 3], unit="tokens", weights=[1, 1], lengths=[masked([1, 2, 3], masks=masks)] * 2
    ),
    "encode_image": lambda masks: encode(masked(np.eye(2, dtype=np.uint8), masks=masks)),
}


@pytest.mark.parametrize("way", WAYS)
def test_masked_elements_are_not_read_as_numbers(way: str) -> None:
    with pytest.raises(Exception, match=r"without masked elements, got masked.*its filled\("):
        WAYS[way](True)  # noqa: FBT003 - whether one is masked.
    # Some readers make such arrays of all that they read: netCDF4 does.
    WAYS[way](False)  # noqa: FBT003

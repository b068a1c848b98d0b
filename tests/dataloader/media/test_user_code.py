"""What code of the user's raises reaches the loop, and says of which sample it is."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from spdl.dataloader import ArrayLoader, ImageLoader, LabelledBatch
from spdl.io import save_npz


def make_npz(number: int) -> bytes:
    file = io.BytesIO()
    save_npz(file, {"image": np.full((2,), number), "label": np.array(number)})
    return file.getvalue()


FILES = [make_npz(number) for number in range(10)]


class Source(Sequence[bytes]):
    """Raises an error for the fifth file."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __len__(self) -> int:
        return len(FILES)

    def __getitem__(self, index: Any) -> Any:
        if index == 4:
            raise self._error
        return FILES[index]


def make(where: str, error: Exception, on_error: Any) -> ArrayLoader:
    def transform(data: Any) -> Any:
        if data[0] == 4:
            raise error
        return data

    def batch_transform(batch: LabelledBatch) -> LabelledBatch:
        if 4 in batch.index:
            raise error
        return batch

    functions = {"transform": transform, "batch_transform": batch_transform}
    source = Source(error) if where == "source" else FILES
    options: dict[str, Any] = {where: functions[where]} if where in functions else {}
    return ArrayLoader(source, 3, output="numpy", on_error=on_error, rank=0, world_size=1, **options)


SAYS = {
    "source": "looking up sample 4 of Source",
    "transform": "transforming sample 4, None",
    "batch_transform": "applying `batch_transform` to the batch of the samples [3, 4, 5]",
}


# What a source raises for a sample is a failure of that sample, if these are not errors.
RAISED = [(where, on_error) for where in SAYS for on_error in ("raise", "skip", "refill")]
RAISED = [(where, on_error) for where, on_error in RAISED if where != "source" or on_error == "raise"]


@pytest.mark.parametrize(("where", "on_error"), RAISED)
def test_an_exception_names_its_sample(where: str, on_error: str) -> None:
    error = ValueError("bad")
    batches = iter(make(where, error, on_error))
    assert next(batches).index.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^bad\b") as raised:
        next(batches)
    assert raised.value is error
    assert any(SAYS[where] in note for note in error.__notes__)


@pytest.mark.parametrize(("where", "on_error"), RAISED)
def test_stop_iteration_does_not_end_the_epoch_in_silence(where: str, on_error: str) -> None:
    error = StopIteration()
    loader = make(where, error, on_error)
    batches = iter(loader)
    assert next(batches).index.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="StopIteration was raised") as raised:
        next(batches)
    assert raised.value.__cause__ is error
    assert SAYS[where] in str(raised.value)
    assert (loader.epoch, loader.state_dict()["position"]) == (0, 3)


def test_a_transform_that_returns_nothing_is_an_error() -> None:
    photo = b"P6 4 3 255 " + bytes(4 * 3 * 3)
    loader = ImageLoader([(photo, 0)] * 3, 2, size=8, output="numpy", transform=lambda _: None)
    with pytest.raises(TypeError, match="`transform` returned None") as raised:
        next(iter(loader))
    assert any("transforming sample 0" in note for note in raised.value.__notes__)


def test_an_error_in_a_transform_says_what_it_got() -> None:
    photo = b"P6 4 3 255 " + bytes(4 * 3 * 3)
    loader = ImageLoader([(photo, 0)], 1, size=8, output="numpy", transform=lambda image: image.convert("L"))
    with pytest.raises(AttributeError) as raised:
        next(iter(loader))
    assert raised.value.__notes__[0] == "`transform` got a ndarray of uint8, (8, 8, 3)"

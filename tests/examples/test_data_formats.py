"""The formats of `data_formats.py` hold the same arrays, with every library that loads them."""

from __future__ import annotations

import io
import multiprocessing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

import data_formats  # noqa: E402 - it needs torch.
from _program.isolated import run_in_process  # noqa: E402

Array = NDArray[Any]


def arrays(data_format: str, *, compressed: bool = False) -> list[Array]:
    """Load a sample without using any part of the program."""
    data = data_formats.get_mock_data(data_format, compressed)
    if isinstance(data, tuple):
        return [np.load(io.BytesIO(it)) for it in data]
    if data_format == "npz":
        with np.load(io.BytesIO(data)) as file:
            return [file["img"], file["lbl"]]
    return [tensor.numpy() for tensor in torch.load(io.BytesIO(data), weights_only=True).values()]


@pytest.mark.parametrize(("data_format", "compressed", "impl"), data_formats.CONFIGS)
def test_every_library_loads_what_was_saved(data_format: str, compressed: bool, impl: str) -> None:  # noqa: FBT001
    loaded = data_formats.get_load_fn(data_format, impl)(data_formats.get_mock_data(data_format, compressed))
    saved = arrays(data_format, compressed=compressed)
    assert [array.shape for array in saved] == [(3, 640, 480), (640, 480)]
    assert len(loaded) == 2
    for ours, theirs in zip(loaded, saved, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_compressed_data_is_compressed_by_numpy() -> None:
    # Noise does not shrink, so check the method in the archive's first entry instead: deflate.
    data = data_formats.get_mock_data("npz", compressed=True)
    assert isinstance(data, bytes)
    assert int.from_bytes(data[8:10], "little") == 8


def test_a_pipeline_loads_every_item() -> None:
    source: data_formats.DataSource[Any] = data_formats.DataSource(data_formats.get_mock_data("npy"), repeat=5)
    with data_formats.get_executor(2, "mt") as executor:
        pipeline = data_formats.get_pipeline(source, data_formats.load_npy_spdl, 2, executor)
        num_items, seconds = data_formats.run_pipeline(pipeline)
    assert num_items == 5
    assert seconds > 0


def test_the_data_source_can_be_iterated_again() -> None:
    source = data_formats.DataSource("x", repeat=3)
    assert list(source) == list(source) == ["x"] * 3


def test_unknown_formats_and_modes_are_named() -> None:
    with pytest.raises(ValueError, match="`format` must be 'npz', 'npy' or 'torch', got 'wav'"):
        data_formats.get_mock_data("wav")
    with pytest.raises(ValueError, match="`mode` must be 'mt' or 'mp', got 'async'"):
        data_formats.get_executor(1, "async")


def leave_no_process() -> int:
    """Return how many processes a row with a pool of its own has left."""
    data_formats.measure_row(data_format="npy", compressed=False, impl="np", mode="mp", num_workers=2, repeat=4)
    return len(multiprocessing.active_children())


def test_a_row_leaves_no_pool_behind_that_its_process_would_wait_for() -> None:
    assert run_in_process(leave_no_process).result == 0

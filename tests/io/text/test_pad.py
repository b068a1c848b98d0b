"""Arrays of different lengths as one, compared with PyTorch and with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import pad

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=12), min_size=1, max_size=8)


@given(ROWS, st.integers(-3, 3), st.integers(1, 9), st.sampled_from(["right", "left"]))
def test_pad_fills_rows_as_pytorch_does(rows: list[list[int]], value: int, multiple: int, side: Any) -> None:
    arrays = [np.array(row, np.int32) for row in rows]
    values, mask, lengths = pad(arrays, value=value, multiple=multiple, side=side)
    tensors = [torch.from_numpy(array) for array in arrays]
    expected = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value, padding_side=side)
    more = -expected.shape[1] % multiple
    expected = torch.nn.functional.pad(expected, (0, more) if side == "right" else (more, 0), value=value)
    assert values.dtype == np.int32
    assert np.array_equal(values, expected.numpy())
    assert lengths.tolist() == list(map(len, rows))
    assert mask.dtype == np.bool_
    assert values[mask].tolist() == [number for row in rows for number in row]
    assert (values[~mask] == value).all()


def test_pad_keeps_further_axes() -> None:
    frames = [np.full((count, 2, 3), count, np.float32) for count in (2, 4)]
    values, mask, _ = pad(frames, value=-1)
    assert values.shape == (2, 4, 2, 3)
    assert values[0, :, 0, 0].tolist() == [2, 2, -1, -1]
    assert mask.tolist() == [[True, True, False, False], [True] * 4]


def test_pad_takes_lists_tensors_and_other_dtypes() -> None:
    values, _, _ = pad([[1, 2], torch.tensor([3]), []])
    assert values.tolist() == [[1, 2], [3, 0], [0, 0]]
    assert values.dtype == np.int64
    tokens = [np.array([7, 8], np.uint16), np.array([9], np.uint16)]
    assert pad(tokens, value=-100, dtype="int32").values.tolist() == [[7, 8], [9, -100]]
    assert pad([[True], [True, False]]).values.tolist() == [[True, False], [True, False]]
    assert pad([[]]).values.shape == (1, 0)


@pytest.mark.parametrize(
    ("arrays", "options", "error", "reason"),
    [
        ([], {}, ValueError, "`arrays` must be at least one array"),
        ([[1], 2], {}, TypeError, r"`arrays\[1\]` must be an array of numbers of at least one dimension"),
        ([[1], None], {}, TypeError, r"`arrays\[1\]` must be"),
        ([["a"]], {}, TypeError, r"`arrays\[0\]` must be an array of numbers"),
        ([[[1], [2, 3]]], {}, TypeError, r"`arrays\[0\]` must be an array, or a list of numbers"),
        ([[[1]], [[1, 2]]], {}, ValueError, r"`arrays\[1\]` must be an array of the shape \(any, 1\)"),
        ([np.ones(1, np.int32), np.ones(1)], {}, TypeError, "one dtype, or given a `dtype`; they have float64, int32"),
        ([np.ones(1, np.uint16)], {"value": -100}, ValueError, "`value` must be a number that uint16"),
        ([[1.5]], {"dtype": "int32"}, ValueError, r"`arrays\[0\]` must be an array whose values int32 can hold"),
        ([[70_000]], {"dtype": "uint16"}, ValueError, r"`arrays\[0\]` must be"),
        ([[1e9]], {"dtype": "float16"}, ValueError, r"`arrays\[0\]` must be an array whose values float16 can hold"),
        ([[1]], {"value": 0.5}, ValueError, "`value` must be"),
        ([[1]], {"multiple": 0}, ValueError, "`multiple` must be"),
        ([[1]], {"side": "top"}, ValueError, "`side` must be"),
    ],
)
def test_pad_refuses_arrays_that_are_not_one(
    arrays: Any, options: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        pad(arrays, **options)

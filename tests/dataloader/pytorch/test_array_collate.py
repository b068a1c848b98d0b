"""Batches of arrays are those that PyTorch makes, and so are the errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402
from torch.utils.data._utils.collate import default_collate_fn_map  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = ("?", "u1", "i2", "<i4", "i8", "f2", "f4", "f8", "c8", "c16", ">f4", "M8[s]", "U3", "O")


class Special(np.ndarray):
    """A subclass."""


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda array: array,
    "Fortran's": np.asfortranarray,
    "backwards": lambda array: array[::-1],
    "every second": lambda array: np.repeat(array, 2, axis=0)[::2],
    "a subclass": lambda array: array.view(Special),
}


@st.composite
def arrays(draw: st.DrawFn) -> list[Any]:
    """Draw arrays that are alike, or nearly so."""
    shape = draw(st.sampled_from([(3,), (2, 1), (2, 0), (5, 4, 3), (200, 30)]))
    dtypes = draw(st.one_of(st.sampled_from([(it,) for it in DTYPES]), st.just(("f4", "f8"))))
    layouts = draw(st.sampled_from([("as it is",), *[("as it is", it) for it in LAYOUTS]]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    items = []
    for _ in range(draw(st.integers(1, 5))):
        array = rng.integers(0, 2, shape).astype(draw(st.sampled_from(dtypes)))
        items.append(LAYOUTS[draw(st.sampled_from(layouts))](array))
    if draw(st.integers(0, 4)) == 0:
        items[-1] = draw(st.sampled_from([items[-1][:1], items[-1].tolist(), torch.zeros(shape), None]))
    return items


class _Error(NamedTuple):
    kind: type
    message: str


def _outcome(make: Any, items: list[Any], workers: int) -> Any:
    arguments = {"workers": "thread"} if make is PyTorchDataLoader else {}
    try:
        (batch,) = make(items, len(items), num_workers=workers, **arguments)
    except Exception as error:  # noqa: BLE001 - it is compared.
        return _Error(type(error), str(error).splitlines()[0])
    return batch


def _check_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            _check_same(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _check_same(one, other)
    else:
        # Strings, which `assert_close` does not compare.
        assert found == expected


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@settings(deadline=None, max_examples=300)
@given(arrays(), st.sampled_from(["alone", "in tuples", "in dicts"]), st.integers(0, 1))
def test_batches_and_errors_are_those_of_torch(items: list[Any], where: str, workers: int) -> None:
    wrap: dict[str, Callable[[int, Any], Any]] = {
        "alone": lambda _, it: it,
        "in tuples": lambda number, it: (it, number),
        "in dicts": lambda number, it: {"a": it, "b": [number, it]},
    }
    items = [wrap[where](*pair) for pair in enumerate(items)]
    expected, found = _outcome(DataLoader, items, 0), _outcome(PyTorchDataLoader, items, workers)
    if isinstance(expected, _Error):
        assert found == expected
    else:
        _check_same(found, expected)


def test_a_batch_is_its_own() -> None:
    items = [np.full(3, number) for number in range(4)]
    (batch,) = PyTorchDataLoader(items, 4)
    batch += 1
    assert [it.tolist() for it in items] == [[number] * 3 for number in range(4)]
    # As PyTorch's, it can be made larger.
    assert batch.resize_(5, 3).shape == (5, 3)


def _count(arrays: Any, *, collate_fn_map: Any) -> int:
    return len(arrays)


def test_a_function_that_a_user_registered_for_arrays_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(default_collate_fn_map, np.ndarray, _count)
    items = [np.zeros(3) for _ in range(4)]
    assert list(PyTorchDataLoader(items, 2)) == list(DataLoader(items, 2)) == [2, 2]

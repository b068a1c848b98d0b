"""Test what items weigh for the budget of bytes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.pipeline.support import source, wait_until

try:
    import torch
except ImportError:
    torch = None

_ARRAY = np.zeros((10, 100), np.float32)


def weigh(item: Any) -> int:
    """Return what an item that lies in a pipeline takes of its budget."""
    with source([item]).add_sink(1).build(num_threads=1, max_bytes=10**9).auto_stop() as pipeline:
        assert wait_until(lambda: pipeline.statistics().stages[-1].queue_size == 1)
        return pipeline.statistics().bytes_in_flight


@dataclass
class Sample:
    """A dataclass."""

    image: Any
    label: int = 3


@dataclass(slots=True, frozen=True)
class Slotted:
    """One with slots."""

    image: Any
    label: str = "12"
    late: Any = field(init=False)


class Named(NamedTuple):
    """A named tuple."""

    image: Any
    label: int = 3


class Known:
    """An object that says what it keeps."""

    def __init__(self) -> None:
        self.nbytes = 77


class Asked:
    """An object whose code must not run."""

    @property
    def nbytes(self) -> int:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError

    def __iter__(self) -> Any:
        raise AssertionError

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


class AskedList(list[Any]):
    """A list whose code must not run."""

    def __iter__(self) -> Any:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


class AskedArray(np.ndarray[Any, Any]):
    """An array whose code must not run."""

    @property
    def nbytes(self) -> int:
        raise AssertionError


@pytest.mark.parametrize(
    ("item", "weight"),
    [
        (b"123", 3),
        (bytearray(5), 5),
        ("text", 4),
        (memoryview(bytes(6)), 6),
        (array("d", [1, 2]), 16),
        (_ARRAY, 4000),
        (_ARRAY[:5], 2000),
        ([_ARRAY, b"12"], 4002),
        ((_ARRAY, _ARRAY), 4000),
        ({"image": _ARRAY, "rest": [{"deep": b"1"}]}, 4001),
        ({b"12", b"34"}, 4),
        (Sample(_ARRAY), 4000),
        (Slotted(_ARRAY), 4002),
        (Named(_ARRAY), 4000),
        (Known(), 77),
        (3, 0),
        (None, 0),
        (object(), 0),
        (Asked(), 0),
        (AskedList([b"12", b"3"]), 3),
        (_ARRAY.view(AskedArray), 4000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_known_counts_once_and_no_code_of_the_users_runs(item: Any, weight: int) -> None:
    assert weigh(item) == weight


def test_what_contains_itself_and_what_has_very_many_parts_ends() -> None:
    endless: list[Any] = [b"12"]
    endless.append(endless)
    assert weigh(endless) == 2
    weigh([[number] for number in range(300_000)])


@pytest.mark.skipif(torch is None, reason="needs PyTorch")
def test_tensors() -> None:
    class Own(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise AssertionError

    tensor = torch.zeros(100, dtype=torch.float16)
    assert weigh(tensor) == weigh([tensor.as_subclass(Own)]) == 200

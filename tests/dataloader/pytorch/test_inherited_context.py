"""Worker threads have what the loop's thread has set for itself, as forked processes of torch's do."""

from __future__ import annotations

import contextvars
import decimal
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")

CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no autocast": lambda: torch.autocast("cpu", enabled=False),
    "decimal": lambda: decimal.localcontext(decimal.Context(prec=5)),
}
if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    CONTEXTS["errstate"] = lambda: np.errstate(divide="raise")


def seen(index: int) -> tuple[Any, ...]:
    """Return what this thread has set, and what it computes."""
    weight = torch.nn.Parameter(torch.ones(2, 2))
    product = weight @ torch.ones(2, 2)
    try:
        divided = str(np.float64(1) / np.float64(0))
    except FloatingPointError:
        divided = "raises"
    return (
        index,
        torch.is_grad_enabled(),
        product.requires_grad,
        product.is_inference(),
        product.dtype,
        str(decimal.Decimal(1) / 3),
        divided,
        VARIABLE.get(),
    )


class Items:
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return seen(index)


class Stream(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(seen, range(6))


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CONTEXTS)
def test_threads_inherit_it(name: str, *, stream: bool) -> None:
    dataset = Stream() if stream else Items()
    workers = 1 if stream else 3
    token = VARIABLE.set("set")
    try:
        with CONTEXTS[name]():
            expected = list(DataLoader(dataset, batch_size=None))
            got = list(PyTorchDataLoader(dataset, batch_size=None, num_workers=workers, workers="thread"))
    finally:
        VARIABLE.reset(token)
    assert got == expected
    assert {each[-1] for each in got} == {"set"}


def test_what_a_worker_sets_stays_with_it() -> None:
    class Counts:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, _: int) -> int:
            VARIABLE.set(VARIABLE.get() + "+")
            return len(VARIABLE.get())

    loader = PyTorchDataLoader(Counts(), batch_size=None, num_workers=1, workers="thread")
    assert list(loader) == [len("unset") + count for count in range(1, 21)]
    assert VARIABLE.get() == "unset"
    # A new iteration has new workers.
    assert next(iter(loader)) == len("unset") + 1


def test_a_loader_has_a_type_of_batches() -> None:
    def train(loader: PyTorchDataLoader[int]) -> list[int]:  # type: ignore[type-arg] # it has types where torch is.
        return list(loader)

    assert get_type_hints(train)["loader"] == PyTorchDataLoader[int]  # type: ignore[misc]
    assert train(PyTorchDataLoader([1, 2], batch_size=None)) == [1, 2]

"""Exceptions of the dataset come through, with the index and the user's traceback, and the loader goes on."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import SIZE, Squares, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


class TwoArguments(Exception):  # noqa: N818 - a name for it.
    """Cannot be made of a message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


def _raise(error: type[BaseException]) -> None:
    if error is TwoArguments:
        raise TwoArguments(7, "seven")
    raise error("item 5 is broken")


class Broken(Squares):
    """Cannot load one item."""

    def __init__(self, error: type[BaseException] = KeyError) -> None:
        self.error = error

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            _raise(self.error)
        return super().__getitem__(index)


WORKERS: dict[str, dict[str, Any]] = {
    "caller": {},
    "threads": {"num_workers": 2, "workers": "thread"},
    "processes": {"num_workers": 2, "workers": "process"},
}


def _read(loader: Any) -> tuple[list[Any], list[BaseException]]:
    """Return all batches and all exceptions."""
    batches: list[Any] = []
    errors: list[BaseException] = []
    iterator = iter(loader)
    while True:
        try:
            batches.append(plain(next(iterator)))
        except StopIteration:
            return batches, errors
        except Exception as error:  # noqa: BLE001 - whichever it is.
            errors.append(error)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("error", [KeyError, ValueError, OSError, ZeroDivisionError])
def test_the_type_is_kept_and_the_loop_can_go_on(error: Any, workers: str) -> None:
    batches, errors = _read(PyTorchDataLoader(Broken(error), 4, **WORKERS[workers]))
    assert [type(it) for it in errors] == [error]
    # All others are there, in their order.
    whole = [plain(batch) for batch in DataLoader(Squares(), 4)]
    assert batches == [whole[0], *whole[2:]]
    assert _read(DataLoader(Broken(error), 4))[0] == batches


@pytest.mark.parametrize("workers", WORKERS)
def test_the_index_and_the_users_line_are_shown(workers: str) -> None:
    _, errors = _read(PyTorchDataLoader(Broken(), 4, **WORKERS[workers]))
    shown = "".join(traceback.format_exception(errors[0]))
    assert "dataset's number 5" in shown
    assert 'raise error("item 5 is broken")' in shown
    assert "in __getitem__" in shown
    if workers != "processes":
        assert errors[0].args == ("item 5 is broken",)


@pytest.mark.parametrize("workers", WORKERS)
def test_an_exception_with_arguments_of_its_own(workers: str) -> None:
    _, errors = _read(PyTorchDataLoader(Broken(TwoArguments), 4, **WORKERS[workers]))
    # torch cannot make one in another process.
    assert type(errors[0]) is (RuntimeError if workers == "processes" else TwoArguments)
    assert "TwoArguments" in "".join(traceback.format_exception(errors[0]))


@pytest.mark.parametrize("workers", WORKERS)
def test_stop_iteration_of_an_item_is_no_end(workers: str) -> None:
    batches, errors = _read(PyTorchDataLoader(Broken(StopIteration), 4, **WORKERS[workers]))
    assert len(batches) == 5
    assert [type(it) for it in errors] == [RuntimeError]
    assert "raised StopIteration" in str(errors[0])


@pytest.mark.parametrize("workers", ["caller", "threads"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exceptions_that_end_a_program_come_through(error: Any, workers: str) -> None:
    with pytest.raises(error):
        list(PyTorchDataLoader(Broken(error), 4, **WORKERS[workers]))


def _fail(items: list[Any]) -> Any:
    raise ValueError(f"{len(items)} items do not fit")


@pytest.mark.parametrize("workers", WORKERS)
def test_exceptions_of_collate_fn(workers: str) -> None:
    batches, errors = _read(PyTorchDataLoader(Squares(), 20, collate_fn=_fail, **WORKERS[workers]))
    assert not batches
    shown = ["".join(traceback.format_exception(error)) for error in errors]
    assert "20 items do not fit" in shown[0]
    assert "3 items do not fit" in shown[1]
    assert "[20, 21, 22]" in shown[1]


class Failing:
    """A sampler that fails."""

    def __iter__(self) -> Iterator[int]:
        yield from range(6)
        raise OSError("the list of photos ends here")

    def __len__(self) -> int:
        return SIZE


@pytest.mark.parametrize("workers", ["caller", "threads"])
def test_a_samplers_exception_comes_after_the_batches_before_it(workers: str) -> None:
    batches, errors = _read(PyTorchDataLoader(Squares(), 2, sampler=Failing(), **WORKERS[workers]))
    assert [batch[1][1][1] for batch in batches] == [[0, 1], [2, 3], [4, 5]]
    assert [type(it) for it in errors] == [OSError]


class Interrupted(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Fails once it has yielded some items."""

    def __iter__(self) -> Iterator[int]:
        yield from range(5)
        raise ConnectionError("the server is gone")


@pytest.mark.parametrize("workers", WORKERS)
def test_exceptions_of_an_iterable_dataset(workers: str) -> None:
    batches, errors = _read(PyTorchDataLoader(Interrupted(), 2, **WORKERS[workers]))
    copies = WORKERS[workers].get("num_workers", 1)
    assert len(batches) == 2 * copies
    assert [type(it) for it in errors] == [ConnectionError] * copies


@pytest.mark.parametrize("workers", WORKERS)
def test_the_loader_is_usable_afterwards(workers: str) -> None:
    loader = PyTorchDataLoader(Broken(), 4, **WORKERS[workers])
    for _ in range(2):
        with pytest.raises(KeyError):
            list(loader)
    assert len(_read(loader)[0]) == 5

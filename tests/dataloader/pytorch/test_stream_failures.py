"""After an exception of an iterable dataset, what comes next is what torch's processes yield; also after a resume."""

from __future__ import annotations

import gc
import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:.*multi-threaded")

BAD = (7, 12, 13, 26)


def _own(numbers: int) -> list[int]:
    """Return the numbers of this worker, of which the first worker has the fewest."""
    info = get_worker_info()
    worker, count = (0, 1) if info is None else (info.id, info.num_workers)
    return [number for number in range(numbers) if (number * number) % (count + 1) % count == worker]


class Breaks(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """A generator, which is over after its first exception."""

    def __iter__(self) -> Iterator[int]:
        for number in _own(30):
            if number in BAD:
                raise ConnectionError(f"number {number} is bad")
            yield number


class GoesOn(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Its iterator goes on after an exception."""

    def __iter__(self) -> Any:
        return _Walk(_own(30))


class _Walk:
    def __init__(self, numbers: list[int]) -> None:
        self._numbers = iter(numbers)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        number = next(self._numbers)
        if number in BAD:
            raise ConnectionError(f"number {number} is bad")
        return number


class Remembers(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Its iterator goes on after an exception, and the dataset saves how far it is."""

    def __init__(self) -> None:
        self.passed = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        numbers = _own(30)
        if self.passed == len(numbers):
            raise StopIteration
        self.passed += 1
        if numbers[self.passed - 1] in BAD:
            raise ConnectionError(f"number {numbers[self.passed - 1]} is bad")
        return numbers[self.passed - 1]

    def state_dict(self) -> dict[str, int]:
        return {"passed": self.passed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.passed = state["passed"]


class Sound(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Has nothing against any number."""

    def __iter__(self) -> Iterator[int]:
        return iter(_own(30))


def collate(items: Any) -> Any:
    """Return the items, if none is bad."""
    if any(item in BAD for item in (items if isinstance(items, list) else [items])):
        raise ValueError(f"{items} does not go together")
    return items


DATASETS: dict[str, dict[str, Any]] = {
    "breaks": {"dataset": Breaks},
    "goes on": {"dataset": GoesOn},
    "remembers": {"dataset": Remembers},
    "collate_fn": {"dataset": Sound, "collate_fn": collate},
}


def _make(kind: Any, case: str, **options: Any) -> Any:
    return kind(**{**DATASETS[case], "dataset": DATASETS[case]["dataset"](), **options})


def _read(loader: Any, most: int = 99) -> list[Any]:
    """Return batches and the first lines of exceptions, as many as there are or as are wanted, as they come."""
    found: list[Any] = []
    iterator = iter(loader)
    while len(found) < most:
        try:
            found.append(plain(next(iterator)))
        except StopIteration:
            break
        except (ConnectionError, ValueError) as error:
            # A process sends the text of its traceback.
            found.append((type(error).__name__, _last(str(error))))
    return found


def _last(text: str) -> str:
    lines = [line.rpartition("Error: ")[2] for line in text.splitlines()]
    return next(line for line in reversed(lines) if line.endswith(("is bad", "go together")))


@cache
def _torchs(case: str, **options: Any) -> list[Any]:
    return _read(_make(DataLoader, case, **options))


FORMS: list[dict[str, Any]] = [{"batch_size": None}, {"batch_size": 3, "drop_last": True}]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("case", DATASETS)
def test_what_follows_an_exception_is_what_follows_in_torch(case: str, num_workers: int, form: dict[str, Any]) -> None:
    expected = _torchs(case, num_workers=num_workers, **form)
    assert any(isinstance(it, tuple) and it[0].endswith("Error") for it in expected)
    for prefetch in (1, 2, 5) if num_workers else (None,):
        loader = _make(
            PyTorchDataLoader, case, num_workers=num_workers, workers="thread", prefetch_factor=prefetch, **form
        )
        for _ in range(2):
            # The dataset that goes on is over in its second epoch, where it is iterated by the caller itself.
            assert _read(loader) == expected
            if case == "remembers" and not num_workers:
                break


@pytest.mark.parametrize("case", DATASETS)
def test_processes_of_ours_do_so_too(case: str) -> None:
    loader = _make(PyTorchDataLoader, case, num_workers=2, workers="process", batch_size=2)
    assert _read(loader) == _torchs(case, num_workers=2, batch_size=2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("case", DATASETS)
def test_a_run_that_is_cut_after_any_of_them_goes_on(case: str, num_workers: int, form: dict[str, Any]) -> None:
    options = {"num_workers": num_workers, "workers": "thread", **form}
    whole = _read(_make(PyTorchDataLoader, case, **options))
    for cut in range(len(whole) + 1):
        loader = _make(PyTorchDataLoader, case, **options)
        assert _read(loader, cut) == whole[:cut]
        state = json.loads(json.dumps(loader.state_dict()))
        other = _make(PyTorchDataLoader, case, **options)
        other.load_state_dict(state)
        assert other.state_dict() == state
        assert _read(other) == whole[cut:]


@pytest.mark.parametrize("case", DATASETS)
def test_so_does_one_in_processes(case: str) -> None:
    options = {"num_workers": 2, "workers": "process", "batch_size": 2}
    whole = _torchs(case, num_workers=2, batch_size=2)
    first = next(number for number, it in enumerate(whole) if it[0].endswith("Error"))
    for cut in (first, first + 1):
        loader = _make(PyTorchDataLoader, case, **options)
        assert _read(loader, cut) == whole[:cut]
        other = _make(PyTorchDataLoader, case, **options)
        other.load_state_dict(loader.state_dict())
        assert _read(other) == whole[cut:]
        # torch's exceptions hold its iterators until they are collected, and so the processes.
        gc.collect()

"""Bad arguments raise what PyTorch's own class raises."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import Parts, Squares, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES: dict[str, Callable[[], dict[str, Any]]] = {
    "negative workers": lambda: {"num_workers": -1},
    "workers that are no number": lambda: {"num_workers": "2"},
    "negative timeout": lambda: {"timeout": -0.5},
    "timeout that is no number": lambda: {"timeout": "1"},
    "timeout without workers": lambda: {"timeout": 1},
    "prefetch without workers": lambda: {"prefetch_factor": 2},
    "negative prefetch": lambda: {"num_workers": 1, "prefetch_factor": -1},
    "timeout with a flag for workers": lambda: {"num_workers": False, "timeout": 2},
    "no prefetch": lambda: {"num_workers": 1, "prefetch_factor": 0},
    "no prefetch with a flag for workers": lambda: {"num_workers": True, "prefetch_factor": 0},
    "no prefetch of a dataset that is iterated": lambda: {"dataset": Parts(), "num_workers": 2, "prefetch_factor": 0},
    "no prefetch without workers": lambda: {"prefetch_factor": 0},
    "prefetch that is no int": lambda: {"num_workers": 1, "prefetch_factor": 1.5},
    "workers that are no int": lambda: {"num_workers": 2.0},
    "workers that are no int, of a dataset that is iterated": lambda: {"dataset": Parts(), "num_workers": 2.0},
    "persistent without workers": lambda: {"persistent_workers": True},
    "batch size of zero": lambda: {"batch_size": 0},
    "negative batch size": lambda: {"batch_size": -3},
    "batch size that is no number": lambda: {"batch_size": "3"},
    "drop_last that is no flag": lambda: {"drop_last": "no"},
    "drop_last without batches": lambda: {"batch_size": None, "drop_last": True},
    "sampler and shuffle": lambda: {"sampler": [1], "shuffle": True},
    "batch sampler and batch size": lambda: {"batch_sampler": [[1]], "batch_size": 2},
    "batch sampler and sampler": lambda: {"batch_sampler": [[1]], "sampler": [1]},
    "batch sampler and shuffle": lambda: {"batch_sampler": [[1]], "shuffle": True},
    "batch sampler and drop_last": lambda: {"batch_sampler": [[1]], "drop_last": True},
    "context without workers": lambda: {"multiprocessing_context": "fork"},
    "unknown context": lambda: {"num_workers": 1, "multiprocessing_context": "thread"},
    "context that is none": lambda: {"num_workers": 1, "multiprocessing_context": 3},
    "generator that is none": lambda: {"generator": 3},
    "shuffle by a generator that is none": lambda: {"generator": 3, "shuffle": True},
    "shuffled nothing": lambda: {"dataset": [], "shuffle": True},
    "unknown argument": lambda: {"batchsize": 3},
    "shuffled iterable": lambda: {"dataset": Parts(), "shuffle": True},
    "iterable with a sampler": lambda: {"dataset": Parts(), "sampler": [1]},
    "iterable with a batch sampler": lambda: {"dataset": Parts(), "batch_sampler": [[1]]},
    "dataset without length": lambda: {"dataset": object()},
    "sampler that is none": lambda: {"sampler": 3},
    "batch sampler that is none": lambda: {"batch_sampler": 3},
    "collate_fn that is none": lambda: {"collate_fn": 3},
    "index out of range": lambda: {"sampler": [99]},
    "key for an index": lambda: {"sampler": ["a"]},
    "items of different sizes": lambda: {"dataset": [torch.zeros(1), torch.zeros(2)], "batch_size": 2},
    "items of no type for batches": lambda: {"dataset": [object(), object()], "batch_size": 2},
    "empty batch": lambda: {"batch_sampler": [[]]},
}


def _outcome(make: Callable[..., Any], arguments: dict[str, Any]) -> tuple[type[BaseException] | None, str]:
    try:
        list(make(**{"dataset": Squares(), **arguments}))
    except Exception as error:  # noqa: BLE001 - whichever it is.
        return type(error), re.sub(r"PyTorchDataLoader|_DataLoader|0x\w+", "DataLoader", str(error))
    return None, ""


# torch's own iterator fails once more when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_exception_is_torchs(mistake: str) -> None:
    kind, message = _outcome(DataLoader, MISTAKES[mistake]())
    found_kind, found_message = _outcome(PyTorchDataLoader, MISTAKES[mistake]())
    assert found_kind is kind
    assert kind is not None
    # Some releases of torch have less to say.
    assert found_message == message or not message
    for workers in ("thread", "process"):
        assert _outcome(PyTorchDataLoader, {**MISTAKES[mistake](), "workers": workers}) == (found_kind, found_message)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("mistake", ["index out of range", "items of different sizes", "collate_fn that is none"])
def test_in_threads_the_exception_is_the_callers(mistake: str, num_workers: int) -> None:
    arguments = MISTAKES[mistake]()
    expected = _outcome(DataLoader, arguments)
    assert _outcome(PyTorchDataLoader, {**arguments, "num_workers": num_workers}) == expected


@pytest.mark.parametrize("dataset", [Squares, Parts])
def test_flags_are_numbers_as_for_torch(dataset: Any) -> None:
    flags: list[dict[str, Any]] = [
        {"num_workers": True, "prefetch_factor": True, "timeout": True},
        {"num_workers": False},
    ]
    for arguments in flags:
        expected = [plain(batch) for batch in DataLoader(dataset(), 4, **arguments)]
        for workers in ("thread", "process"):
            loader = PyTorchDataLoader(dataset(), 4, workers=workers, **arguments)
            assert [plain(batch) for batch in loader] == expected


@pytest.mark.parametrize("dataset", [Squares, Parts])
def test_a_timeout_that_is_no_number_is_none_as_for_torch(dataset: Any) -> None:
    arguments: dict[str, Any] = {"num_workers": 1, "timeout": float("nan")}
    expected = [plain(batch) for batch in DataLoader(dataset(), 4, **arguments)]
    assert [plain(batch) for batch in PyTorchDataLoader(dataset(), 4, workers="thread", **arguments)] == expected


@pytest.mark.parametrize("workers", ["fork", 3, "", "threads"])
def test_unknown_workers_are_refused(workers: Any) -> None:
    accepted = "'thread', 'process' or None"
    with pytest.raises(ValueError, match=rf"`workers` must be {accepted}, got .*test_bad_arguments.py:\d"):
        PyTorchDataLoader(Squares(), workers=workers)


@pytest.mark.parametrize("name", ["batch_size", "dataset", "sampler", "batch_sampler", "persistent_workers"])
def test_what_torch_lets_nobody_set_cannot_be_set(name: str) -> None:
    loader = PyTorchDataLoader(Squares())
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after PyTorchDataLoader is initialized"):
        setattr(loader, name, None)


def test_an_iterator_cannot_be_pickled() -> None:
    loader = PyTorchDataLoader(Squares(), num_workers=2)
    copied = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own.
    assert len(list(copied)) == 23
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(loader))

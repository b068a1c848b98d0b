"""The function of spdl 0.8.0: worker processes, and its own rules for arguments."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import SIZE, Parts, Squares, collate_sum, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, SequentialSampler, get_worker_info  # noqa: E402

from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def test_its_workers_are_processes_and_come_in_any_order() -> None:
    loader = get_pytorch_dataloader(Squares(), 4, num_workers=2)
    assert type(loader) is PyTorchDataLoader
    assert loader.worker_choice.kind == "process"
    assert not loader.in_order
    assert len(loader) == 6
    expected = sorted(str(plain(batch)) for batch in DataLoader(Squares(), 4))
    assert sorted(str(plain(batch)) for batch in loader) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4, "sampler": [3, 1, 2]},
        {"batch_size": None},
        {"batch_size": None, "batch_sampler": [[1, 2], [3]]},
        {"batch_size": 5, "drop_last": True, "collate_fn": collate_sum},
        # A sampler that is false is one nevertheless.
        {"batch_size": 2, "sampler": []},
    ],
)
def test_in_order_the_batches_are_torchs(arguments: dict[str, Any]) -> None:
    torch.manual_seed(2)
    settings = {**arguments, "batch_size": 1} if "batch_sampler" in arguments else arguments
    expected = [plain(batch) for batch in DataLoader(Squares(), num_workers=1, **settings)]
    torch.manual_seed(2)
    loader = get_pytorch_dataloader(Squares(), in_order=True, **arguments)
    assert [plain(batch) for batch in loader] == expected


class Recorded:
    """Writes down when it is unpickled, and where."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pickled = 0

    def __getstate__(self) -> Any:
        self.pickled += 1
        return self.folder

    def __setstate__(self, folder: str) -> None:
        self.folder = folder
        self.pickled = 0
        begin = time.monotonic()
        time.sleep(0.2)
        Path(folder, str(os.getpid())).write_text(f"{begin} {time.monotonic()}", encoding="utf-8")

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return index, info.dataset is self


@pytest.mark.parametrize("at_once", [None, 1])
def test_the_dataset_is_pickled_once(tmp_path: Path, at_once: int | None) -> None:
    dataset = Recorded(str(tmp_path))
    loader = get_pytorch_dataloader(
        dataset, None, num_workers=2, multiprocessing_context="spawn", worker_init_concurrency=at_once
    )
    assert sorted(loader) == [[index, True] for index in range(6)]
    assert dataset.pickled == 1
    times = sorted([float(word) for word in file.read_text().split()] for file in tmp_path.iterdir())
    assert len(times) == 2
    if at_once == 1:
        assert times[1][0] >= times[0][1]


class Unpicklable(Squares):
    """Can be pickled, and not be unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise OSError("the list of photos is on another machine")


def test_a_dataset_that_cannot_be_unpickled_is_an_error() -> None:
    loader = get_pytorch_dataloader(Unpicklable(), multiprocessing_context="spawn")
    with pytest.raises(OSError, match="the list of photos is on another machine"):
        list(loader)


MISTAKES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "iterable": (lambda: {"dataset": Parts()}, "`dataset` must be map-style"),
    "worker_init_fn": (lambda: {"worker_init_fn": print}, "`worker_init_fn` must be left out"),
    "persistent_workers": (lambda: {"persistent_workers": True}, "`persistent_workers` must be left out"),
    "pin_memory_device": (lambda: {"pin_memory_device": "cuda"}, "`pin_memory_device` must be left out"),
    "timeout": (lambda: {"timeout": -1}, "`timeout` must be a number of seconds of at least 0"),
    "num_workers": (lambda: {"num_workers": -1}, "`num_workers` must be an int of at least 0"),
    "concurrency": (lambda: {"worker_init_concurrency": 0}, "`worker_init_concurrency` must be an int of at least 1"),
    "prefetch_factor": (lambda: {"prefetch_factor": 0}, "`prefetch_factor` must be an int of at least 1"),
    "two samplers": (
        lambda: {"sampler": SequentialSampler(range(3)), "batch_sampler": [[1]]},
        "`sampler` and `batch_sampler` exclude each other",
    ),
    "batch size and sampler of batches": (lambda: {"batch_sampler": [[1]]}, "`batch_size` and .*Pass batch_size=None"),
    "shuffled sampler": (lambda: {"sampler": [1], "shuffle": True}, "`shuffle` and `sampler` exclude each other"),
    "shuffled batches": (
        lambda: {"batch_sampler": [[1]], "batch_size": None, "shuffle": True},
        "`shuffle` and `batch_sampler` exclude each other",
    ),
    "drop_last of batches": (
        lambda: {"batch_sampler": [[1]], "batch_size": None, "drop_last": True},
        "`drop_last` and `batch_sampler` exclude each other",
    ),
    "drop_last without batches": (
        lambda: {"batch_size": None, "drop_last": True},
        "`drop_last` and `batch_size` exclude each other",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_arguments_that_are_not_accepted(mistake: str) -> None:
    arguments, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        get_pytorch_dataloader(**{"dataset": Squares(), **arguments()})


def test_no_workers_become_one() -> None:
    with pytest.warns(UserWarning, match="`num_workers` is 0, and becomes 1"):
        loader = get_pytorch_dataloader(Squares(), num_workers=0)
    assert loader.num_workers == 1
    assert len(list(loader)) == SIZE

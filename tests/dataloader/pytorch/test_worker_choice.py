"""Workers are threads unless something speaks against it, and the loader says what."""

from __future__ import annotations

import io
import logging
import sqlite3
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import ITERABLES, MAPS, Parts, Squares, collate_sum

torch = pytest.importorskip("torch")
from torch.utils.data import ConcatDataset, Subset  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Holding(Squares):
    """Holds something, and prints it with each item."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getitem__(self, index: int) -> Any:
        return index, f"{self.held}"


class Opening(Squares):
    """Opens its file with the first item."""

    file: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = io.BytesIO(b"")
        return super().__getitem__(index)


class OpeningElsewhere(Squares):
    """Opens its file in a function of a method that calls another."""

    def __getitem__(self, index: int) -> Any:
        self._prepare()
        return super().__getitem__(index)

    def _prepare(self) -> None:
        def open_it() -> None:
            self.file = io.BytesIO(b"")

        open_it()


class Caching(Squares):
    """Keeps what it has loaded."""

    def __init__(self) -> None:
        self.cache: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            self.cache[index] = torch.tensor(index)
        return self.cache[index]


class Jitter:
    """A transform that remembers its last draw."""

    def __call__(self, item: Any) -> Any:
        self.last = item
        return item


class Plain:
    """A transform that remembers nothing."""

    def __init__(self) -> None:
        self.size = 3

    def __call__(self, item: Any) -> Any:
        return item


class Compose:
    """Applies transforms."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, item: Any) -> Any:
        for transform in self.transforms:
            item = transform(item)
        return item


class Transforming(Squares):
    """Applies a transform."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.tensor(index))


class Views(Squares):
    """Yields parts of its own array."""

    def __init__(self) -> None:
        self.rows = torch.zeros(3, 2)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


def closed_database() -> sqlite3.Connection:
    """Return a connection that is closed, since Python warns of one that is not when it lets go of it."""
    connection = sqlite3.connect(":memory:")
    connection.close()
    return connection


def circle() -> Any:
    """Return a dataset that holds itself."""
    dataset = Holding(None)
    dataset.held = [dataset]
    return dataset


def keep_items(items: list[Any]) -> list[Any]:
    """Make no batch."""
    return items


SAFE: dict[str, Callable[[], Any]] = {
    **MAPS,
    "plain transforms": lambda: Transforming(Compose(Plain(), Plain())),
    "a module of torch": lambda: Transforming(torch.nn.Sequential(torch.nn.ReLU())),
    "many paths": lambda: Holding([f"{number}.jpg" for number in range(100)]),
    "itself": circle,
}
UNSAFE: dict[str, tuple[Callable[[], Any], str]] = {
    "a file in memory": (lambda: Holding(io.BytesIO(b"")), "`dataset.held` is a _io.BytesIO, and it is not known"),
    "a database": (lambda: Holding(closed_database()), "`dataset.held` is a sqlite3.Connection"),
    "a generator": (lambda: Holding(number for number in range(3)), "`dataset.held` is a generator"),
    "a file in a list": (lambda: Holding([0, io.StringIO()]), r"`dataset.held\[...\]` is a _io.StringIO"),
    "a file in a dict": (lambda: Holding({"a": io.StringIO()}), r"`dataset.held\[...\]` is a _io.StringIO"),
    "a file of a subset": (lambda: Subset(Holding(io.StringIO()), [1]), "`dataset.dataset.held` is a _io.StringIO"),
    "opened late": (
        Opening,
        r"`dataset.file` is changed while an item is loaded.*test_worker_choice.py:\d+: `self.file`\)",
    ),
    "opened later": (OpeningElsewhere, "`dataset.file` is changed while an item is loaded"),
    "opened late, inside": (
        lambda: ConcatDataset([Squares(), Opening()]),
        r"`dataset.datasets\[...\].file` is changed while an item is loaded",
    ),
    "a cache": (Caching, "`dataset.cache` is changed while an item is loaded"),
    "a transform": (
        lambda: Transforming(Compose(Plain(), Jitter())),
        r"`dataset.transform.transforms\[...\].last` is changed .*`self.last`",
    ),
}


@pytest.mark.parametrize("dataset", SAFE)
def test_threads_may_share_it(dataset: str) -> None:
    choice = PyTorchDataLoader(SAFE[dataset](), num_workers=2).worker_choice
    assert choice == ("thread", "the code that loads an item only reads what threads share")


@pytest.mark.parametrize("dataset", UNSAFE)
def test_threads_must_not_share_it(dataset: str) -> None:
    make, reason = UNSAFE[dataset]
    choice = PyTorchDataLoader(make(), num_workers=2).worker_choice
    assert choice.kind == "process"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(choice.reason)
    assert "workers='thread' says that threads may share it" in choice.reason
    assert PyTorchDataLoader(make(), num_workers=2, workers="thread").worker_choice.kind == "thread"


def test_batches_that_hold_what_the_dataset_holds_are_not_made_in_threads() -> None:
    # Collation copies, unless it is left out.
    assert PyTorchDataLoader(Views(), num_workers=1).worker_choice.kind == "thread"
    choice = PyTorchDataLoader(Views(), num_workers=1, collate_fn=keep_items).worker_choice
    assert choice.kind == "process"
    assert "a batch may hold `dataset.rows` itself, which the loop could change" in choice.reason


class Sizes:
    """A batch sampler that says how large items are."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[list[int]]:
        yield [0, 1]


def test_samplers_that_hold_the_dataset_could_change_it() -> None:
    dataset = Views()
    choice = PyTorchDataLoader(dataset, num_workers=1, batch_sampler=Sizes(dataset)).worker_choice
    assert choice.kind == "process"
    assert "the Sizes holds a Views of the dataset, which it could change at the same time" in choice.reason
    assert PyTorchDataLoader(dataset, num_workers=1, batch_sampler=Sizes([])).worker_choice.kind == "thread"


def test_code_without_a_source_is_not_followed() -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec("def collate(items):\n    return len(items)", names)  # noqa: S102 - what has no source.
    choice = PyTorchDataLoader(Squares(), num_workers=1, collate_fn=names["collate"]).worker_choice
    assert choice.kind == "process"
    assert "the code of `collate_fn` cannot be read" in choice.reason


def test_an_open_archive_is_not_shared(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "a.tar", "w").close()
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert PyTorchDataLoader(Holding(archive), num_workers=1).worker_choice.kind == "process"


def test_what_collates_is_looked_at_as_well() -> None:
    choice = PyTorchDataLoader(Squares(), num_workers=1, collate_fn=Jitter()).worker_choice
    assert choice.kind == "process"
    assert "`collate_fn.last` is changed while an item is loaded" in choice.reason
    assert PyTorchDataLoader(Squares(), num_workers=1, collate_fn=Compose().__call__).worker_choice.kind == "thread"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"dataset": Parts()}, "IterableDataset"),
        ({"worker_init_fn": collate_sum}, "worker_init_fn"),
        ({"multiprocessing_context": "spawn"}, "multiprocessing_context"),
        ({"workers": "process"}, "workers='process' was asked for"),
    ],
)
def test_arguments_that_speak_for_processes(arguments: dict[str, Any], reason: str) -> None:
    choice = PyTorchDataLoader(**{"dataset": Squares(), "num_workers": 1, **arguments}).worker_choice
    assert choice.kind == "process"
    assert reason in choice.reason


@pytest.mark.parametrize("dataset", [Squares, *ITERABLES.values()])
def test_without_workers_nothing_is_chosen(dataset: Any) -> None:
    assert PyTorchDataLoader(dataset()).worker_choice == ("caller", "num_workers is 0")


def test_the_choice_is_printed_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    loader = PyTorchDataLoader(Squares(), num_workers=1)
    with caplog.at_level(logging.INFO, "spdl.dataloader"):
        for _ in range(2):
            list(loader)
    reason = "the code that loads an item only reads what threads share"
    assert [record.getMessage() for record in caplog.records] == [
        f"A PyTorchDataLoader's workers: thread, since {reason}."
    ]
    assert repr(loader) == (
        "<PyTorchDataLoader of Squares: 1 workers, thread, since the code that loads an item only reads what threads "
        "share>"
    )


def test_the_warning_of_many_processes_is_not_about_threads(recwarn: pytest.WarningsRecorder) -> None:
    assert len(list(PyTorchDataLoader(Squares(), num_workers=200))) == len(Squares())
    assert not recwarn.list
    with pytest.warns(UserWarning, match="This DataLoader will create 200 worker processes"):
        PyTorchDataLoader(Squares(), num_workers=200, workers="process")

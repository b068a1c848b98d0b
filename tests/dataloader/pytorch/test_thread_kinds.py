"""Threads are chosen for kinds of datasets that they may share, never for others, and the batches are PyTorch's."""

from __future__ import annotations

import importlib
import importlib.util
import random
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from tests.dataloader.pytorch.datasets import plain  # noqa: E402
from tests.dataloader.pytorch.thread_kinds import registry  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.dataloader.pytorch.thread_kinds.registry import Kind

registry.load_all()

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning",
    "ignore:unclosed file:ResourceWarning",  # Users leave closing to the end of the dataset.
)

EPOCHS = 4
ROUNDS = 2
FEWEST_WITH_THREADS = 0.9


def _missing(kind: Kind) -> list[str]:
    return [name for name in kind.needs if importlib.util.find_spec(name) is None]


@pytest.fixture(scope="module", autouse=True)
def libraries() -> Iterator[None]:
    """Let libraries run here.

    PyPI's torchvision, which is built for CUDA, needs two operators that a PyTorch for CPUs lacks. Progress bars would
    start a thread that never ends.
    """
    if importlib.util.find_spec("tqdm"):
        importlib.import_module("tqdm").tqdm.monitor_interval = 0
    declared = torch.library.Library("torchvision", "FRAGMENT")
    if importlib.util.find_spec("torchvision") and torch.version.cuda is None and "+" not in version("torchvision"):
        for name in ("nms", "qnms"):
            declared.define(f"{name}(Tensor boxes) -> Tensor")
    yield
    del declared


def _make(kind: Kind, folder: Path) -> dict[str, Any]:
    return {"batch_size": 4, "num_workers": 2, **kind.make(folder)}


def _epochs(make: Callable[..., Any], kind: Kind, folder: Path, **arguments: Any) -> list[str]:
    """Return the epochs of a new loader, each as text, for which NaN equals NaN; an epoch may end with an error."""
    folder.mkdir()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 # The generator that workers of PyTorch seed, too.
    loader = make(**{**_make(kind, folder), **arguments})
    return [repr([plain(batch) for batch in loader]) for _ in range(EPOCHS)]


def choices(kinds: dict[str, Kind], folder: Path) -> list[tuple[str, str, str]]:
    """Return for each kind that runs here its name, the workers that the loader chooses, and why."""
    rows: list[tuple[str, str, str]] = []
    for name, kind in kinds.items():
        if not _missing(kind):
            (folder / name).mkdir()
            choice = PyTorchDataLoader(**_make(kind, folder / name)).worker_choice
            rows.append((name, choice.kind, choice.reason))
    return rows


def table(rows: list[tuple[str, str, str]]) -> str:
    """Return a line for each kind, and the share of those that get threads."""
    threads = sum(choice == "thread" for _, choice, _ in rows)
    return "\n".join([*(f"{name:42} {choice:8} {why}" for name, choice, why in rows), f"{threads} of {len(rows)}"])


def _cases(kinds: dict[str, Kind]) -> list[Any]:
    return [
        pytest.param(
            kind, id=name, marks=pytest.mark.skipif(bool(_missing(kind)), reason=f"needs {', '.join(kind.needs)}")
        )
        for name, kind in kinds.items()
    ]


unsafe_kinds = pytest.mark.parametrize("kind", _cases(registry.UNSAFE))
safe_kinds = pytest.mark.parametrize("kind", _cases(registry.SAFE))


@unsafe_kinds
def test_unsafe_kinds_get_processes(kind: Kind, tmp_path: Path) -> None:
    choice = PyTorchDataLoader(**_make(kind, tmp_path)).worker_choice
    assert choice.kind == "process", choice.reason


def test_most_safe_kinds_get_threads(tmp_path: Path) -> None:
    rows = choices(registry.SAFE, tmp_path)
    print(table(rows))  # noqa: T201 # The share is on the page.
    assert sum(choice == "thread" for _, choice, _ in rows) >= FEWEST_WITH_THREADS * len(rows)


@safe_kinds
def test_safe_kinds_load_what_pytorch_loads_in_the_loop(kind: Kind, tmp_path: Path) -> None:
    if PyTorchDataLoader(**_make(kind, tmp_path)).worker_choice.kind == "process":
        return  # The long cases have these.
    expected = _epochs(DataLoader, kind, tmp_path / "theirs", num_workers=0)
    for number in range(ROUNDS):
        assert _epochs(PyTorchDataLoader, kind, tmp_path / f"ours {number}") == expected


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", _cases({name: kind for name, kind in {**registry.UNSAFE, **registry.SAFE}.items() if kind.is_exact})
)
def test_batches_are_those_of_pytorchs_workers(kind: Kind, tmp_path: Path) -> None:
    expected = _epochs(DataLoader, kind, tmp_path / "theirs")
    for number in range(ROUNDS):
        assert _epochs(PyTorchDataLoader, kind, tmp_path / f"ours {number}") == expected

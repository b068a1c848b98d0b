"""The neighbours of datasets that got threads wrongly: each table of them has a topic."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
from tests.dataloader.pytorch.thread_kinds import by_name, comparisons, outputs  # noqa: E402
from tests.dataloader.pytorch.thread_kinds.helpers import Holding  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Rows leave closing to the end of the dataset.


def _rows(*tables: dict[str, Any]) -> list[Any]:
    return [pytest.param(*row, id=name) for table in tables for name, row in table.items()]


def _load(make: Callable[[], Any], load: Callable[[Any, int], Any], kind: Any = PyTorchDataLoader) -> Any:
    workers = 0 if kind is DataLoader else 2
    held: Any = Holding
    return kind(held(make(), load), batch_size=4, num_workers=workers, collate_fn=list)


@pytest.mark.parametrize(("make", "load"), _rows(by_name.UNSAFE, comparisons.UNSAFE, outputs.UNSAFE))
def test_what_could_change_gets_processes(make: Callable[[], Any], load: Callable[[Any, int], Any]) -> None:
    choice = _load(make, load).worker_choice
    assert choice.kind == "process", choice.reason


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="needs pandas")
@pytest.mark.parametrize(("make", "load"), _rows(by_name.UNSAFE_TABLES))
def test_columns_by_their_names_get_processes(make: Callable[[], Any], load: Callable[[Any, int], Any]) -> None:
    choice = _load(make, load).worker_choice
    assert choice.kind == "process", choice.reason


@pytest.mark.parametrize(("make", "load"), _rows(by_name.SAFE, comparisons.SAFE, outputs.SAFE))
def test_what_is_only_read_gets_threads(make: Callable[[], Any], load: Callable[[Any, int], Any]) -> None:
    loader = _load(make, load)
    assert loader.worker_choice.kind == "thread", loader.worker_choice.reason
    expected = list(_load(make, load, DataLoader))
    assert [list(loader) for _ in range(2)] == [expected] * 2

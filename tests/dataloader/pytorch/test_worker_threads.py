"""What worker threads share with each other and with the program, and what they do not."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import IterableDataset, get_worker_info  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


# In a process of its own, since OpenMP's threads stay.
OPERATORS = """
import threading
import torch
from torch.utils.data import IterableDataset
from spdl.dataloader import PyTorchDataLoader

class Asking:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.get_num_threads()

class AskingEach(IterableDataset):
    def __iter__(self):
        return (torch.get_num_threads() for _ in range(4))

torch.set_num_threads(4)
for dataset in (Asking(), AskingEach(), Asking()):
    print(sum((batch.tolist() for batch in PyTorchDataLoader(dataset, 2, num_workers=2, workers="thread")), []))
    # The program's own threads keep theirs, also those that begin later.
    later = threading.Thread(target=lambda: print(torch.get_num_threads()))
    later.start()
    later.join()
    print(torch.get_num_threads(), [batch.tolist() for batch in PyTorchDataLoader(Asking(), 8)])
"""


def test_operators_use_one_thread_in_each_worker() -> None:
    done = subprocess.run([sys.executable, "-c", OPERATORS], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == [str([1] * 8), "4", f"4 {[[4] * 8]}"] * 3


class Rows(IterableDataset):  # type: ignore[misc] # mypy sees no types of torch's.
    """Divides an array among its workers, and changes what it holds."""

    def __init__(self, held: Any = None) -> None:
        self.rows = np.ones((8, 2))
        self.counts = {"rows": 0}
        self.held = held

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        for row in range(info.id, 8, info.num_workers):
            self.rows[row] *= 2
            self.counts["rows"] += 1
            yield self.rows[row], self.counts["rows"]


@pytest.mark.parametrize("workers", ["process", "thread"])
def test_each_worker_has_what_an_iterable_dataset_holds_for_itself(workers: Any) -> None:
    dataset = Rows()
    for _ in range(2):
        batches = list(PyTorchDataLoader(dataset, batch_size=2, num_workers=2, workers=workers))
        assert [batch[0].tolist() for batch in batches] == [[[2.0, 2.0]] * 2] * 4
        assert [batch[1].tolist() for batch in batches] == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert dataset.rows.tolist() == [[1.0, 1.0]] * 8


@pytest.mark.parametrize("workers", ["process", "thread"])
def test_workers_that_stay_keep_what_they_hold(workers: Any) -> None:
    loader = PyTorchDataLoader(Rows(), batch_size=4, num_workers=2, workers=workers, persistent_workers=True)
    for epoch in range(3):
        assert [batch[1].tolist() for batch in loader] == [[4 * epoch + it for it in (1, 2, 3, 4)]] * 2


class ItsOwnCopy:
    """Is its own copy."""

    def __deepcopy__(self, memo: Any) -> ItsOwnCopy:
        return self


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (threading.Lock(), "Worker threads share what the dataset holds, since a Rows cannot be copied"),
        (ItsOwnCopy(), "Worker threads share a ItsOwnCopy that the dataset holds"),
        ([ItsOwnCopy()], "Worker threads share a ItsOwnCopy that the dataset holds"),
    ],
)
def test_what_workers_share_nevertheless_is_logged(held: Any, message: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spdl.dataloader"):
        assert len(list(PyTorchDataLoader(Rows(held), num_workers=1, workers="thread"))) == 8
    assert [message in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("held", [None, (1, ("a", 2.5)), {"a": [torch.ones(2)]}, np.float64, len])
def test_what_copies_may_share_is_not_logged(held: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spdl.dataloader"):
        assert len(list(PyTorchDataLoader(Rows(held), num_workers=1, workers="thread"))) == 8
    assert not caplog.records


class Failing:
    """Raises an error."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        self.kind = kind
        self.text = text

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        raise self.kind(self.text)


@pytest.mark.parametrize(
    ("kind", "text", "hint"),
    [
        (RuntimeError, "Already borrowed", True),
        (RuntimeError, "dictionary changed size during iteration", True),
        (ValueError, "generator already executing", True),
        (ValueError, "no such file", False),
    ],
)
def test_an_error_that_sharing_causes_says_so(kind: type[Exception], text: str, *, hint: bool) -> None:
    with pytest.raises(kind) as caught:
        list(PyTorchDataLoader(Failing(kind, text), num_workers=1, workers="thread"))
    notes = [note for note in caught.value.__notes__ if "workers='process' gives each worker its own" in note]
    assert len(notes) == hint

"""Batches are pinned where there is an accelerator, and torch's warning says where there is none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dataloader.pytorch.datasets import Squares, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_without_an_accelerator_it_warns_as_torch_does(num_workers: int) -> None:
    loader = PyTorchDataLoader(Squares(), 4, num_workers=num_workers, pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        found = [plain(batch) for batch in loader]
    assert found == [plain(batch) for batch in DataLoader(Squares(), 4)]


class Batch:
    """A batch that knows how it is pinned, as torch lets classes of one's own."""

    pinned = 0

    def __init__(self, _: Any) -> None: ...

    def pin_memory(self) -> Batch:
        self.pinned += 1
        return self


@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_batch_is_pinned_where_the_device_of_the_consumer_is_chosen(
    num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without an accelerator, torch's functions are replaced by some that note their calls."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    loader = PyTorchDataLoader(Squares(), 4, num_workers=num_workers, pin_memory=True, collate_fn=Batch)
    assert [batch.pinned for batch in loader] == [1] * 6
    # Each thread is told once. There is one more than workers, for the requests.
    assert set(chosen) == {3}
    assert len(chosen) <= num_workers + 1


@pytest.mark.cuda
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("workers", ["thread", "process"])
def test_on_a_gpu_the_memory_is_pinned(num_workers: int, workers: Any) -> None:
    loader = PyTorchDataLoader(Squares(), 4, num_workers=num_workers, pin_memory=True, workers=workers)
    for pixels, labels in loader:
        assert pixels.is_pinned()
        assert labels.is_pinned()

"""An iterator of which nothing is read uses up no epoch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.dataloader import ArrayLoader, ArrayRows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("torch", reason="needs PyTorch")

NUMBERS = np.arange(20)


def make() -> ArrayLoader:
    rows = ArrayRows({"data": NUMBERS.reshape(-1, 1), "label": NUMBERS})
    return ArrayLoader(rows, 5, data="data", label="label", shuffle=True, seed=3, num_threads=1)


def labels(batches: Iterator[Any]) -> list[int]:
    return [label for batch in batches for label in batch.label.tolist()]


@pytest.fixture
def epochs() -> list[list[int]]:
    """Return the first three epochs of a loader that is only looped over."""
    loader = make()
    found = [labels(iter(loader)) for _ in range(3)]
    assert len({tuple(each) for each in found}) == 3
    return found


class Bar:
    """Iterates as `tqdm.auto` does: one iterator is made and kept, another one is read."""

    def __init__(self, loader: ArrayLoader) -> None:
        self.loader = loader
        self.kept = iter(loader)

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader


def test_each_loop_over_a_bar_is_the_next_epoch(epochs: list[list[int]]) -> None:
    loader = make()
    assert [labels(iter(Bar(loader))) for _ in range(3)] == epochs
    assert loader.epoch == 3


def test_the_first_read_says_which_epoch_it_is(epochs: list[list[int]]) -> None:
    loader = make()
    one, other = iter(loader), iter(loader)
    pairs = [(first.label.tolist(), second.label.tolist()) for first, second in zip(one, other, strict=True)]
    assert [label for first, _ in pairs for label in first] == epochs[0]
    assert [label for _, second in pairs for label in second] == epochs[1]


def test_a_loop_that_is_left_is_followed_by_the_next_epoch(epochs: list[list[int]]) -> None:
    loader = make()
    next(iter(loader))
    iter(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    assert labels(iter(loader)) == epochs[1]
    resumed = make()
    resumed.load_state_dict(state)
    # It was made in the middle of the first epoch.
    iter(resumed)
    assert labels(iter(Bar(resumed))) == epochs[0][5:]
    assert labels(iter(resumed)) == epochs[1]


def test_an_iterator_that_is_closed_before_a_read_reads_nothing(epochs: list[list[int]]) -> None:
    loader = make()
    unread: Any = iter(loader)
    unread.close()
    assert list(unread) == []
    assert labels(iter(loader)) == epochs[0]

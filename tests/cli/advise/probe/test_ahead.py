"""Batches are collected only where nobody notices."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spdl.cli._advise._probe.ahead import Ahead
from spdl.cli._advise._probe.loop_times import LoaderTimes

torch = pytest.importorskip("torch", reason="the samplers are PyTorch's")
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

GENERATOR = torch.Generator()


class Mine(SequentialSampler):  # type: ignore[misc]
    pass


class Iterator:
    """Stands in for PyTorch's iterator with workers, which have made what they were told to."""

    def __init__(self, sampler: Any, length: int = 1000) -> None:
        self._index_sampler = sampler
        self._num_yielded = 40
        self._tasks_outstanding = 2
        self._data_queue = SimpleNamespace(qsize=lambda: 2)
        self._length = length

    def __len__(self) -> int:
        return self._length


def starved(step: float = 0.01) -> LoaderTimes:
    times = LoaderTimes({})
    for _ in range(31):
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(step, 0.0, ahead=False)
    return times


def collect(iterator: Any, batch: Any = None, times: LoaderTimes | None = None) -> tuple[int, bool]:
    """Return how many batches were collected, and whether the workers are idle."""
    batch = np.zeros(1000) if batch is None else batch
    held: deque[Any] = deque()
    idle = Ahead(times or starved()).collect(iterator, lambda _: batch, held)
    return len(held), idle


def batches(sampler: Any) -> BatchSampler:
    return BatchSampler(sampler, 4, drop_last=False)


@pytest.mark.parametrize(
    "sampler",
    [
        SequentialSampler(range(9)),
        RandomSampler(range(9)),
        RandomSampler(range(9), generator=GENERATOR),
        RandomSampler(range(9), replacement=True),
        SubsetRandomSampler(range(9)),
        WeightedRandomSampler([1.0, 2.0], 9),
    ],
)
def test_samplers_that_draw_beforehand(sampler: Any) -> None:
    assert collect(Iterator(batches(sampler))) == (8, True)
    assert collect(Iterator(sampler)) == (8, True)


@pytest.mark.parametrize(
    "sampler", [Mine(range(9)), [1, 2, 3], RandomSampler(range(9), replacement=True, generator=GENERATOR)]
)
def test_samplers_that_may_draw_as_they_go(sampler: Any) -> None:
    assert collect(Iterator(batches(sampler))) == (0, False)
    assert collect(Iterator(sampler)) == (0, False)


def test_a_batch_sampler_of_the_user() -> None:
    class Pairs(BatchSampler):  # type: ignore[misc]
        pass

    assert collect(Iterator(Pairs(SequentialSampler(range(9)), 2, drop_last=False))) == (0, False)


def test_an_iteration_that_is_about_to_end() -> None:
    assert collect(Iterator(SequentialSampler(range(9)), length=55)) == (0, False)


@pytest.mark.parametrize(
    "batch", [np.zeros(2_000_000), [object()], {"words": ["a", "b"]}, [np.zeros(1)] * 17, "text"], ids=type
)
def test_batches_that_are_large_or_unknown(batch: Any) -> None:
    # The first one is looked at. It is held until the loop gets it.
    assert collect(Iterator(SequentialSampler(range(9))), batch) == (1, False)


@pytest.mark.parametrize("batch", [[np.zeros(9), {"a": (np.zeros(9),)}], torch.zeros(9), (torch.zeros(3), [1, 2])])
def test_batches_of_small_arrays(batch: Any) -> None:
    assert collect(Iterator(SequentialSampler(range(9))), batch) == (8, True)


def test_a_loop_that_does_not_wait() -> None:
    assert collect(Iterator(SequentialSampler(range(9))), times=starved(step=1.0)) == (0, False)


def test_what_is_raised_comes_in_its_turn() -> None:
    answers = iter([np.zeros(3), np.zeros(3), KeyError(7)])

    def pull(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    held: deque[Any] = deque()
    assert Ahead(starved()).collect(Iterator(SequentialSampler(range(9))), pull, held)
    assert [type(error) for _, error in held] == [type(None), type(None), KeyError]


def test_once_and_again_after_four_times_as_many_steps() -> None:
    times = starved()
    ahead = Ahead(times)
    iterator = Iterator(SequentialSampler(range(9)))
    counts = []
    for _ in range(400):
        held: deque[Any] = deque()
        ahead.collect(iterator, lambda _: np.zeros(3), held)
        counts.append(len(held))
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(0.01, 0.0, ahead=bool(held))
    assert sum(map(bool, counts)) == 2

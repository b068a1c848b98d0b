"""Ranks with different numbers of steps end after the same one. Here they are threads."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl.dataloader import DataLoader
from spdl.source import EqualSteps, shard

if TYPE_CHECKING:
    from collections.abc import Callable


class Least:
    """The least number of each round, once all ranks have told theirs."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._lock = threading.Lock()
        self._told: dict[int, list[int]] = {}
        self._futures: dict[int, Future[int]] = {}

    def of_rank(self) -> Callable[[int], Future[int]]:
        """Return what one rank calls."""
        rounds = iter(range(1 << 30))

        def agree(number: int) -> Future[int]:
            with self._lock:
                turn = next(rounds)
                told = self._told.setdefault(turn, [])
                told.append(number)
                future = self._futures.setdefault(turn, Future())
                if len(told) == self._ranks:
                    future.set_result(min(told))
            return future

        return agree


def run(parts: list[Any], make: Callable[[Any, Any], Any] = EqualSteps, epochs: int = 1) -> list[list[list[Any]]]:
    """Iterate the parts of all ranks at once."""
    least = Least(len(parts))

    def rank(part: Any) -> list[list[Any]]:
        steps = make(part, least.of_rank())
        return [list(steps) for _ in range(epochs)]

    with ThreadPoolExecutor(len(parts)) as ranks:
        return [each.result(timeout=30) for each in [ranks.submit(rank, part) for part in parts]]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_all_end_after_the_last_step_that_all_have(sizes: list[int]) -> None:
    parts = [[(rank, step) for step in range(size)] for rank, size in enumerate(sizes)]
    got = run(parts, epochs=2)
    assert got == [[part[: min(sizes)]] * 2 for part in parts]


def test_parts_of_one_source_end_together() -> None:
    got = run(list(range(3)), lambda rank, agree: shard(range(11), rank, 3, stop="agree", agree=agree))
    assert got == [[[0, 3, 6]], [[1, 4, 7]], [[2, 5, 8]]]


def test_a_loader_begins_its_next_epoch_with_the_others() -> None:
    def loader(size: int) -> DataLoader[int, list[int]]:
        return DataLoader(range(size), batch_size=2, output_order="input")

    got = run([loader(9), loader(5)], epochs=2)
    assert got == [[[[0, 1], [2, 3], [4, 5]]] * 2, [[[0, 1], [2, 3], [4]]] * 2]


def test_what_was_read_ahead_counts_as_not_received() -> None:
    def make() -> EqualSteps[list[int]]:
        loader: DataLoader[int, list[int]] = DataLoader(range(9), batch_size=2, output_order="input")
        return EqualSteps(loader, Least(1).of_rank())

    steps = make()
    iterator = iter(steps)
    assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
    again = make()
    again.load_state_dict(steps.state_dict())
    assert list(again) == [[4, 5], [6, 7], [8]]


def test_what_is_no_iterable_and_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="steps"):
        EqualSteps(3, Least(1).of_rank())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="agree"):
        EqualSteps([3], 3)  # type: ignore[arg-type]


@settings(max_examples=20)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_a_function_that_waits_itself_will_do(sizes: list[int]) -> None:
    def make(part: Any, agree: Callable[[int], Future[int]]) -> EqualSteps[int]:
        return EqualSteps(part, lambda number: agree(number).result(timeout=30))

    parts = [range(size) for size in sizes]
    assert run(parts, make) == [[list(range(min(sizes)))] for _ in sizes]


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`agree` must be a function that returns an int or a future, got None"):
        list(EqualSteps(range(3), lambda _: None))  # type: ignore[arg-type, return-value]

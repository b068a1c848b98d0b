"""Other items in the place of those that fail."""

from __future__ import annotations

import json
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import DataLoader
from spdl.source import EpochSampler, Refill, replacements


@given(st.integers(1, 50), st.data(), st.integers(), st.integers(0, 5))
def test_all_others_are_tried_once(n: int, data: st.DataObject, seed: int, epoch: int) -> None:
    index = data.draw(st.integers(0, n - 1))
    tried = list(replacements(n, index, seed=seed, epoch=epoch))
    assert sorted([*tried, index]) == list(range(n))
    assert list(replacements(n, index, seed=seed, epoch=epoch)) == tried


def test_different_items_epochs_and_seeds_have_different_replacements() -> None:
    first = [
        next(replacements(10**9, index, seed=seed, epoch=epoch))
        for index in range(10)
        for seed in range(10)
        for epoch in range(3)
    ]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize(("n", "index"), [(0, 0), (3, 3), (3, -1)])
def test_senseless_indices_are_refused(n: int, index: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        replacements(n, index)


class Files:
    """Stands for files, some of which are corrupt."""

    def __init__(self, corrupt: set[int]) -> None:
        self.corrupt = corrupt

    def __call__(self, index: int) -> int:
        if index in self.corrupt:
            raise OSError(f"file {index} is corrupt")
        return index


@given(st.integers(2, 40), st.data())
def test_every_index_yields_an_item(n: int, data: st.DataObject) -> None:
    corrupt = data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    op = Refill(Files(corrupt), n, seed=5, attempts=n)
    items = [op(index) for index in range(n)]
    assert not set(items) & corrupt
    assert all(item == index for index, item in enumerate(items) if index not in corrupt)
    assert op.count == len(op.failures) == len(corrupt)
    assert {each.index: each.replacement for each in op.failures} == {index: items[index] for index in corrupt}
    # The order of the calls does not matter.
    again = Refill(Files(corrupt), n, seed=5, attempts=n)
    assert [again(index) for index in reversed(range(n))] == items[::-1]


def test_what_was_replaced_is_told(caplog: pytest.LogCaptureFixture) -> None:
    op = Refill(Files({1}), 3)
    other = op(1)
    (failure,) = op.failures
    assert failure == (1, other, "OSError: file 1 is corrupt")
    assert f"Item 1 could not be loaded, so item {other} takes its place: OSError: file 1 is corrupt" in caplog.text


def test_nothing_but_failures_raises_the_items_own_error() -> None:
    op = Refill(Files(set(range(9))), 9, attempts=4)
    with pytest.raises(OSError, match="file 7 is corrupt") as raised:
        op(7)
    assert raised.value.__notes__ == ["Refill tried 4 other items in the place of 7, and all of them failed too."]
    assert not op.count
    with pytest.raises(OSError, match="file 0") as raised:
        Refill(Files({0}), 1)(0)
    assert raised.value.__notes__ == ["There is no other item to take its place."]


def test_what_is_no_failure_of_the_item_is_not_replaced() -> None:
    def interrupted(index: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Refill(interrupted, 5)(1)


def test_states_carry_what_was_replaced() -> None:
    op = Refill(Files(set(range(900))), 1000, attempts=999)
    for index in range(600):
        op(index)
    state = json.loads(json.dumps(op.state_dict()))
    assert len(json.dumps(state)) < 8000
    resumed = Refill(Files(set()), 1000)
    resumed.load_state_dict(state)
    assert resumed.count == 600
    assert [each[:2] for each in resumed.failures] == [each[:2] for each in op.failures]
    assert len(resumed.failures) == 256
    assert pickle.loads(pickle.dumps(resumed)).failures == resumed.failures  # noqa: S301 - our own.


def test_states_of_something_else_are_refused() -> None:
    for state in ({}, {"spdl": "EpochSampler", "version": 1}, {"spdl": "Refill", "version": 2, "count": 0}):
        with pytest.raises(ValueError, match="`state`"):
            Refill(Files(set()), 3).load_state_dict(state)
    with pytest.raises(TypeError, match="`state` must be a dict"):
        Refill(Files(set()), 3).load_state_dict(None)  # type: ignore[arg-type]


def test_damaged_states_are_refused() -> None:
    op = Refill(Files({1, 2}), 9)
    op(1), op(2)
    state = op.state_dict()
    resumed = Refill(Files(set()), 9)
    with pytest.raises(ValueError, match="`state` is damaged"):
        resumed.load_state_dict({**state, "count": 3})
    assert (resumed.count, resumed.failures) == (0, [])
    for name in state:
        with pytest.raises(ValueError, match="`state`"):
            resumed.load_state_dict({each: state[each] for each in state if each != name})


def test_threads_may_share_one() -> None:
    """Hammers the lock around the count and the list."""
    op = Refill(Files(set(range(0, 100, 2))), 100)

    def call() -> None:
        for index in range(100):
            op(index)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert op.count == 8 * 50


@pytest.mark.parametrize("output_order", ["input", "completion"])
def test_batches_stay_full(output_order: Any) -> None:
    sampler = EpochSampler(50, batch_size=4, rank=0, world_size=2, drop_last=True)
    op = Refill(Files(set(range(0, 50, 3))), 50)
    loader: DataLoader[int, list[int]] = DataLoader(
        sampler, preprocessor=op, batch_size=4, num_threads=3, output_order=output_order
    )
    for _ in range(3):
        assert [len(batch) for batch in loader] == [4] * 6
    assert op.count > 10


@pytest.mark.parametrize("arguments", [("no function", 3), (print, 0), (print, 1.5)])
def test_senseless_arguments_are_refused(arguments: tuple[Any, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="must be"):
        Refill(*arguments)

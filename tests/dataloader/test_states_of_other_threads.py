"""Test that a state may be taken in another thread or a signal handler at any moment of an epoch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from spdl.dataloader import DataLoader
from spdl.source import EpochSampler

EPOCHS = 40


def loader(source: Any) -> DataLoader[Any, Any]:
    return DataLoader(source, batch_size=2, output_order="input", num_threads=2)


def states_in_a_thread(taken: list[Any], one: DataLoader[Any, Any]) -> int:
    ended = threading.Event()

    def take() -> None:
        while not ended.is_set():
            taken.append(one.state_dict())

    thread = threading.Thread(target=take)
    thread.start()
    count = sum(1 for _ in range(EPOCHS) for _ in one)
    ended.set()
    thread.join()
    return count


def states_in_a_handler(taken: list[Any], one: DataLoader[Any, Any]) -> int:
    before = signal.signal(signal.SIGALRM, lambda *_: taken.append(one.state_dict()))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.005)
    try:
        return sum(1 for _ in range(EPOCHS) for _ in one)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("read", [states_in_a_thread, states_in_a_handler])
@pytest.mark.parametrize("source", [range(8), EpochSampler(8, rank=0, world_size=1)], ids=["list", "sampler"])
def test_states_of_all_moments_can_be_gone_on_with(read: Any, source: Any) -> None:
    taken: list[Any] = []
    assert read(taken, loader(source)) == 4 * EPOCHS
    # What goes on from a state of epoch n is the rest of epoch n, or the whole of it.
    for state in taken[:: max(1, len(taken) // 100)]:
        resumed = loader(EpochSampler(8, rank=0, world_size=1) if isinstance(source, EpochSampler) else source)
        resumed.load_state_dict(state)
        assert len(list(resumed)) <= 4
        assert resumed.state_dict()["epoch"] == state["epoch"] + 1


class _Interrupting(Sequence[int]):
    """A source that is interrupted by a signal the first time its length is asked for.

    It is far from its end when the state is taken: an iterator that has ended needs no length.
    """

    def __init__(self) -> None:
        self._asked = False

    def __len__(self) -> int:
        if not self._asked:
            self._asked = True
            signal.raise_signal(signal.SIGALRM)
        return 200

    def __getitem__(self, index: Any) -> Any:
        return range(200)[index]


def test_state_in_a_handler_stays_as_it_is_if_the_source_is_just_asked_for_its_length() -> None:
    taken: list[Any] = []
    one = loader(_Interrupting())
    before = signal.signal(signal.SIGALRM, lambda *_: taken.append(one.state_dict()))
    try:
        batches = iter(one)
        assert next(batches) == [0, 1]
        one.state_dict()
        assert sum(1 for _ in batches) == 99
    finally:
        signal.signal(signal.SIGALRM, before)
    (state,) = taken
    resumed = loader(_Interrupting())
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        resumed.load_state_dict(state)
        assert len(list(resumed)) in (99, 100)
    finally:
        signal.signal(signal.SIGALRM, before)

"""A loader's state: another one goes on with exactly the batches that the consumer has not received."""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dataloader.pytorch.datasets import (
    ITERABLES,
    SIZE,
    Counting,
    EagerSampler,
    Growing,
    Learning,
    Pairs,
    Parts,
    Squares,
    Walk,
    plain,
    seeded_generator,
)

torch = pytest.importorskip("torch")
from torch.utils.data import (  # noqa: E402
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from spdl._ranges import Ranges  # noqa: E402
from spdl.dataloader import PyTorchDataLoader  # noqa: E402
from spdl.dataloader._pytorch.state import (  # noqa: E402
    Position,
    Positions,
    ReceivedBatches,
    StreamStep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create", "ignore:Length of IterableDataset", "ignore:.*multi-threaded"
)


class Drawing:
    """A sampler that draws from Python's and NumPy's global generators, at its first index."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(SIZE))
        random.shuffle(order)
        yield from order[:10]
        yield from (int(index) for index in np.random.permutation(SIZE)[:10])  # noqa: NPY002 - what samplers use.

    def __len__(self) -> int:
        return 20


class IteratorWithState:
    """A sampler whose iterators save their states."""

    def __iter__(self) -> Any:
        return _Countdown()


class _Countdown:
    def __init__(self) -> None:
        self.left = SIZE

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def state_dict(self) -> dict[str, int]:
        return {"left": self.left}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.left = state["left"]


ORDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 4},
    "drop last": lambda: {"batch_size": 4, "drop_last": True},
    "no batches": lambda: {"batch_size": None},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "by a generator": lambda: {"batch_size": 4, "shuffle": True, "generator": seeded_generator()},
    "by a sampler's generator": lambda: {
        "sampler": RandomSampler(range(SIZE), generator=seeded_generator()),
        "batch_size": 4,
    },
    "subset": lambda: {"sampler": SubsetRandomSampler(range(SIZE)), "batch_size": 4},
    "weights": lambda: {"sampler": WeightedRandomSampler([1.0] * SIZE, SIZE), "batch_size": 4},
    "distributed": lambda: {"sampler": DistributedSampler(Squares(), num_replicas=2, rank=1), "batch_size": 2},
    "eager": lambda: {"sampler": EagerSampler(), "batch_size": 4},
    "uneven": lambda: {"batch_sampler": Pairs()},
    "drawing": lambda: {"sampler": Drawing(), "batch_size": 3},
    "with a state": lambda: {"sampler": Growing(), "batch_size": 4},
    "with an iterator's state": lambda: {"sampler": IteratorWithState(), "batch_size": None},
}
WORKERS: dict[str, dict[str, Any]] = {
    "caller": {},
    "1 thread": {"num_workers": 1, "workers": "thread"},
    "3 threads": {"num_workers": 3, "workers": "thread"},
    "threads that stay": {"num_workers": 2, "persistent_workers": True, "workers": "thread"},
}
PROCESSES: dict[str, dict[str, Any]] = {
    "processes": {"num_workers": 2, "workers": "process"},
    "processes that stay": {"num_workers": 3, "persistent_workers": True, "workers": "process"},
}


def _through_json(state: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(state))
    return result


def _seed() -> None:
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002 - the one that samplers use.


def _rngs() -> Any:
    return torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002


def _restore(states: Any) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])  # noqa: NPY002


def _epochs(loader: Any, number: int) -> list[Any]:
    """Return what epochs yield, and what training draws from the global generator at each step."""
    return [[(plain(batch), torch.rand(1).item()) for batch in loader] for _ in range(number)]


def _check_every_cut(make: Callable[[], Any], steps: list[int] | None = None) -> None:
    """Cut the first and second epoch at every step, restore twice, and compare with what was never cut."""
    _seed()
    whole = _epochs(make(), 3)
    length = len(whole[0])
    for cut in range(length + 1) if steps is None else [step for step in steps if step <= length]:
        _seed()
        loader = make()
        iterator = iter(loader)
        found = [[(plain(next(iterator)), torch.rand(1).item()) for _ in range(cut)]]
        state, states = _through_json(loader.state_dict()), _rngs()
        del iterator
        other = rest = None
        for again in (0, 1):
            _seed()
            other = make()
            other.load_state_dict(state)
            _restore(states)
            # It says the same of itself before it is iterated.
            assert other.state_dict() == state
            rest = iter(other)
            more = [(plain(next(rest)), torch.rand(1).item()) for _ in range(min(again, length - len(found[0])))]
            found[0] += more
            # The second time, a batch later.
            state, states = _through_json(other.state_dict()), _rngs()
        assert rest is not None
        found[0] += [(plain(batch), torch.rand(1).item()) for batch in rest]
        assert [*found, *_epochs(other, 2)] == whole


# Each order without workers and with several, and each kind of workers with some orders.
@pytest.mark.parametrize(
    ("order", "workers"),
    [
        *itertools.product(ORDERS, ["caller", "3 threads"]),
        *itertools.product(["shuffled", "uneven", "with a state"], ["1 thread", "threads that stay"]),
    ],
)
def test_every_order_goes_on(order: str, workers: str) -> None:
    _check_every_cut(lambda: PyTorchDataLoader(Squares(), **ORDERS[order](), **WORKERS[workers]))


@pytest.mark.parametrize("workers", PROCESSES)
@pytest.mark.parametrize("order", ["shuffled", "with a state"])
def test_orders_of_processes_go_on(order: str, workers: str) -> None:
    _check_every_cut(lambda: PyTorchDataLoader(Squares(), **ORDERS[order](), **PROCESSES[workers]), [0, 4])


@pytest.mark.parametrize(
    ("batch_size", "workers"),
    [*itertools.product([3], WORKERS), (None, "caller"), (None, "3 threads")],
)
@pytest.mark.parametrize("dataset", ITERABLES)
def test_iterable_datasets_go_on(dataset: str, batch_size: int | None, workers: str) -> None:
    _check_every_cut(lambda: PyTorchDataLoader(ITERABLES[dataset](), batch_size, **WORKERS[workers]))


@pytest.mark.parametrize("workers", PROCESSES)
@pytest.mark.parametrize("dataset", ITERABLES)
def test_iterable_datasets_of_processes_go_on(dataset: str, workers: str) -> None:
    _check_every_cut(lambda: PyTorchDataLoader(ITERABLES[dataset](), 3, **PROCESSES[workers]), [1, 5])


def test_an_iterator_with_a_state_is_not_iterated_again() -> None:
    loader = PyTorchDataLoader(Walk(), None)
    iterator = iter(loader)
    for _ in range(15):
        next(iterator)
    other = PyTorchDataLoader(Walk(), None)
    other.load_state_dict(loader.state_dict())
    rest = iter(other)
    next(rest)
    assert rest._stream._iterator.asked == 1


def test_a_dataset_without_a_state_is_iterated_again_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    loader = PyTorchDataLoader(Parts(), 2)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    other = PyTorchDataLoader(Parts(), 2)
    other.load_state_dict(loader.state_dict())
    assert len(list(other)) == 10
    assert "begins after 2 batches. Parts has no `state_dict`" in caplog.text


@pytest.mark.parametrize("workers", [*WORKERS.values(), *PROCESSES.values()])
def test_the_end_of_an_epoch_begins_the_next(workers: dict[str, Any]) -> None:
    def make() -> Any:
        return PyTorchDataLoader(Squares(), 4, shuffle=True, generator=seeded_generator(), **workers)

    whole = _epochs(make(), 3)
    loader = make()
    _epochs(loader, 1)
    state = _through_json(loader.state_dict())
    assert state["_iterator_finished"]
    other = make()
    other.load_state_dict(state)
    assert [[batch for batch, _ in epoch] for epoch in _epochs(other, 2)] == [
        [batch for batch, _ in epoch] for epoch in whole[1:]
    ]


def test_a_state_before_the_first_iteration_changes_nothing() -> None:
    loader = PyTorchDataLoader(Squares(), 4)
    other = PyTorchDataLoader(Squares(), 4)
    other.load_state_dict(_through_json(loader.state_dict()))
    assert len(list(other)) == 6
    other.load_state_dict({})
    assert len(list(other)) == 6


def test_without_loading_a_state_a_loop_that_was_left_begins_the_next_epoch() -> None:
    loader = PyTorchDataLoader(Squares(), 4, num_workers=2)
    for _ in loader:
        break
    assert loader.state_dict()["epoch"]["received"] == [1]
    assert len(list(loader)) == 6


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    workers=st.sampled_from([1, 2, 3]),
    cuts=st.lists(st.integers(0, SIZE), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_in_any_order_the_set_is_exact(workers: int, cuts: list[int], seed: int) -> None:
    """Cut several times in a row. Some items are slow, so that batches overtake each other."""
    dawdling = random.Random(seed)  # noqa: S311 - no secret.
    delays = [dawdling.choice([0, 0, 0.002]) for _ in range(SIZE)]

    class Uneven(Squares):
        def __getitem__(self, index: int) -> Any:
            time.sleep(delays[index])
            return super().__getitem__(index)[1]

    state: dict[str, Any] = {}
    received: list[int] = []
    for cut in [*cuts, SIZE]:
        loader = PyTorchDataLoader(Uneven(), None, shuffle=True, in_order=False, num_workers=workers)
        loader.load_state_dict(state)
        torch.manual_seed(seed)
        iterator = iter(loader)
        received += islice(iterator, cut)
        state = _through_json(loader.state_dict())
        if state["_iterator_finished"]:
            break
    assert sorted(received) == list(range(SIZE))


def test_in_any_order_processes_are_exact_as_well(tmp_path: Path) -> None:
    def make() -> Any:
        return PyTorchDataLoader(
            Held(tmp_path / "go"), None, in_order=False, num_workers=2, prefetch_factor=12, workers="process"
        )

    loader = make()
    iterator = iter(loader)
    received = [next(iterator) for _ in range(8)]
    state = _through_json(loader.state_dict())
    # The first item is held back, and is not among them.
    assert list(Ranges.from_state(state["epoch"]["received"])) == sorted(received)
    assert 0 not in received
    (tmp_path / "go").touch()
    other = make()
    other.load_state_dict(state)
    assert sorted([*received, *other]) == list(range(SIZE))


class Held(Squares):
    """Holds its first item back until a file is there."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def __getitem__(self, index: int) -> Any:
        while not index and not self.file.exists():
            time.sleep(0.001)
        return index


def test_other_workers_go_on_as_well() -> None:
    loader = PyTorchDataLoader(Squares(), 4, shuffle=True, num_workers=3)
    torch.manual_seed(1)
    whole = [plain(batch) for batch in loader]
    torch.manual_seed(1)
    iterator = iter(loader)
    found = [plain(next(iterator)) for _ in range(2)]
    state = loader.state_dict()
    for workers in (0, 1, 5):
        other = PyTorchDataLoader(Squares(), 4, shuffle=True, num_workers=workers)
        other.load_state_dict(state)
        assert found + [plain(batch) for batch in other] == whole


def test_the_state_of_a_dataset_is_restored() -> None:
    dataset, other = Learning(), Learning()
    loader = PyTorchDataLoader(dataset, 4)
    next(iter(loader))
    dataset.level = 4
    PyTorchDataLoader(other, 4).load_state_dict(_through_json(loader.state_dict()))
    assert other.level == 4


def test_a_sampler_that_is_told_another_epoch_is_an_error() -> None:
    def make() -> Any:
        return PyTorchDataLoader(Squares(), 2, sampler=DistributedSampler(Squares(), 2, 0))

    loader = make()
    loader.sampler.set_epoch(3)
    next(iter(loader))
    other = make()
    other.load_state_dict(loader.state_dict())
    assert other.sampler.epoch == 3
    other.sampler.set_epoch(4)
    with pytest.raises(RuntimeError, match=r"middle of epoch 3 of .*DistributedSampler.*`set_epoch\(4\)`"):
        next(iter(other))


def test_a_signal_handler_gets_a_state_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save in a handler that comes at any moment; what was received by then is what the state says."""
    states: list[tuple[dict[str, Any], int]] = []
    received: list[int] = []

    def save(*_: object) -> None:
        states.append((loader.state_dict(), len(received)))

    loader = PyTorchDataLoader(Squares(), 1, num_workers=2)
    before = signal.signal(signal.SIGALRM, save)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(60):
            received.clear()
            for batch in loader:
                received.append(batch)  # noqa: PERF402 - one at a time, as training does.
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert states
    checked = 0
    for state, count in states:
        if state["epoch"] is None:
            continue
        # The batch that `append` was not called with yet was received nevertheless.
        assert state["epoch"]["received"] in ([count] * bool(count), [count + 1])
        checked += 1
    assert checked


@given(st.permutations(range(12)))
def test_received_batches_are_settled_one_by_one(order: list[int]) -> None:
    received = ReceivedBatches()
    for number, latest in enumerate(order, 1):
        received.settle()
        received.latest = latest
        assert list(received.snapshot()) == sorted(order[:number])
        # The latest is not settled yet.
        assert received.below not in order[: number - 1]


@given(st.lists(st.integers(0, 2)))
def test_positions_count_each_worker(workers: list[int]) -> None:
    positions = Positions([Position(0, None)] * 3)
    for number, worker in enumerate(workers, 1):
        positions.settle()
        positions.latest = StreamStep(positions.turn, worker, number)
        found, following = positions.snapshot()
        assert [it.batches for it in found] == [workers[:number].count(it) for it in range(3)]
        assert found[worker].state == number
        assert following == (worker + 1) % 3
        # It can be asked as often as one likes.
        assert positions.snapshot() == (found, following)


def test_the_state_is_small_and_soon_there() -> None:
    loader = PyTorchDataLoader(range(10**9), 256, sampler=range(10**9), num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state = json.dumps(loader.state_dict())
    assert len(state) < 1000
    del iterator


def test_a_counting_dataset_is_not_shared_by_threads() -> None:
    loader = PyTorchDataLoader(Counting(), None, num_workers=3, workers="thread")
    assert sorted(loader) == list(range(24))
    assert loader.dataset.position == 0

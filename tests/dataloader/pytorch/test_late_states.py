"""A state that is loaded when there is an iterator already: it is heeded, or a warning says that it waits."""

from __future__ import annotations

import copy
import json
import pickle
from contextlib import nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.pytorch.datasets import Counting, Growing, Parts, Squares, Walk, plain, seeded_generator

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, RandomSampler  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402
from spdl.source import EpochSampler  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded")

CUT = 3


KINDS: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]] = {
    "in order": (Squares, lambda: {"batch_size": 4}),
    "no batches": (Squares, lambda: {"batch_size": None}),
    "shuffled": (Squares, lambda: {"batch_size": 4, "shuffle": True}),
    "by a generator": (Squares, lambda: {"batch_size": 4, "shuffle": True, "generator": seeded_generator()}),
    "by a sampler's": (
        Squares,
        lambda: {"batch_size": 4, "sampler": RandomSampler(range(23), generator=seeded_generator())},
    ),
    "distributed": (
        Squares,
        lambda: {"batch_size": 2, "sampler": DistributedSampler(Squares(), num_replicas=2, rank=1)},
    ),
    "with a state": (Squares, lambda: {"batch_size": 4, "sampler": Growing()}),
    "spdl's": (Squares, lambda: {"batch_size": 4, "sampler": EpochSampler(23, seed=3)}),
    "iterable": (Parts, lambda: {"batch_size": 2}),
    "counting": (Counting, lambda: {"batch_size": 2}),
    "walk": (Walk, lambda: {"batch_size": 3}),
}
THREADS: dict[str, Any] = {"num_workers": 2, "workers": "thread"}
PROCESSES: dict[str, Any] = {"num_workers": 2, "workers": "process"}
WORKERS: dict[str, dict[str, Any]] = {
    "caller": {},
    "threads": THREADS,
    "threads that stay": {**THREADS, "persistent_workers": True},
}
# They take long to start.
OF_PROCESSES = [
    (kind, {**PROCESSES, "persistent_workers": stay}) for kind in ("shuffled", "counting") for stay in (False, True)
]
CASES = [
    *(pytest.param(kind, workers, id=f"{kind}, {name}") for kind in KINDS for name, workers in WORKERS.items()),
    *(pytest.param(kind, workers, id=f"{kind}, processes") for kind, workers in OF_PROCESSES),
]


def _make(kind: str, workers: dict[str, Any]) -> PyTorchDataLoader:
    dataset, arguments = KINDS[kind]
    return PyTorchDataLoader(dataset(), **arguments(), **workers)


def _read(batches: Any) -> list[Any]:
    return [plain(batch) for batch in batches]


def _json(state: Any) -> Any:
    return json.loads(json.dumps(state))


@pytest.mark.parametrize(("kind", "workers"), CASES)
def test_an_iterator_of_which_nothing_was_read_goes_on_from_the_state(kind: str, workers: dict[str, Any]) -> None:
    torch.manual_seed(0)
    loader = _make(kind, workers)
    batches = iter(loader)
    begun = _read(islice(batches, CUT))
    state = _json(loader.state_dict())
    rest = _read(batches)
    following = _read(loader)
    assert rest
    assert begun != following or kind in {"in order", "no batches", "distributed", "iterable", "counting", "walk"}

    torch.manual_seed(1)
    other = _make(kind, workers)
    late = iter(other)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert _read(late) == rest
    # Of an order that the global generator draws, only the length of the next epoch is known.
    again = _read(other)
    assert len(again) == len(following)
    assert kind == "shuffled" or again == following


@pytest.mark.parametrize(("kind", "workers"), CASES)
def test_a_state_between_epochs_is_heeded_as_well(kind: str, workers: dict[str, Any]) -> None:
    loader = _make(kind, workers)
    torch.manual_seed(0)
    _read(loader)
    state = _json(loader.state_dict())
    torch.manual_seed(7)
    following = _read(loader)
    torch.manual_seed(1)
    other = _make(kind, workers)
    late = iter(other)
    other.load_state_dict(state)
    assert other.state_dict() == state
    torch.manual_seed(7)
    assert _read(late) == following


def test_in_any_order_none_is_missing_and_none_comes_twice() -> None:
    arguments: dict[str, Any] = {"batch_size": 1, "in_order": False, "num_workers": 3, "workers": "thread"}
    loader = PyTorchDataLoader(range(40), shuffle=True, **arguments)
    begun = [batch.item() for batch in islice(iter(loader), 11)]
    other = PyTorchDataLoader(range(40), shuffle=True, **arguments)
    late = iter(other)
    other.load_state_dict(_json(loader.state_dict()))
    assert sorted(begun + [batch.item() for batch in late]) == list(range(40))


class _Repeated:
    """Repeats a sampler for ever, as loaders do whose workers are to stay."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from iter(self.sampler)


class _BatchSamplerReplaced:
    """Builds its only iterator in the constructor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", _Repeated(self.batch_sampler))
        self.iterator = super().__iter__()  # type: ignore[misc] # It is mixed into loaders.

    batch_sampler: Any

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)

    def __iter__(self) -> Iterator[Any]:
        for _ in range(len(self)):
            yield next(self.iterator)

    def reset(self) -> None:
        self.iterator = self._get_iterator()  # type: ignore[attr-defined]


class _InitializedTwice(_BatchSamplerReplaced):
    """Does it through the flag by which torch's class refuses changes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super(_BatchSamplerReplaced, self).__init__(*args, **kwargs)
        self._DataLoader__initialized = False
        self.batch_sampler = _Repeated(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = super(_BatchSamplerReplaced, self).__iter__()  # type: ignore[misc]


class TorchsReplaced(_BatchSamplerReplaced, DataLoader):  # type: ignore[misc] # mypy sees no types of torch's.
    """That of torch."""


class OurReplaced(_BatchSamplerReplaced, PyTorchDataLoader):
    """Ours."""


class TorchsInitializedTwice(_InitializedTwice, DataLoader):  # type: ignore[misc]
    """That of torch."""


class OurInitializedTwice(_InitializedTwice, PyTorchDataLoader):
    """Ours."""


ENDLESS = [(TorchsReplaced, OurReplaced), (TorchsInitializedTwice, OurInitializedTwice)]
ENDLESS_WORKERS = [*WORKERS.values(), PROCESSES, {**PROCESSES, "persistent_workers": True}]


@pytest.mark.parametrize("workers", ENDLESS_WORKERS, ids=str)
@pytest.mark.parametrize(("theirs", "ours"), ENDLESS)
def test_a_loader_that_makes_its_iterator_in_the_constructor(theirs: Any, ours: Any, workers: dict[str, Any]) -> None:
    torch.manual_seed(0)
    # torch draws otherwise with workers.
    expected = theirs(Squares(), 6, shuffle=True, num_workers=min(1, workers.get("num_workers", 0)))
    epochs = [_read(expected) for _ in range(3)]
    assert len(epochs[0]) == 4
    torch.manual_seed(0)
    loader = ours(Squares(), 6, shuffle=True, **workers)
    assert [_read(loader) for _ in range(2)] == epochs[:2]
    between, generator = _json(loader.state_dict()), torch.get_rng_state()
    assert _read(islice(loader, 2)) == epochs[2][:2]
    within = _json(loader.state_dict())
    for state, rest in ((between, epochs[2]), (within, epochs[2][2:])):
        torch.manual_seed(1)
        other = ours(Squares(), 6, shuffle=True, **workers)
        other.load_state_dict(state)
        assert other.state_dict() == state
        # Without workers, the third order was not drawn yet.
        torch.set_rng_state(generator)
        assert _read(islice(other, len(rest))) == rest


@pytest.mark.parametrize("workers", ENDLESS_WORKERS[:4], ids=str)
def test_an_iterator_may_be_asked_for_by_torchs_name(workers: dict[str, Any]) -> None:
    torch.manual_seed(0)
    expected = _read(DataLoader(Squares(), 4, shuffle=True, num_workers=min(1, workers.get("num_workers", 0))))
    torch.manual_seed(0)
    loader = PyTorchDataLoader(Squares(), 4, shuffle=True, **workers)
    batches = loader._get_iterator()
    begun = _read(islice(batches, CUT))
    state = _json(loader.state_dict())
    assert begun + _read(batches) == expected
    other = PyTorchDataLoader(Squares(), 4, shuffle=True, **workers)
    other.load_state_dict(state)
    assert _read(other._get_iterator()) == expected[CUT:]


def test_a_loader_that_replaces_its_iterator_goes_on_as_well() -> None:
    torch.manual_seed(0)
    loader = OurReplaced(Squares(), 6, shuffle=True, **THREADS)
    whole = _read(loader)
    loader.reset()
    state = _json(loader.state_dict())
    following = _read(loader)
    assert following != whole
    other = OurReplaced(Squares(), 6, shuffle=True, **THREADS)
    other.load_state_dict(state)
    other.reset()
    assert _read(other) == following


ALL_WORKERS = [*WORKERS.values(), {**PROCESSES, "persistent_workers": True}]


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
def test_an_iterator_that_was_read_goes_on_and_a_warning_says_so(workers: dict[str, Any]) -> None:
    loader = PyTorchDataLoader(range(10), **workers)
    batches = iter(loader)
    state = _json(loader.state_dict())
    next(batches)
    told = pytest.warns(RuntimeWarning, match=r"That iterator is unaffected.*next `iter\(loader\)`")
    # With persistent workers, nobody knows at the load whether the loop was left.
    at_load = nullcontext() if "persistent_workers" in workers else told
    with at_load:
        loader.load_state_dict(state)
    assert loader.state_dict() == state
    with nullcontext() if at_load is told else told:
        assert next(batches).item() == 1
    now = _json(loader.state_dict())
    other = PyTorchDataLoader(range(10), **workers)
    other.load_state_dict(now)
    assert _read(other) == _read(batches)
    # There is nobody else to go on with.
    assert loader.state_dict() == state
    assert [batch.item() for batch in loader] == list(range(10))
    assert loader.state_dict()["_iterator_finished"]


@pytest.mark.parametrize("workers", ALL_WORKERS, ids=str)
@pytest.mark.parametrize("how", ["finished", "left", "dropped", "failed"])
def test_an_iterator_that_nobody_reads_is_no_reason_to_warn(how: str, workers: dict[str, Any]) -> None:
    loader = PyTorchDataLoader(range(10), shuffle=True, **workers)
    state = None
    try:
        for number, batch in enumerate(loader):
            if number == CUT:
                state = _json(loader.state_dict())
                if how == "left":
                    break
                assert how != "failed"
            del batch
    except AssertionError:
        assert how == "failed"
    if how == "dropped":
        next(iter(loader))
    loader.load_state_dict(state or {})
    assert loader.state_dict() == state
    assert len(_read(loader)) == 10 - CUT - 1
    assert len(_read(loader)) == 10


def test_the_state_tells_of_the_iterator_that_is_read() -> None:
    loader = PyTorchDataLoader(range(10), **THREADS)
    batches = iter(loader)
    _read(islice(batches, 5))
    # A look at the first batch.
    next(iter(loader))
    iter(loader)
    next(batches)
    other = PyTorchDataLoader(range(10), **THREADS)
    other.load_state_dict(_json(loader.state_dict()))
    assert [batch.item() for batch in other] == [6, 7, 8, 9]


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)
@pytest.mark.parametrize("kept_before", [True, False])
def test_the_first_that_is_read_takes_the_state_up(workers: dict[str, Any], *, kept_before: bool) -> None:
    torch.manual_seed(0)
    loader = PyTorchDataLoader(Squares(), 4, shuffle=True, **workers)
    batches = iter(loader)
    _read(islice(batches, CUT))
    state = _json(loader.state_dict())
    rest = _read(batches)
    # Bars of progress make one iterator and read another.
    other = PyTorchDataLoader(Squares(), 4, shuffle=True, **workers)
    kept = iter(other) if kept_before else None
    other.load_state_dict(state)
    kept = kept or iter(other)
    assert _read(other) == rest
    if "persistent_workers" not in workers:
        # It would repeat the rest.
        assert len(_read(kept)) == 6
    assert len(_read(other)) == 6


@pytest.mark.parametrize("late", [True, False])
def test_a_state_that_cannot_begin_is_not_lost(*, late: bool) -> None:
    def make() -> tuple[PyTorchDataLoader, Any]:
        sampler = DistributedSampler(Squares(), num_replicas=2, rank=0)
        return PyTorchDataLoader(Squares(), 2, sampler=sampler, **THREADS), sampler

    loader, sampler = make()
    sampler.set_epoch(2)
    batches = iter(loader)
    _read(islice(batches, CUT))
    state = _json(loader.state_dict())
    rest = _read(batches)
    other, sampler = make()
    unread = iter(other) if late else None
    other.load_state_dict(state)
    sampler.set_epoch(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Call `set_epoch\(2\)`"):
            next(unread or iter(other))
    assert other.state_dict() == state
    sampler.set_epoch(2)
    assert _read(unread or iter(other)) == rest


def test_a_state_that_is_refused_leaves_the_iterator_as_it_was() -> None:
    loader = PyTorchDataLoader(range(10), **THREADS)
    batches = iter(loader)
    with pytest.raises(ValueError, match="over other data or with other arguments"):
        loader.load_state_dict(PyTorchDataLoader(range(9)).state_dict())
    assert [batch.item() for batch in batches] == list(range(10))


def test_going_on_draws_nothing_from_the_global_generator() -> None:
    loader = PyTorchDataLoader(range(10), shuffle=True, **THREADS)
    next(iter(loader))
    state = _json(loader.state_dict())
    other = PyTorchDataLoader(range(10), shuffle=True, **THREADS)
    late = iter(other)
    other.load_state_dict(state)
    before = torch.get_rng_state()
    assert len(_read(late)) == 9
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_a_copy_has_iterators_of_its_own(duplicate: Callable[[Any], Any]) -> None:
    loader = PyTorchDataLoader(range(10), **THREADS)
    batches = iter(loader)
    state = _json(loader.state_dict())
    next(batches)
    other = duplicate(loader)
    other.load_state_dict(state)
    assert [batch.item() for batch in other] == list(range(10))
    assert [batch.item() for batch in batches] == list(range(1, 10))


def test_states_are_loaded_over_and_over() -> None:
    torch.manual_seed(0)
    loader = PyTorchDataLoader(Squares(), 3, shuffle=True, **THREADS)
    batches = iter(loader)
    states, whole = [_json(loader.state_dict())], []
    for batch in batches:
        whole.append(plain(batch))
        states.append(_json(loader.state_dict()))
    late = iter(loader)
    for cut in (5, 0, 7, 2):
        loader.load_state_dict(states[cut])
    assert _read(islice(late, 4)) == whole[2:6]
    del late
    late = iter(loader)
    loader.load_state_dict(states[5])
    assert _read(chain(late)) == whole[5:]

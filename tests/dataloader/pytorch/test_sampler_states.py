"""The states of samplers: computed where that is exact, and asked for where it is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataloader.pytorch.datasets import plain

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402
from spdl.source import EpochSampler  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 40


class Counted(EpochSampler):
    """Counts how often it is asked for its state."""

    asked = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

        def state_dict() -> dict[str, Any]:
            self.asked += 1
            return EpochSampler.state_dict(self)

        # A method of the object: one of the class would have it asked for at each step.
        self.state_dict = state_dict  # type: ignore[method-assign]


class Odd(EpochSampler):
    """Yields only the odd indices, so a state cannot be computed by the method that it inherits."""

    def __iter__(self) -> Iterator[int]:
        return (index for index in super().__iter__() if index % 2)


class Asked(EpochSampler):
    """Has the same states, and has to be asked for them."""

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict()


class Greedy(BatchSampler):  # type: ignore[misc] # mypy sees no types of torch's.
    """Yields batches of growing size."""

    def __iter__(self) -> Iterator[list[int]]:
        size, batch = 1, []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == size:
                yield batch
                size, batch = size + 1, []
        if batch:
            yield batch


def _sampler(kind: type[EpochSampler], size: int, batch_size: int = 3) -> EpochSampler:
    return kind(size, batch_size=batch_size, seed=4, rank=0, world_size=1)


ARGUMENTS: dict[str, Callable[[type[EpochSampler], int], dict[str, Any]]] = {
    "sampler": lambda kind, size: {"sampler": _sampler(kind, size), "batch_size": 3},
    "other batches": lambda kind, size: {"sampler": _sampler(kind, size), "batch_size": 5},
    "drop last": lambda kind, size: {"sampler": _sampler(kind, size), "batch_size": 3, "drop_last": True},
    "no batches": lambda kind, size: {"sampler": _sampler(kind, size), "batch_size": None},
    "batch sampler": lambda kind, size: {"batch_sampler": _sampler(kind, size).batch_sampler},
    "growing": lambda kind, size: {"batch_sampler": Greedy(_sampler(kind, size), 3, drop_last=False)},
}


def _make(kind: type[EpochSampler], form: str, size: int, workers: int) -> Any:
    return PyTorchDataLoader(range(size), **ARGUMENTS[form](kind, size), num_workers=workers)


def _read(loader: Any) -> list[Any]:
    return [plain(batch) for batch in loader]


def _cut(loader: Any, batches: int) -> tuple[list[Any], Any]:
    iterator = iter(loader)
    found = [plain(next(iterator)) for _ in range(batches)]
    return found, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["sampler", "other batches", "drop last", "no batches", "batch sampler"])
def test_a_sampler_that_can_compute_its_states_is_not_asked_at_each_step(form: str, workers: int) -> None:
    loader = _make(Counted, form, SIZE, workers)
    sampler: Any = loader.sampler if form == "no batches" else loader.batch_sampler.sampler
    assert len(_read(loader)) >= 8
    assert sampler.asked <= 3


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([EpochSampler, Odd, Asked]),
    st.sampled_from(list(ARGUMENTS)),
    st.integers(6, 20),
    st.sampled_from([0, 2]),
    st.data(),
)
def test_two_cuts_in_a_row_lose_nothing(
    kind: type[EpochSampler], form: str, size: int, workers: int, data: st.DataObject
) -> None:
    loader = _make(kind, form, size, workers)
    whole = [_read(loader) for _ in range(2)]
    first = data.draw(st.integers(0, len(whole[0])))
    begun, state = _cut(_make(kind, form, size, workers), first)
    other = _make(kind, form, size, workers)
    other.load_state_dict(state)
    more, state = _cut(other, data.draw(st.integers(0, len(whole[0]) - first)))
    last = _make(kind, form, size, workers)
    last.load_state_dict(state)
    assert [begun + more + _read(last), _read(last)] == whole


@pytest.mark.parametrize("form", ARGUMENTS)
def test_a_computed_state_is_what_the_sampler_would_have_said(form: str) -> None:
    for cut in range(8):
        states = [_cut(_make(kind, form, SIZE, 2), cut)[1]["epoch"] for kind in (EpochSampler, Asked)]
        computed, asked = ((it["received"], it["sampling"]) for it in states)
        assert computed[0] == asked[0] == [cut] * bool(cut)
        assert computed[1]["parts"][-1]["state"] == asked[1]["parts"][-1]["state"]
        assert (computed[1]["position"], computed[1]["drawn"]) == (asked[1]["position"], asked[1]["drawn"])


class Mutable:
    """A sampler whose state is its own list, and changes with it."""

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def __iter__(self) -> Iterator[int]:
        while len(self.drawn) < 12:
            self.drawn.append(len(self.drawn))
            yield self.drawn[-1]
        self.drawn = []

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "set": {1, 2}, "pair": (self.drawn, 1)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert (state["set"], state["pair"][0]) == ({1, 2}, state["drawn"])
        self.drawn = [*state["drawn"]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_that_changes_afterwards_was_copied(workers: int) -> None:
    whole = _read(PyTorchDataLoader(range(12), 2, sampler=Mutable(), num_workers=workers))
    for cut in range(7):
        loader = PyTorchDataLoader(range(12), 2, sampler=Mutable(), num_workers=workers)
        iterator = iter(loader)
        begun = [plain(next(iterator)) for _ in range(cut)]
        state = loader.state_dict()
        _read(iterator)
        other = PyTorchDataLoader(range(12), 2, sampler=Mutable(), num_workers=workers)
        other.load_state_dict(state)
        assert begun + _read(other) == whole


def test_the_end_of_an_epoch_in_which_another_rank_has_a_batch_left() -> None:
    def make(rank: int, world_size: int) -> PyTorchDataLoader:
        sampler = EpochSampler(5, batch_size=2, even_batches=False, rank=rank, world_size=world_size)
        return PyTorchDataLoader(range(5), batch_sampler=sampler.batch_sampler)

    ranks = [make(rank, 2) for rank in range(2)]
    assert [len(_read(rank)) for rank in ranks] == [1, 2]
    for rank, loader in enumerate(ranks):
        for other, world_size in ((1 - rank, 2), (0, 3)):
            resumed = make(other, world_size)
            if rank == 0:
                with pytest.raises(ValueError, match="other ranks have one batch more"):
                    resumed.load_state_dict(loader.state_dict())
            else:
                resumed.load_state_dict(loader.state_dict())
        own = make(rank, 2)
        own.load_state_dict(loader.state_dict())
        assert len(_read(own)) == rank + 1

"""A state that is loaded when there is an iterator already: it is heeded, or refused with the remedy."""

from __future__ import annotations

import copy
import json
import os
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import CacheDataLoader, DataLoader, MapIterator
from spdl.source import EpochSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES: dict[str, Callable[[], Any]] = {
    "range": lambda: range(20),
    "sampler": lambda: EpochSampler(20, seed=3),
    "replayed": lambda: dict.fromkeys(range(20)),
}
CUT = 3


def make(kind: str = "sampler") -> DataLoader[Any, Any]:
    return DataLoader(SOURCES[kind](), batch_size=2, output_order="input", num_threads=2)


def taken(loader: DataLoader[Any, Any]) -> Any:
    return json.loads(json.dumps(loader.state_dict()))


@pytest.fixture
def epochs() -> list[list[list[int]]]:
    """Return the first four epochs of a loader that is only looped over."""
    loader = make()
    found = [list(loader) for _ in range(4)]
    assert len({str(epoch) for epoch in found}) == 4
    return found


@pytest.mark.filterwarnings("ignore:.*cannot begin at a position")
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("cut", [0, CUT, 10])
def test_an_iterator_of_which_nothing_was_read_goes_on_from_the_state(kind: str, cut: int) -> None:
    loader = make(kind)
    batches = iter(loader)
    list(islice(batches, cut))
    state = taken(loader)
    rest, following = list(batches), list(loader)
    other = make(kind)
    late = iter(other)
    other.load_state_dict(state)
    assert taken(other) == state
    assert list(late) == rest
    assert list(other) == following


def test_a_state_between_epochs_is_heeded_as_well(epochs: list[Any]) -> None:
    loader = make()
    list(loader)
    state = taken(loader)
    late = iter(loader)
    assert list(loader) == epochs[1]
    loader.load_state_dict(state)
    assert list(late) == epochs[1]


@pytest.mark.parametrize("kept_before", [True, False])
def test_the_first_that_is_read_takes_the_state_up(epochs: list[Any], *, kept_before: bool) -> None:
    loader = make()
    list(islice(loader, CUT))
    state = taken(loader)
    other = make()
    # Bars of progress make one iterator and read another.
    kept = iter(other) if kept_before else None
    other.load_state_dict(state)
    kept = kept or iter(other)
    assert list(other) == epochs[0][CUT:]
    assert list(kept) == epochs[1]


def test_an_iterator_of_which_only_the_end_is_to_be_read_has_not_ended(epochs: list[Any]) -> None:
    loader = make()
    batches: Any = iter(loader)
    assert list(islice(batches, 10)) == epochs[0]
    with pytest.raises(RuntimeError, match=r"has not come to its end, which is a read after the last batch"):
        loader.load_state_dict(taken(make()))
    assert next(batches, None) is None
    loader.load_state_dict(taken(make()))
    assert list(loader) == epochs[0]


def test_an_iterator_that_was_read_is_to_be_ended_first(epochs: list[Any]) -> None:
    loader = make()
    batches: Any = iter(loader)
    state = taken(loader)
    assert next(batches) == epochs[0][0]
    with pytest.raises(RuntimeError, match=r"has not come to its end.*`close\(\)`"):
        loader.load_state_dict(state)
    # It was not loaded.
    assert next(batches) == epochs[0][1]
    other = make()
    other.load_state_dict(taken(loader))
    assert list(other) == epochs[0][2:]
    batches.close()
    loader.load_state_dict(state)
    assert list(loader) == epochs[0]


def left(loader: DataLoader[Any, Any]) -> Any:
    for number, _ in enumerate(loader):
        if number == CUT:
            break


def failed(loader: DataLoader[Any, Any]) -> Any:
    with pytest.raises(ZeroDivisionError):
        [1 // (CUT - number) for number, _ in enumerate(loader)]


def looked_at(loader: DataLoader[Any, Any]) -> Any:
    next(iter(loader))


def kept_from_before(loader: DataLoader[Any, Any]) -> Any:
    kept = iter(loader)
    next(kept)
    list(loader)
    return kept


@pytest.mark.parametrize("read", [list, left, failed, looked_at, kept_from_before])
def test_an_iterator_that_nobody_reads_does_not_stand_in_the_way(
    read: Callable[[DataLoader[Any, Any]], Any], epochs: list[Any]
) -> None:
    loader = make()
    list(islice(loader, CUT))
    state = taken(loader)
    kept = read(loader)
    loader.load_state_dict(state)
    assert taken(loader) == state
    assert list(loader) == epochs[0][CUT:]
    assert list(loader) == epochs[1]
    del kept


def test_an_older_iterator_does_not_go_on_as_if_no_state_had_been_loaded(epochs: list[Any]) -> None:
    loader = make()
    older = iter(loader)
    next(older)
    list(loader)
    state = taken(loader)
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="loaded after this iterator was begun, so it ends here"):
        next(older)
    assert list(older) == []
    assert taken(loader) == state
    assert list(loader) == epochs[2]


def test_the_state_tells_of_the_iterator_that_is_read(epochs: list[Any]) -> None:
    loader = make()
    batches = iter(loader)
    list(islice(batches, 5))
    # A look at the first batch.
    assert next(iter(loader)) == epochs[1][0]
    iter(loader)
    next(batches)
    other = make()
    other.load_state_dict(taken(loader))
    assert list(other) == epochs[0][6:]
    assert list(other) == epochs[1]
    assert list(batches) == epochs[0][6:]
    other.load_state_dict(taken(loader))
    assert list(other) == list(loader) == epochs[2]


class Wrapped(EpochSampler):
    """Saves more than it inherits."""

    def state_dict(self) -> dict[str, Any]:
        return {"mine": super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state["mine"])


@pytest.mark.parametrize("looked_up", [False, True])
def test_a_sampler_that_saves_its_state_in_another_way_is_asked_for_it(epochs: list[Any], *, looked_up: bool) -> None:
    def make_wrapped() -> DataLoader[Any, Any]:
        source = MapIterator(range(20), Wrapped(20, seed=3)) if looked_up else Wrapped(20, seed=3)
        return DataLoader(source, batch_size=2, output_order="input", num_threads=2)

    batches = iter(loader := make_wrapped())
    # The pass over the source has ended when the last item is there.
    assert list(islice(batches, 10)) == epochs[0]
    other = make_wrapped()
    other.load_state_dict(taken(loader))
    assert [list(other), list(other)] == [[], epochs[1]]


def test_the_statistics_are_those_of_the_iterator_that_is_read() -> None:
    loader = make()
    batches = iter(loader)
    list(islice(batches, 5))
    next(iter(loader))
    list(batches)
    assert loader.statistics().stages[-1].num_completed == 10


def test_two_iterators_are_read_in_turns(epochs: list[Any]) -> None:
    loader = make()
    pairs = zip(iter(loader), iter(loader), strict=True)
    for number, (one, other) in enumerate(pairs):
        assert [one, other] == [epochs[0][number], epochs[1][number]]
        resumed = make()
        resumed.load_state_dict(taken(loader))
        assert list(resumed) == epochs[1][number + 1 :]
    assert list(loader) == epochs[2]


def test_a_copy_has_epochs_of_its_own(epochs: list[Any]) -> None:
    loader = make("range")
    state = taken(loader)
    next(batches := iter(loader))
    other = copy.deepcopy(loader)
    other.load_state_dict(state)
    assert list(other) == list(make("range"))
    assert len(list(batches)) == len(epochs[0]) - 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_forked_child_loads_a_state() -> None:
    loader = make("range")
    state = taken(loader)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if not child:
        code = 1
        try:
            loader.load_state_dict(state)
            code = len(list(loader)) - 10
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == 9


def test_behind_caches(epochs: list[Any]) -> None:
    def cached() -> CacheDataLoader[Any]:
        return CacheDataLoader(make(), 1, 4, 6)

    loader = cached()
    batches: Iterator[Any] = iter(loader)
    list(islice(batches, 2))
    state = json.loads(json.dumps(loader.state_dict()))
    with pytest.raises(RuntimeError, match="has not come to its end"):
        loader.load_state_dict(state)
    other = cached()
    late = iter(other)
    other.load_state_dict(state)
    assert list(late) == [*epochs[0][2:6], *[epochs[0][2]] * 2]

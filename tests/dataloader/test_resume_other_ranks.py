"""Test that a state from an epoch's end goes on with other ranks exactly, or is refused."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import DataLoader, MapIterator
from spdl.pipeline import PipelineBuilder
from spdl.source import EpochSampler, merge_states

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 2


def sampler(size: int, rank: int, world_size: int) -> EpochSampler:
    return EpochSampler(size, batch_size=BATCH, even_batches=False, rank=rank, world_size=world_size)


def plain(size: int, rank: int, world_size: int) -> Any:
    return DataLoader(sampler(size, rank, world_size), batch_size=BATCH)


def mapped(size: int, rank: int, world_size: int) -> Any:
    samples = {index: index for index in range(size)}
    return DataLoader(MapIterator(samples, sampler=sampler(size, rank, world_size)), batch_size=BATCH)


class Alone:
    """A sampler that a loop reads itself."""

    def __init__(self, size: int, rank: int, world_size: int) -> None:
        self.batches = sampler(size, rank, world_size).batch_sampler
        self.state_dict, self.load_state_dict = self.batches.state_dict, self.batches.load_state_dict

    def __iter__(self) -> Any:
        return iter(self.batches)


class Piped:
    """A pipeline for each epoch."""

    def __init__(self, size: int, rank: int, world_size: int) -> None:
        builder: Any = PipelineBuilder().add_source(sampler(size, rank, world_size), continuous=True).aggregate(BATCH)
        self.pipeline = builder.add_sink(1).build(num_threads=1)
        self.state_dict, self.load_state_dict = self.pipeline.state_dict, self.pipeline.load_state_dict

    def __iter__(self) -> Any:
        return self.pipeline.get_iterator(timeout=60)


MAKES: list[Callable[[int, int, int], Any]] = [plain, mapped, Alone, Piped]


def steps_of(size: int, rank: int, world_size: int) -> int:
    """Return how many batches a rank has: full steps, and one more where it has a part of the rest."""
    full, rest = divmod(size, BATCH * world_size)
    return full + (rest * (rank + 1) // world_size > rest * rank // world_size)


def read(loader: Any, steps: int) -> tuple[list[int], Any]:
    """Return the items of so many steps, and the state then. One step more than there are reads the end."""
    got: list[int] = []
    iterator = iter(loader)
    for _ in range(steps):
        got += next(iterator, [])
    state = json.loads(json.dumps(loader.state_dict()))
    stop(loader)
    return got, state


def stop(loader: Any) -> None:
    if isinstance(loader, Piped):
        loader.pipeline.stop()


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("before", [2, 3])
@pytest.mark.filterwarnings("ignore:Rank")
def test_one_ranks_state_at_the_end_of_an_epoch(make: Callable[[int, int, int], Any], before: int) -> None:
    for size, rank, after in itertools.product(
        range(BATCH * before + 1, 2 * BATCH * before + 1), range(before), [1, 4]
    ):
        steps = steps_of(size, rank, before)
        most = max(steps_of(size, other, before) for other in range(before))
        _, state = read(make(size, rank, before), steps + 1)
        following = [(make(size, other, after), after) for other in range(after)]
        following += [(make(size, other, before), before) for other in range(before) if other != rank]
        for loader, _ in following:
            if steps < most:
                with pytest.raises(ValueError, match=r"other ranks have one batch more.*merge"):
                    loader.load_state_dict(state)
            else:
                loader.load_state_dict(state)
        if steps == most:
            received = [item for loader, world in following if world == after for batch in loader for item in batch]
            assert sorted(received) == list(range(size))
        # That rank itself goes on with its next epoch, and so says its state.
        own = make(size, rank, before)
        own.load_state_dict(state)
        assert json.loads(json.dumps(own.state_dict()))["epoch"] == state["epoch"] == 1
        assert len(read(own, 99)[0]) == len(sampler(size, rank, before))
        for loader, _ in following:
            stop(loader)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("before", [2, 3])
@pytest.mark.filterwarnings("ignore:Rank")
def test_the_states_of_all_ranks_go_on_exactly(make: Callable[[int, int, int], Any], before: int) -> None:
    for size, after in itertools.product(range(BATCH * before + 1, 2 * BATCH * before + 1), [1, 4]):
        most = max(steps_of(size, other, before) for other in range(before))
        for late in range(before):
            # All have read the end of their epoch, but one, which has a batch left.
            ranks = [read(make(size, rank, before), most - 1 if rank == late else most + 1) for rank in range(before)]
            following = [make(size, rank, after) for rank in range(after)]
            state = merge_states([each for _, each in ranks])
            received = Counter(item for items, _ in ranks for item in items)
            for loader in following:
                loader.load_state_dict(state)
                if sum(received.values()) < size:
                    received += Counter(item for batch in loader for item in batch)
                stop(loader)
            assert received == Counter(range(size)), (size, before, after, late)


@pytest.mark.parametrize("chosen", [True, False])
def test_choosing_the_next_epoch_forgets_nothing(*, chosen: bool) -> None:
    first = sampler(5, 0, 2)
    batches = first.batch_sampler
    assert len(list(batches)) == 1
    if chosen:
        first.set_epoch(1)
    with pytest.raises(ValueError, match="other ranks have one batch more"):
        sampler(5, 1, 2).load_state_dict(first.state_dict())
    # It has begun the next epoch, and so have the others.
    next(iter(batches))
    sampler(5, 1, 2).load_state_dict(first.state_dict())


class Keeps:
    """Keeps some: nothing tells so but what it does."""

    def __init__(self) -> None:
        self.table = {index: index for index in range(2, 30)}

    def __call__(self, index: int) -> int | None:
        return self.table.get(index)


def kept(index: int) -> int | None:
    return index if index > 1 else None


@pytest.mark.parametrize("keep", [kept, Keeps()])
def test_the_end_of_an_epoch_of_which_items_were_dropped(keep: Callable[[int], int | None]) -> None:
    def make(rank: int, world_size: int) -> Any:
        source = EpochSampler(24, shuffle=False, batch_size=BATCH, rank=rank, world_size=world_size)
        return DataLoader(source, preprocessor=keep, batch_size=BATCH)

    states = [make(0, 2).state_dict(), *(read(make(rank, 2), 99)[1] for rank in range(2))]
    make(0, 3).load_state_dict(states[0])
    again = make(0, 2)
    again.load_state_dict(states[1])
    for state, (rank, world_size) in itertools.product((states[1], again.state_dict()), [(0, 3), (1, 2)]):
        loader = make(rank, world_size)
        with pytest.raises(ValueError, match="makes more or fewer items than it gets"):
            loader.load_state_dict(state)
        # It is as it was.
        assert loader.state_dict() == make(rank, world_size).state_dict()
    merged = make(0, 3)
    merged.load_state_dict(merge_states(states[1:]))
    assert merged.state_dict()["epoch"] == 1

"""The sampler of epochs: what each rank takes, compared with a list of an epoch that is dealt out by hand."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.source.calls import calls_of

from spdl.source import EpochOrder, EpochSampler, KeyedPermutation, SequentialOrder, ShuffledOrder, merge_states

if TYPE_CHECKING:
    from collections.abc import Sequence

# Tests of how many a rank gets may have more ranks than samples.
pytestmark = pytest.mark.filterwarnings("ignore:Rank .* gets none of the")

SIZES = st.integers(1, 60)
WORLDS = st.integers(1, 5)
BATCHES = st.integers(1, 7)


def make(n: int, rank: int, world_size: int, batch_size: int, **options: Any) -> EpochSampler:
    return EpochSampler(n, rank=rank, world_size=world_size, batch_size=batch_size, **{"seed": 3, **options})


def deal(line: Sequence[int], world_size: int, batch_size: int) -> list[list[list[int]]]:
    """Return the batches of each rank: full ones in turn, and the rest in parts that differ by one at most."""
    ranks: list[list[list[int]]] = [[] for _ in range(world_size)]
    step = world_size * batch_size
    for begin in range(0, len(line) - len(line) % step, step):
        for rank in range(world_size):
            ranks[rank].append(list(line[begin + rank * batch_size :][:batch_size]))
    if rest := list(line[len(line) - len(line) % step :]):
        for rank in range(world_size):
            share = rest[len(rest) * rank // world_size : len(rest) * (rank + 1) // world_size]
            ranks[rank].append(share)
    return ranks


@given(SIZES, WORLDS, BATCHES, st.integers(0, 3))
def test_ranks_take_batches_in_turn(n: int, world_size: int, batch_size: int, epoch: int) -> None:
    line = list(KeyedPermutation(n, seed=3, epoch=epoch))
    expected = deal(line, world_size, batch_size)
    for rank in range(world_size):
        sampler = make(n, rank, world_size, batch_size)
        sampler.set_epoch(epoch)
        batches = list(sampler.batch_sampler)
        if not expected[rank][-1]:
            assert sampler.num_repeats == 1
            # One of the last step's own, so that it is the same wherever the epoch is cut.
            rest = n % (world_size * batch_size)
            assert batches[-1] == [line[n - rest + rank % rest]]
            expected[rank][-1] = batches[-1]
        assert batches == expected[rank]
        assert len(batches) == len(sampler.batch_sampler) == sampler.num_batches
        sampler.set_epoch(epoch)
        items = list(sampler)
        assert items == [index for batch in batches for index in batch]
        assert len(items) == len(sampler)
        assert all(type(index) is int for index in items)


@pytest.mark.parametrize("drop_last", [False, True])
@given(SIZES, WORLDS, BATCHES)
def test_all_ranks_take_as_many_batches(drop_last: Any, n: int, world_size: int, batch_size: int) -> None:
    step = world_size * batch_size
    if drop_last and n < step:
        with pytest.raises(ValueError, match=f"a step of all ranks takes {step}"):
            make(n, 0, world_size, batch_size, drop_last=True)
        return
    ranks = [make(n, rank, world_size, batch_size, drop_last=drop_last) for rank in range(world_size)]
    steps = n // step if drop_last else math.ceil(n / step)
    assert [len(list(rank.batch_sampler)) for rank in ranks] == [steps] * world_size
    items = [index for rank in ranks for index in list(make_again(rank))]
    if drop_last:
        assert len(items) == len(set(items)) == steps * step
    else:
        assert set(items) == set(range(n))
        assert len(items) - n == sum(rank.num_repeats for rank in ranks) < world_size


def make_again(sampler: EpochSampler) -> EpochSampler:
    copy: EpochSampler = pickle.loads(pickle.dumps(sampler))  # noqa: S301 - our own.
    copy.set_epoch(0)
    return copy


@given(SIZES, WORLDS, BATCHES)
def test_without_even_batches_nothing_comes_twice(n: int, world_size: int, batch_size: int) -> None:
    ranks = [make(n, rank, world_size, batch_size, even_batches=False) for rank in range(world_size)]
    batches = [list(rank.batch_sampler) for rank in ranks]
    assert sorted(index for rank in batches for batch in rank for index in batch) == list(range(n))
    lengths = [len(rank) for rank in batches]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == [rank.num_batches for rank in ranks]


def test_the_first_steps_depend_on_the_global_batch_alone() -> None:
    def first(world_size: int, batch_size: int, steps: int) -> list[int]:
        ranks = [list(make(100, rank, world_size, batch_size).batch_sampler) for rank in range(world_size)]
        return [index for step in range(steps) for rank in ranks for index in rank[step]]

    assert first(1, 12, 3) == first(2, 6, 3) == first(4, 3, 3) == first(3, 4, 3)


def test_each_pass_is_the_next_epoch() -> None:
    sampler = make(50, 0, 1, 4)
    passes = [list(sampler) for _ in range(3)]
    assert passes == [list(KeyedPermutation(50, seed=3, epoch=epoch)) for epoch in range(3)]
    assert sampler.epoch == 3
    sampler.set_epoch(1)
    assert sampler.epoch == 1
    assert list(sampler) == passes[1]
    assert list(sampler) == passes[2]


def test_a_pass_that_is_left_early_counts() -> None:
    sampler = make(50, 0, 1, 4)
    next(iter(sampler))
    assert list(sampler) == list(KeyedPermutation(50, seed=3, epoch=1))


def test_an_iterator_that_is_not_used_does_not_count() -> None:
    """PyTorch's loader with worker processes calls `iter` twice."""
    sampler = make(50, 0, 1, 4)
    iter(sampler)
    iter(sampler.batch_sampler)
    state = sampler.state_dict()
    iterator = iter(sampler)
    assert sampler.state_dict() == state == make(50, 0, 1, 4).state_dict()
    assert list(iterator) == list(KeyedPermutation(50, seed=3, epoch=0))


@given(SIZES, WORLDS, BATCHES, st.data())
def test_a_pass_can_begin_anywhere(n: int, world_size: int, batch_size: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, world_size - 1))
    sampler = make(n, rank, world_size, batch_size)
    whole = list(sampler)
    position = data.draw(st.integers(0, len(whole) + 2))
    sampler.set_epoch(0)
    assert list(sampler.iterate_from(position)) == whole[position:]
    sampler.set_epoch(0)
    batches = list(sampler.batch_sampler)
    sampler.set_epoch(0)
    assert list(sampler.batch_sampler.iterate_from(position)) == batches[position:]


@given(SIZES, WORLDS, BATCHES, st.data())
def test_a_rank_goes_on_with_the_very_sequence(n: int, world_size: int, batch_size: int, data: st.DataObject) -> None:
    ranks = [make(n, rank, world_size, batch_size) for rank in range(world_size)]
    whole = [list(rank) for rank in ranks]
    following = [list(rank) for rank in ranks]
    # In the last step ranks take different numbers of items, so it is over for all when it is for one.
    full = n // (world_size * batch_size) * batch_size
    position = data.draw(st.integers(0, full))
    for rank in ranks:
        rank.set_epoch(0)
    iterators = [iter(rank) for rank in ranks]
    for iterator in iterators:
        for _ in range(position):
            next(iterator)
    saved = data.draw(st.integers(0, world_size - 1))
    state = json.loads(json.dumps(ranks[saved].state_dict()))
    for number in range(world_size):
        resumed = make(n, number, world_size, batch_size)
        resumed.load_state_dict(state)
        again = make(n, number, world_size, batch_size)
        again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
        for each in (resumed, again):
            assert list(each) == whole[number][position:]
            assert list(each) == following[number]


@given(st.data())
def test_what_is_left_is_shared_by_any_number_of_ranks(data: st.DataObject) -> None:
    """Cut at steps that all ranks take, restored elsewhere, again and again: each item comes once."""
    n = data.draw(SIZES)
    epoch = data.draw(st.integers(0, 2))
    even = data.draw(st.booleans())
    state: dict[str, Any] | None = None
    received: list[int] = []
    for _ in range(data.draw(st.integers(1, 4))):
        world_size, batch_size = data.draw(WORLDS), data.draw(BATCHES)
        ranks = [make(n, rank, world_size, batch_size, even_batches=even) for rank in range(world_size)]
        for rank in ranks:
            rank.set_epoch(epoch) if state is None else rank.load_state_dict(state)
        iterators = [iter(rank.batch_sampler) for rank in ranks]
        for _ in range(data.draw(st.integers(0, 4))):
            step = [next(iterator, None) for iterator in iterators]
            items = [index for batch in step for index in batch or []]
            # Only a rank that would have nothing else repeats an item.
            assert len(set(items) - set(received)) >= len(items) - (even and world_size - 1)
            received += sorted(set(items) - set(received))
        if all(rank.epoch != epoch for rank in ranks):
            assert sorted(received) == list(range(n))
            return
        # A rank without items in the last step does not know of those of the others.
        states = [rank.state_dict() for rank in ranks]
        one = states[data.draw(st.integers(0, world_size - 1))] if even else merge_states(states)
        state = json.loads(json.dumps(one))
        assert len(json.dumps(state)) < 1000
    rest = make(n, 0, 1, 1, even_batches=even)
    assert state is not None
    rest.load_state_dict(state)
    assert sorted(received + list(rest)) == list(range(n))


@given(st.data())
def test_merged_states_say_what_all_ranks_received(data: st.DataObject) -> None:
    n = data.draw(SIZES)
    delivered: set[int] = set()
    state = None
    for _ in range(data.draw(st.integers(1, 3))):
        world_size, batch_size = data.draw(WORLDS), data.draw(BATCHES)
        states = []
        for rank in range(world_size):
            sampler = make(n, rank, world_size, batch_size, even_batches=False)
            if state is not None:
                sampler.load_state_dict(state)
            before = sampler.state_dict()
            items = list(sampler)
            places = data.draw(st.sets(st.integers(0, max(0, len(items) - 1)), max_size=len(items)))
            chosen = [place for place in sorted(places) if place < len(items)]
            fresh = {items[place] for place in chosen}
            assert not fresh & delivered
            delivered |= fresh
            states.append(sampler.advance_state(before, 0, [(place, place + 1) for place in chosen]))
        state = json.loads(json.dumps(merge_states(data.draw(st.permutations(states)))))
    rest = make(n, 0, 1, 3)
    assert state is not None
    rest.load_state_dict(state)
    assert sorted(rest) == sorted(set(range(n)) - delivered)


def test_a_far_position_of_a_huge_epoch_comes_at_once() -> None:
    n = 10**9
    sampler = make(n, 3, 8, 256)
    position = 100_000_000
    first = next(sampler.iterate_from(position))
    step = position // 256
    assert first == KeyedPermutation(n, seed=3)[(step * 8 + 3) * 256 + position % 256]
    state = sampler.state_dict()
    assert len(json.dumps(state)) < 500
    other = make(n, 0, 3, 100)
    other.load_state_dict(state)
    assert len(list(zip(other, range(5), strict=False))) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "`order` must be the number of items"),
        ({"n": 2**48 + 1}, "`order` must be the number of items"),
        ({"batch_size": 0}, "`batch_size` must be an int of at least 1"),
        ({"rank": 2, "world_size": 2}, "`rank` must be from 0 to 1 with `world_size=2`"),
        ({"rank": -1, "world_size": 2}, "`rank` must be from 0"),
        ({"rank": 0, "world_size": 0}, "`world_size` must be an int from 1 to 1048576"),
        ({"world_size": None}, "`world_size` must be given together with `rank`"),
        ({"rank": None}, "`rank` must be given together with `world_size`"),
        ({"drop_last": True, "batch_size": 11}, "all would be left out"),
    ],
)
def test_senseless_values_are_refused(options: dict[str, Any], message: str) -> None:
    arguments = {"rank": 0, "world_size": 1, **options}
    with pytest.raises(ValueError, match=message):
        EpochSampler(arguments.pop("n", 10), **arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 2.0},
        {"n": "3"},
        {"seed": None},
        {"batch_size": True},
        {"shuffle": "yes"},
        {"data": 3},
        {"drop_last": None},
    ],
)
def test_wrong_types_are_refused(options: dict[str, Any]) -> None:
    arguments = {"rank": 0, "world_size": 1, **options}
    with pytest.raises(TypeError, match="must be"):
        EpochSampler(arguments.pop("n", 10), **arguments)


def test_an_order_decides_its_shuffle_and_seed_itself() -> None:
    order = ShuffledOrder(20, seed=5)
    assert list(EpochSampler(order, rank=0, world_size=1)) == list(KeyedPermutation(20, seed=5))
    with pytest.raises(ValueError, match="an order decides both itself"):
        EpochSampler(order, shuffle=False, rank=0, world_size=1)
    with pytest.raises(ValueError, match="an order decides both itself"):
        EpochSampler(order, seed=1, rank=0, world_size=1)


def test_orders_fit_the_protocol() -> None:
    for order in (SequentialOrder(3), ShuffledOrder(3)):
        assert isinstance(order, EpochOrder)
    assert list(EpochSampler(SequentialOrder(3), rank=0, world_size=1)) == [0, 1, 2]


def test_a_sampler_can_be_pickled() -> None:
    sampler = make(20, 0, 2, 3)
    iterator = iter(sampler)
    next(iterator)
    assert make_again(sampler).state_dict() == make(20, 0, 2, 3).state_dict()


@given(SIZES, WORLDS, BATCHES, st.data())
def test_a_state_is_advanced_by_items_or_batches(n: int, world_size: int, batch_size: int, data: st.DataObject) -> None:
    """A reader ahead of its consumer says what the consumer has received, also out of order."""
    rank = data.draw(st.integers(0, world_size - 1))
    sampler = make(n, rank, world_size, batch_size)
    for source in (sampler, sampler.batch_sampler):
        sampler.set_epoch(1)
        for _ in range(2):
            before = json.loads(json.dumps(source.state_dict()))
            ahead = list(source)
            chosen = data.draw(st.sets(st.integers(0, max(0, len(ahead) - 1)), max_size=6)) if ahead else set()
            received = data.draw(st.integers(0, len(ahead)))
            state = source.advance_state(before, received, [(place, place + 1) for place in sorted(chosen)])
            source.load_state_dict(json.loads(json.dumps(state)))
            left = [item for place, item in enumerate(ahead) if place >= received and place not in chosen]
            assert sampler.epoch == 1
            assert list(source) == left
            source.load_state_dict(state)


@given(n=SIZES, world_size=WORLDS, batch_size=BATCHES, even_batches=st.booleans(), data=st.data())
def test_the_next_state_is_that_behind_the_pass(
    n: int, world_size: int, batch_size: int, *, even_batches: bool, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, world_size - 1))
    sampler, alone = (make(n, rank, world_size, batch_size, even_batches=even_batches) for _ in range(2))
    for source, undisturbed in ((sampler, alone), (sampler.batch_sampler, alone.batch_sampler)):
        before = json.loads(json.dumps(source.state_dict()))
        if not list(source):
            return
        # Others have begun passes over it meanwhile.
        next(iter(source), None)
        next(iter(source), None)
        undisturbed.load_state_dict(before)
        list(undisturbed)
        assert source.next_state(before) == undisturbed.state_dict()
        source.set_epoch(7)
        assert source.next_state(before)["epoch"] == 7


def test_a_state_is_advanced_within_its_pass() -> None:
    sampler = make(10, 0, 2, 2)
    state = sampler.state_dict()
    with pytest.raises(ValueError, match="`received` must be at most 5, the items of the pass"):
        sampler.advance_state(state, 6)
    with pytest.raises(ValueError, match="`beyond` must be at most 3, the batches of the pass"):
        sampler.batch_sampler.advance_state(state, 1, [(3, 4)])
    with pytest.raises(ValueError, match="not what merge_states"):
        sampler.advance_state(merge_states([state, make(10, 1, 2, 2).state_dict()]), 1)


def broken(**changes: Any) -> dict[str, Any]:
    state = make(10, 0, 2, 2).state_dict()
    for name, value in changes.items():
        if value is None:
            del state[name]
        else:
            state[name] = value
    return state


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (broken(spdl="Refill"), "is of a Refill, and this is an EpochSampler"),
        ({}, r"is not a state that `state_dict\(\)` returned"),
        (broken(version=2), "has version 2, and this release of spdl reads versions up to 1"),
        (broken(version="1"), "has no version"),
        (broken(received=None), "is damaged: its 'checksum' is"),
        (broken(received=[6]), "is damaged: its 'checksum' is"),
        (broken(checksum=None), "is damaged: it has no 'checksum'"),
        (
            make(10, 0, 2, 2, seed=4).state_dict(),
            r"of shuffled\(n=10, seed=4\), and this sampler is of shuffled\(n=10, seed=3\)",
        ),
    ],
)
def test_states_of_something_else_are_refused(state: dict[str, Any], message: str) -> None:
    sampler = make(10, 0, 2, 2)
    with pytest.raises(ValueError, match=message):
        sampler.load_state_dict(state)
    # It is as it was.
    assert sampler.state_dict() == make(10, 0, 2, 2).state_dict()


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`state` must be a dict, as `state_dict\(\)` returns one"):
        make(10, 0, 1, 1).load_state_dict([1])  # type: ignore[arg-type]


def test_a_state_of_other_data_is_refused() -> None:
    state = make(10, 0, 1, 1, data="ab12").state_dict()
    with pytest.raises(ValueError, match=r"of data 'ab12', and this sampler is of .* of data 'cd34'"):
        make(10, 0, 1, 1, data="cd34").load_state_dict(state)


def test_one_rank_that_received_out_of_order_does_not_speak_for_others() -> None:
    sampler = make(40, 0, 2, 2)
    state = sampler.advance_state(sampler.state_dict(), 2, [(4, 6)])
    same = make(40, 0, 2, 2)
    same.load_state_dict(state)
    assert len(list(same)) == 16
    for rank, world_size in ((1, 2), (0, 1), (0, 3)):
        with pytest.raises(ValueError, match="merge the states of all ranks with merge_states"):
            make(40, rank, world_size, 2).load_state_dict(state)


def test_states_that_do_not_belong_together_are_not_merged() -> None:
    first = make(20, 0, 2, 2).state_dict()
    with pytest.raises(ValueError, match="must hold the state of each rank, got none"):
        merge_states([])
    with pytest.raises(TypeError, match="`states` must be the states of all ranks, in a list, got 2"):
        merge_states(2)  # type: ignore[arg-type]
    for wrong in (5, "ab"):
        with pytest.raises(TypeError, match=r"`states\[0\]` must be a dict, as `state_dict\(\)` returns one"):
            merge_states([wrong])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"one state of each of the 2 ranks, got the states of the ranks \[0\]"):
        merge_states([first])
    with pytest.raises(ValueError, match=r"got the states of the ranks \[0, 0\]"):
        merge_states([first, first])
    with pytest.raises(ValueError, match=r"seed=3.*seed=9"):
        merge_states([first, make(20, 1, 2, 2, seed=9).state_dict()])
    with pytest.raises(ValueError, match=r"batch_size=2.*batch_size=3"):
        merge_states([first, make(20, 1, 2, 3).state_dict()])
    later = make(20, 1, 2, 2)
    later.load_state_dict(merge_states([make(20, 0, 1, 1).advance_state(make(20, 0, 1, 1).state_dict(), 5)]))
    with pytest.raises(ValueError, match="began at other positions"):
        merge_states([first, later.state_dict()])
    ahead = make(20, 1, 2, 2)
    list(ahead)
    next(iter(ahead))
    with pytest.raises(ValueError, match="rank 1 has begun epoch 1 while others are in epoch 0"):
        merge_states([first, ahead.state_dict()])


def test_a_rank_that_has_ended_the_epoch_has_received_it() -> None:
    ranks = [make(22, rank, 2, 2) for rank in range(2)]
    list(ranks[1])
    assert ranks[1].epoch == 1
    merged = merge_states([rank.state_dict() for rank in ranks])
    rest = make(22, 0, 1, 4)
    rest.load_state_dict(merged)
    assert list(rest) == list(make(22, 0, 2, 2))


def test_loading_and_choosing_the_same_epoch_keeps_the_position() -> None:
    sampler = make(20, 0, 1, 2)
    sampler.set_epoch(3)
    whole = list(sampler)
    sampler.set_epoch(3)
    iterator = iter(sampler)
    for _ in range(5):
        next(iterator)
    state = sampler.state_dict()
    resumed = make(20, 0, 1, 2)
    resumed.load_state_dict(state)
    resumed.set_epoch(3)
    assert list(resumed) == whole[5:]
    resumed.set_epoch(3)
    assert list(resumed) == whole
    resumed.load_state_dict(state)
    resumed.set_epoch(2)
    assert len(list(resumed)) == 20


def test_a_state_after_the_last_item_is_of_an_epoch_with_nothing_left() -> None:
    """As without the cut: the loop over this epoch gets nothing more, and the next loop the next epoch."""
    sampler = make(6, 0, 1, 2)
    iterator = iter(sampler)
    for _ in range(6):
        next(iterator)
    resumed = make(6, 0, 1, 2)
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == []
    assert list(resumed) == list(KeyedPermutation(6, seed=3, epoch=1))
    assert next(iterator, None) is None
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == list(KeyedPermutation(6, seed=3, epoch=1))


def test_states_are_short_and_made_quickly() -> None:
    """Of an epoch of a billion items, and with one item that is stuck while others go on."""
    n = 10**9
    sampler = make(n, 3, 8, 256)
    before = sampler.state_dict()
    next(sampler.iterate_from(10**8))
    assert len(json.dumps(sampler.state_dict())) < 400
    stuck = sampler.advance_state(before, 1000, [(1001, 66_537)])
    assert len(json.dumps(stuck)) < 400
    assert calls_of(sampler.state_dict) < 100
    # All ranks at different places, each with a hole.
    states = [
        rank.advance_state(rank.state_dict(), 10**6 + 7 * number, [(10**6 + 200, 10**6 + 300)])
        for number, rank in enumerate(make(n, rank, 8, 32) for rank in range(8))
    ]
    assert len(json.dumps(merge_states(states))) < 1000


def test_importing_the_package_imports_no_numpy() -> None:
    code = "import sys, spdl.source; assert 'numpy' not in sys.modules; spdl.source.EpochSampler"
    subprocess.run([sys.executable, "-c", code], check=True)

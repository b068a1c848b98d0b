"""Test that a state goes on with other numbers of ranks exactly, or is refused, whatever the stages do to counts."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, through_json
from tests.pipeline.test_resume_leftovers import Pack

from spdl.source import EpochSampler, merge_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import Pipeline

NUMBER = 30


def first_kept(index: int) -> int | None:
    return None if index % 3 == 0 else index


def then_kept(index: int) -> int | None:
    if index % 3:
        return index
    return None


def end_reached(index: int) -> Any:  # noqa: RET503 - what is looked for.
    if index % 3:
        return index


def asks_another(index: int) -> int | None:
    return first_kept(index)


def several(index: int) -> Iterator[tuple[int, int]]:
    for number in range(index % 3):
        yield index, number


def same(index: int) -> int:
    with nullcontext():
        return index


def tokens(index: int) -> tuple[int, ...]:
    return tuple(range(20 * index, 20 * index + 3 + index % 5))


class Keeps:
    def __call__(self, index: int) -> int | None:
        return self.keep(index)

    def keep(self, index: int) -> int | None:
        return first_kept(index)


# Stages, what comes of an index, and whether one rank's state tells what all ranks have received.
STAGES: dict[str, tuple[Callable[[Any], Any], Callable[[int], list[Any]], bool]] = {
    "none": (lambda builder: builder, lambda index: [index], True),
    "same": (lambda builder: builder.pipe(same), lambda index: [index], True),
    "batches": (lambda builder: builder.pipe(same).aggregate(2), lambda index: [index], True),
    "filter": (lambda builder: builder.pipe(first_kept), lambda index: [index] * (index % 3 > 0), False),
    "filter, then": (lambda builder: builder.pipe(then_kept), lambda index: [index] * (index % 3 > 0), False),
    "filter, end": (lambda builder: builder.pipe(end_reached), lambda index: [index] * (index % 3 > 0), False),
    "filter, other": (lambda builder: builder.pipe(asks_another), lambda index: [index] * (index % 3 > 0), False),
    "filter, lambda": (
        lambda builder: builder.pipe(lambda index: index if index % 3 else None),
        lambda index: [index] * (index % 3 > 0),
        False,
    ),
    "filter, batches": (lambda builder: builder.pipe(Keeps()).aggregate(2), lambda i: [i] * (i % 3 > 0), False),
    "generator": (lambda builder: builder.pipe(several), lambda index: list(several(index)), False),
    "packer": (
        lambda builder: builder.pipe(tokens).aggregate(Pack(7)).disaggregate(),
        lambda index: list(tokens(index)),
        False,
    ),
}


def make(kind: str, rank: int, world_size: int) -> Pipeline[Any]:
    sampler = EpochSampler(NUMBER, batch_size=2, even_batches=False, rank=rank, world_size=world_size)
    builder: Any = STAGES[kind][0](source(sampler))
    pipeline: Pipeline[Any] = builder.add_sink(2).build(num_threads=1)
    return pipeline


def read(pipeline: Pipeline[Any], steps: int | None = None) -> tuple[list[Any], dict[str, Any]]:
    """Return the items of so many steps, and the state then."""
    with pipeline.auto_stop():
        got = [
            item
            for step in itertools.islice(pipeline.get_iterator(timeout=60), steps)
            for item in (step if isinstance(step, list) or (isinstance(step, tuple) and len(step) != 2) else [step])
        ]
        return got, through_json(pipeline)


def go_on(kind: str, before: int, after: int, steps: int, *, merged: bool) -> str:
    """Return whether it was refused to go on with another number of ranks, and else that all came once."""
    ranks = [read(make(kind, rank, before), steps) for rank in range(before)]
    received = [item for items, _ in ranks for item in items]
    state = merge_states([each for _, each in ranks]) if merged else ranks[-1][1]
    following = [make(kind, rank, after) for rank in range(after)]
    try:
        for pipeline in following:
            pipeline.load_state_dict(state)
    except ValueError as error:
        return str(error)
    received += [item for pipeline in following for item in read(pipeline)[0]]
    expected = Counter(item for index in range(NUMBER) for item in STAGES[kind][1](index))
    assert Counter(received) == expected, (kind, before, after, steps)
    return "exact"


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 2), (4, 3)])
def test_one_state_goes_on_exactly_or_in_no_cut(kind: str, before: int, after: int) -> None:
    tells = STAGES[kind][2]
    for steps in range(1, 7):
        outcome = go_on(kind, before, after, steps, merged=False)
        if tells or (before == 1 and kind.startswith("filter")):
            assert outcome == "exact"
        elif before > 1:
            assert "makes more or fewer items than it gets" in outcome or "left over" in outcome or "some of" in outcome


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 2), (2, 2), (4, 1)])
def test_the_states_of_all_ranks_go_on_exactly(kind: str, before: int, after: int) -> None:
    for steps in range(1, 5):
        outcome = go_on(kind, before, after, steps, merged=True)
        if kind == "packer":
            assert "left over, which is a part of one rank's items" in outcome or "some of the results" in outcome
        elif kind != "generator":
            assert outcome == "exact"


def test_what_a_rank_has_lost_is_remembered() -> None:
    class Drops:
        """Nothing tells that it drops something."""

        def __init__(self) -> None:
            self.table = {index: index for index in range(NUMBER) if index != 4}

        def __call__(self, index: int) -> int | None:
            return self.table.get(index)

    def build(rank: int, world_size: int) -> Pipeline[Any]:
        sampler = EpochSampler(NUMBER, shuffle=False, even_batches=False, rank=rank, world_size=world_size)
        return source(sampler).pipe(Drops()).add_sink(1).build(num_threads=1)

    _, state = read(build(0, 2), 3)
    again = build(0, 2)
    again.load_state_dict(state)
    _, state = read(again, 1)
    with pytest.raises(ValueError, match=r"stage 'Drops' makes more or fewer items .*`spdl.source.merge_states`"):
        build(0, 3).load_state_dict(state)
    # The other rank of the same run has received others, too.
    with pytest.raises(ValueError, match="stage 'Drops' makes more or fewer items"):
        build(1, 2).load_state_dict(state)

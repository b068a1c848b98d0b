"""Test the record of the items in flight, also against a model that counts descendants one by one, and its sets."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source, wait_until

from spdl.pipeline._state import lineage as module
from spdl.pipeline._state import origins
from spdl.pipeline._state.lineage import Lineage, Progress, describe
from spdl.pipeline._state.origins import LISTED, Group, Results, Root
from spdl.pipeline._state.positions import PositionSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


def out(lineage: Lineage) -> list[tuple[int, ...]]:
    return [progress.out for progress in lineage.snapshot()]


def test_positions_are_out_until_they_are_delivered() -> None:
    lineage = Lineage()
    first = lineage.admit(0)
    lineage.admit(0)
    lineage.deliver(first)
    assert lineage.snapshot() == [Progress(2, (1,))]
    assert lineage.num_out() == 1


def test_the_positions_of_each_source_are_its_own() -> None:
    lineage = Lineage(sources=2)
    roots = [lineage.admit(source) for source in (0, 1, 1, 0, 1)]
    lineage.drop(roots[2])
    lineage.deliver_position(roots[0])
    assert lineage.snapshot() == [Progress(2, (1,)), Progress(3, (0, 2))]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_batches_of_fanned_out_items(fan_out: list[int], children: int) -> None:
    lineage = Lineage()
    leaves: list[Group] = []
    for count in fan_out:
        group = lineage.split(lineage.admit(0), count)
        leaves += [group] * count
    results = lineage.expand(lineage.gather(list(leaves)))
    roots = [results.next_result() for _ in range(children)]
    lineage.drop(results)
    for root in roots:
        assert out(lineage) == [tuple(range(len(fan_out)))]
        assert root is not None
        lineage.deliver(root)
    assert out(lineage) == [()]


def test_a_release_of_deep_groups_needs_no_stack() -> None:
    lineage = Lineage()
    root: int | Group = lineage.admit(0)
    for _ in range(100_000):
        root = lineage.split(root, 1)
    lineage.deliver(root)
    assert not lineage.num_out()


def test_where_a_batch_came_from() -> None:
    lineage = Lineage(sources=3)
    roots = [lineage.admit(source) for source in (2, 0, 0, 1)]
    batch = lineage.gather([lineage.gather([roots[0], *roots[2:]]), roots[0]])
    assert lineage.locate(batch) == [(2, 0), (0, 1), (1, 0)]
    lineage.deliver(batch)
    assert out(lineage) == [(0,), (), ()]


def test_descriptions() -> None:
    assert describe([(0, 3)], sources=1) == "source item 3"
    assert describe([(0, 1), (0, 5)], sources=1) == "source items 1, 5"
    assert describe([(1, 3)], sources=2) == "source item 3 of source 1"
    many = [(0, position) for position in range(11)]
    assert describe(many, sources=1) == "source items 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"


def test_a_report_lists_no_more_positions_than_a_reader_wants() -> None:
    lineage = Lineage()
    batch = lineage.gather([lineage.admit(0) for _ in range(LISTED + 5)])
    assert lineage.locate(batch) == [(0, position) for position in range(LISTED)]
    assert lineage.describe(batch) == "source items 0, 1, 2, 3, 4, 5, 6, 7 and more than 992 more"


def test_where_a_batch_came_from_that_was_taken_apart_again_and_again() -> None:
    """Each time doubles the number of ways from the batch to its items: 2 to the power of 100 in the end."""
    lineage = Lineage()
    roots: list[Root] = [lineage.admit(0), lineage.admit(0)]
    for _ in range(100):
        roots = [lineage.split(lineage.gather(roots), 2)] * 2
    batch = lineage.gather(roots)
    assert lineage.locate(batch) == [(0, 0), (0, 1)]
    assert lineage.describe(batch) == "source items 0, 1"
    lineage.deliver(batch)
    assert not lineage.num_out()


def grown(lineage: Lineage, fan_out: list[list[int]], order: list[int]) -> tuple[list[Root], list[Group]]:
    """Return the roots of items made of source items, shuffled, and the groups that may get more descendants.

    An item of the source becomes as many as its list has numbers, each of these as many as the number says.
    """
    leaves: list[Root] = []
    more: list[Group] = []
    for index, branches in enumerate(fan_out):
        root = lineage.admit(index % lineage.sources)
        if not branches:
            leaves.append(root)
            continue
        group = lineage.split(root, len(branches))
        for count in branches:
            inner = lineage.split(lineage.gather([group]), count + 1)
            leaves += [inner] * count
            more.append(inner)
    return [leaf for _, leaf in sorted(zip(order * len(leaves), leaves, strict=False), key=lambda pair: pair[0])], more


@given(
    st.integers(1, 3),
    st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=40),
    st.lists(st.integers(0, 1000), min_size=1, max_size=50),
    st.sets(st.integers(0, 100)),
)
def test_what_a_gathering_has_packed_is_out_until_it_is_released(
    sources: int, fan_out: list[list[int]], order: list[int], packings: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for each in (module, origins):
            patch.setattr(each, "LISTED", 3)
        lineage = Lineage(sources)
        leaves, more = grown(lineage, fan_out, order)
        everything, number = lineage.snapshot(), lineage.num_out()
        assert number == len(fan_out)
        half = len(more) // 2
        for group in more[:half]:
            lineage.drop(group)
        # Those that were branched to nothing are consumed.
        everything, number = lineage.snapshot(), lineage.num_out()
        gathering = lineage.begin_gathering()
        for index, leaf in enumerate(leaves):
            if index in packings:
                lineage.pack(gathering)
            gathering.parents.append(leaf)
            assert lineage.num_out() == number
        lineage.pack(gathering)
        assert lineage.snapshot() == everything
        assert lineage.num_out() == number
        for each in (module, origins):
            patch.setattr(each, "LISTED", 1000)
        located = lineage.locate(gathering)
        assert len(set(located)) == len(located)
        wanted = {origin for leaf in leaves for origin in lineage.locate(leaf)}
        assert set(located) == wanted
        lineage.deliver(gathering)
        for group in more[half:]:
            lineage.drop(group)
        assert [progress.out for progress in lineage.snapshot()] == [()] * sources
        assert lineage.num_out() == 0


def test_the_results_of_an_item_that_end_up_in_one_gathering_need_no_group() -> None:
    """The gathering of batches that were taken apart costs as little as that of their items."""
    lineage = Lineage()
    gathering = lineage.begin_gathering()
    for _ in range(1_000):
        batch = lineage.gather([lineage.admit(0) for _ in range(10)])
        gathering.parents.extend([lineage.split(batch, 10)] * 10)
        if gathering.is_long():
            lineage.pack(gathering)
    packed = gathering.packed()
    assert packed is not None
    assert len(packed.groups) <= 1
    assert lineage.num_out() == 10_000
    lineage.drop(gathering)
    assert lineage.num_out() == 0


def test_an_item_is_open_while_its_generator_has_more() -> None:
    more = threading.Event()

    def op(x: int) -> Iterator[int]:
        yield x
        assert more.wait(20)
        yield x

    with source([5]).pipe(op).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item(timeout=10) == 5
        assert pipeline.statistics().in_flight == 1
        more.set()
        assert pipeline.get_item(timeout=10) == 5
        assert wait_until(lambda: not pipeline.statistics().in_flight)


def position_set(positions: list[int]) -> PositionSet:
    made = PositionSet()
    for position in positions:
        made.add(position)
    return made


@given(st.lists(st.integers(0, 20)), st.permutations(range(6)), st.sets(st.integers(0, 10_000)))
def test_a_set_of_positions_holds_what_was_added(sizes: list[int], order: list[int], holes: set[int]) -> None:
    # Runs of blocks, in any order, with holes.
    runs = [range(each * 1500, each * 1500 + 1200 + 13 * sum(sizes[:each])) for each in order]
    positions = list(dict.fromkeys(position for run in runs for position in run if position not in holes))
    half = len(positions) // 2
    made, other = position_set(positions[:half]), position_set(positions[half:])
    made.take_over(other)
    assert list(made) == sorted(positions)
    assert len(made) == len(positions)


def test_a_set_of_contiguous_positions_costs_nothing() -> None:
    made = position_set(list(range(200_000)))
    content = [value for name in PositionSet.__slots__ if isinstance(value := getattr(made, name), dict)]
    assert sum(sys.getsizeof(value) for value in content) < 1_000
    assert sum(len(value) for value in content) <= 3


NUMBERS = st.permutations(range(12))


class Interrupting:
    """A tracer that raises KeyboardInterrupt before the n-th line of what runs in a `with` block."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(None)
        return kind is KeyboardInterrupt

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(("/_ranges.py", "_state/origins.py")):
            return None
        if event == "line":
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt
        return self


def change(number: int, steps: int, change_it: Callable[[int], None]) -> bool:
    """Make a change that is cut short after some steps. Return whether it was."""
    interrupting = Interrupting(steps)
    with interrupting:
        change_it(number)
    return interrupting.left < 0


@given(NUMBERS, st.dictionaries(st.integers(0, 11), st.integers(0, 15)))
def test_results_are_known_to_be_consumed(order: list[int], cuts: dict[int, int]) -> None:
    results = Results(0, {}, None)
    expected: set[int] = set()
    for at, number in enumerate(order):
        if not change(number, cuts.get(at, 10**9), results.note_done) or number in results.done():
            expected.add(number)
        assert results.done() == sorted(expected)
        assert results.is_begun() == bool(expected)

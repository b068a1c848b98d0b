"""Test the record of the items in flight, also against a model that counts descendants one by one."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source, wait_until

from spdl.pipeline._state.lineage import Lineage, Progress, describe
from spdl.pipeline._state.origins import LISTED, Group, Results, Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


def consumed(lineage: Lineage) -> list[Progress]:
    """Return how far each source is consumed."""
    return lineage.progress(lineage.unconsumed().roots)


def out(lineage: Lineage) -> list[tuple[int, ...]]:
    return [progress.out for progress in consumed(lineage)]


def test_positions_are_out_until_they_are_delivered() -> None:
    lineage = Lineage()
    first = lineage.admit(0)
    lineage.admit(0)
    lineage.deliver(first)
    assert consumed(lineage) == [Progress(2, (1,))]
    assert lineage.num_out() == 1


def test_the_positions_of_each_source_are_its_own() -> None:
    lineage = Lineage(sources=2)
    roots = [lineage.admit(source) for source in (0, 1, 1, 0, 1)]
    lineage.drop(roots[2])
    lineage.deliver_position(roots[0])
    assert consumed(lineage) == [Progress(2, (1,)), Progress(3, (0, 2))]


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

"""Test the record of the items in flight, also against a model that counts descendants one by one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source, wait_until

from spdl.pipeline._engine.lineage import Group, Lineage, Progress, describe

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    batch = lineage.gather(list(leaves))
    for _ in range(children - 1):
        lineage.branch(batch)
    for _ in range(children - 1):
        lineage.drop(batch)
    assert out(lineage) == [tuple(range(len(fan_out)))]
    lineage.deliver(batch)
    assert out(lineage) == [()]


def test_a_release_of_deep_groups_needs_no_stack() -> None:
    lineage = Lineage()
    root: int | Group = lineage.admit(0)
    for _ in range(100_000):
        root = lineage.split(root)
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

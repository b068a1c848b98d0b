"""The record of what is under way, against a model that counts descendants one by one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support import source, wait_until

from spdl.pipeline._engine.lineage import Group, Lineage, describe

if TYPE_CHECKING:
    from collections.abc import Iterator


def admit(lineage: Lineage, source: int, position: int) -> int:
    root = position * lineage.sources + source
    lineage.open.add(root)
    return root


def test_positions_are_open_until_released() -> None:
    lineage = Lineage()
    first = admit(lineage, 0, 0)
    admit(lineage, 0, 1)
    lineage.release(first)
    assert lineage.open == {1}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_batches_of_fanned_out_items(fan_out: list[int], children: int) -> None:
    lineage = Lineage()
    leaves: list[Group] = []
    for position, count in enumerate(fan_out):
        group = Group([admit(lineage, 0, position)], count)
        leaves += [group] * count
    batch = Group(list(leaves), children)
    for _ in range(children - 1):
        lineage.release(batch)
    assert lineage.open == set(range(len(fan_out)))
    lineage.release(batch)
    assert lineage.open == set()


def test_a_release_of_deep_groups_needs_no_stack() -> None:
    lineage = Lineage()
    root: int | Group = admit(lineage, 0, 0)
    for _ in range(100_000):
        root = Group([root], 1)
    lineage.release(root)
    assert not lineage.open


def test_where_a_batch_came_from() -> None:
    lineage = Lineage(sources=3)
    roots = [admit(lineage, 2, 0), admit(lineage, 0, 1), admit(lineage, 1, 5)]
    batch = Group([Group(list(roots), 1), roots[0]], 1)
    assert lineage.locate(batch) == [(2, 0), (0, 1), (1, 5)]
    lineage.release(batch)
    assert not lineage.open


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

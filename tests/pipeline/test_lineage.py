"""The record of what is under way, against a model that counts descendants one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._lineage import Group, Lineage, describe, positions


def test_positions_are_open_until_released() -> None:
    lineage = Lineage()
    first, second = lineage.admit(), lineage.admit()
    assert (first, second) == (0, 1)
    lineage.release(first)
    assert lineage.open == {1}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_batches_of_fanned_out_items(fan_out: list[int], children: int) -> None:
    lineage = Lineage()
    leaves: list[Group] = []
    for count in fan_out:
        group = Group([lineage.admit()], count)
        leaves += [group] * count
    batch = Group(list(leaves), children)
    for _ in range(children - 1):
        lineage.release(batch)
    assert lineage.open == set(range(len(fan_out)))
    lineage.release(batch)
    assert lineage.open == set()


def test_a_release_of_deep_groups_needs_no_stack() -> None:
    lineage = Lineage()
    root: int | Group = lineage.admit()
    for _ in range(100_000):
        root = Group([root], 1)
    lineage.release(root)
    assert not lineage.open


def test_descriptions() -> None:
    assert describe(3) == "source item 3"
    assert describe(Group([3], 1)) == "source item 3"
    assert describe(Group([1, Group([2, 5], 1), 2], 1)) == "source items 1, 2, 5"
    assert positions(Group([Group([4], 1), 4, 0], 2)) == [4, 0]

"""Positions are told of in their order, however they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdl.ray._actor.in_order import InOrder


@given(st.permutations(range(12)), st.lists(st.integers(1, 11), max_size=3, unique=True), st.integers(1, 5))
def test_each_range_is_told_of_from_its_beginning(order: list[int], cuts: list[int], at_once: int) -> None:
    edges = [0, *sorted(cuts), 12]
    in_order = InOrder()
    for start, stop in zip(edges, edges[1:], strict=False):  # noqa: RUF007 - as the ranges of a table.
        in_order.expect(start, stop)
    told: list[int] = []
    for first in range(0, 12, at_once):
        came = order[first : first + at_once]
        for start, stop in in_order.pass_on(came, None):
            told += range(start, stop)
        assert set(told) <= set(order[: first + at_once])
        assert told == list(range(len(told)))
    assert told == list(range(12))


def test_what_lies_behind_the_end_is_not_waited_for() -> None:
    in_order = InOrder()
    in_order.expect(0, 10)
    in_order.expect(10, 20)
    assert in_order.pass_on([1, 2], None) == []
    assert in_order.pass_on([0], 3) == [(0, 3)]
    in_order.expect(20, 22)
    assert in_order.pass_on([20, 21], None) == [(20, 22)]

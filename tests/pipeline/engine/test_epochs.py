"""Test that an epoch without results is reported for the right epoch, however far ahead the stages are."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


class Epochs:
    """A source that yields ``(epoch, 0)`` to ``(epoch, 2)``, with epochs counted from 1."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.epoch += 1
        return iter([(self.epoch, item) for item in range(3)])


def test_an_epoch_that_failed_whole_is_told_though_the_next_one_is_under_way() -> None:
    ahead = threading.Event()

    def early(item: tuple[int, int]) -> tuple[int, int]:
        if item[0] == 2:
            raise ValueError(item)
        if item[0] == 3:
            ahead.set()
        return item

    def late(item: tuple[int, int]) -> tuple[int, int]:
        # The first epoch stays in this stage until the third has begun.
        ahead.wait(20)
        return item

    builder = source(Epochs(), continuous=True).pipe(early).pipe(late, concurrency=3).add_sink(9)
    with builder.build(num_threads=8).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=20)) == [(1, 0), (1, 1), (1, 2)]
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=20))
    assert "all 3 items failed" in str(caught.value.exceptions[0])
    assert "(2, 2)" in str(caught.value.exceptions[0])


def test_a_failure_in_the_next_epoch_is_none_of_this_one() -> None:
    """The second epoch is dropped on purpose, and a failure occurs in the third meanwhile."""
    reached = threading.Event()
    go_on = threading.Event()

    def op(item: tuple[int, int]) -> Any:
        if item[0] == 2:
            return None
        if item == (3, 0):
            reached.set()
            go_on.wait(20)
            raise ValueError(item)
        return item

    builder = source(Epochs(), continuous=True).pipe(op).pipe(lambda item: item).add_sink(1)
    with builder.build(num_threads=4).auto_stop() as pipeline:
        first = pipeline.get_iterator(timeout=20)
        assert [next(first), next(first)] == [(1, 0), (1, 1)]
        go_on.set()
        assert list(first) == [(1, 2)]
        assert list(pipeline.get_iterator(timeout=20)) == []
        assert list(pipeline.get_iterator(timeout=20)) == [(3, 1), (3, 2)]
        assert reached.is_set()

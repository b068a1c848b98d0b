"""Test what a signal handler does or raises in the middle of a read.

A Ctrl-C loses one item or the end of one epoch at most. A state that the handler takes does not count an item that the
loop does not have.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.moments import AtMoments, Interrupt
from tests.pipeline.support import source, wait_until

import spdl.pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from spdl.pipeline import Pipeline

ENGINE = Path(spdl.pipeline.__file__).parent
# What a read runs, and what wakes others at its end.
READING = {str(ENGINE / name) for name in ("_iterators.py", "_pipeline.py", "_engine/channel.py")}
DEADLINE = 20
SIZE = 2
EPOCHS = 3


class Passes:
    """A source each of whose items says which pass it is of."""

    def __init__(self) -> None:
        self.passed = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        number = self.passed
        self.passed += 1
        return iter([(number, place) for place in range(SIZE)])


def is_read(code: CodeType) -> bool:
    # A finalizer of an earlier pipeline is none of this one's reads.
    return code.co_filename in READING and code.co_name != "_forget"


def loops(pipeline: Pipeline[Any], got: list[Any]) -> None:
    """Read to the end of an epoch, in another loop after an interrupt."""
    while True:
        with suppress(KeyboardInterrupt):
            for item in pipeline.get_iterator(timeout=DEADLINE):
                got.append(item)  # noqa: PERF402 - what came before an interrupt counts.
            return


def one_iterator(pipeline: Pipeline[Any], got: list[Any]) -> None:
    """Read to the end of an epoch, and go on with the same iterator after an interrupt."""
    while True:
        with suppress(KeyboardInterrupt):
            items = pipeline.get_iterator(timeout=DEADLINE)
            break
    while True:
        try:
            got.append(next(items))
        except KeyboardInterrupt:
            continue
        except StopIteration:
            return


def single_items(pipeline: Pipeline[Any], got: list[Any]) -> None:
    """Read to the end of an epoch, item by item."""
    while True:
        try:
            got.append(pipeline.get_item(timeout=DEADLINE))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


@pytest.mark.parametrize("read", [loops, one_iterator, single_items])
def test_an_interrupt_of_a_read_loses_one_item_or_end_at_most(read: Callable[[Pipeline[Any], list[Any]], None]) -> None:
    before = sys.gettrace()
    number = 0
    try:
        while True:
            tracer = Interrupt(number, is_read)
            epochs: list[list[Any]] = [[] for _ in range(EPOCHS)]
            # The sink holds all of them: the reads need not wait.
            pipeline = source(Passes(), continuous=True).add_sink(2 * EPOCHS * SIZE).build(num_threads=1)
            with pipeline.auto_stop(timeout=DEADLINE):
                sys.settrace(tracer)
                try:
                    for got in epochs:
                        read(pipeline, got)
                finally:
                    sys.settrace(None)
                epoch = pipeline.state_dict()["epoch"]
            if not tracer.where:
                break
            items = [each for got in epochs for each in got]
            given = [(number, place) for number in range(epoch) for place in range(SIZE)]
            lost = [each for each in given if each not in items]
            assert items == [each for each in given if each not in lost], tracer.where
            assert len(lost) + epoch - EPOCHS <= 1, tracer.where
            number += 1
    finally:
        sys.settrace(before)
    assert all(len(got) == SIZE for got in epochs)
    assert number > 30


def plain() -> Pipeline[Any]:
    return source(range(6)).pipe(abs).add_sink(20).build(num_threads=1)


def in_batches() -> Pipeline[Any]:
    return source(range(12)).pipe(abs).aggregate(2).add_sink(20).build(num_threads=1)


def taken_apart() -> Pipeline[Any]:
    return source(["ab", "cde", "f"]).aggregate(2).disaggregate().pipe(iter).add_sink(20).build(num_threads=1)


def of_bounded_bytes() -> Pipeline[Any]:
    return source([b"a", b"b", b"c"]).pipe(bytes).add_sink(20).build(num_threads=1, max_bytes=100)


@pytest.mark.parametrize("build", [plain, in_batches, taken_apart, of_bounded_bytes])
@pytest.mark.parametrize("by_loop", [True, False])
def test_a_state_of_a_signal_handler_does_not_count_an_item_on_its_way(
    build: Callable[[], Pipeline[Any]], *, by_loop: bool
) -> None:
    seen: list[tuple[str, Any]] = []
    # A finalizer of an earlier pipeline is none of this one's reads.
    tracer = AtMoments(
        lambda where: seen.append((where, pipeline.state_dict())),
        lambda code: code.co_filename.startswith(str(ENGINE)) and code.co_name != "_forget",
    )
    before = sys.gettrace()
    with build().auto_stop(timeout=DEADLINE) as pipeline:
        items: Any = pipeline.get_iterator(timeout=DEADLINE)
        assert wait_until(lambda: pipeline._engine.done)
        for _ in range(len(pipeline._engine.sink.entries)):
            expected = pipeline.state_dict()
            seen.clear()
            sys.settrace(tracer)
            try:
                next(items) if by_loop else pipeline.get_item(timeout=DEADLINE)
            finally:
                sys.settrace(before)
            assert len(seen) >= 3
            for where, state in seen:
                assert state == expected, where
            assert pipeline.state_dict() != expected

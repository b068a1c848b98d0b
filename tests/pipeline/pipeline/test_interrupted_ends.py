"""Test a Ctrl-C while the end of an epoch is read: the end comes again, and the next epoch begins after it."""

from __future__ import annotations

import dis
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

import spdl.pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

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


@cache
def operations(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


class Interrupt:
    """A tracer that raises a KeyboardInterrupt once, at the n-th moment of the reads at which Python may do so.

    That is after a call, at the begin of a function, and when a loop goes back.
    """

    def __init__(self, number: int) -> None:
        self.left = number
        self.where = ""
        self._before: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        # A finalizer of an earlier pipeline is none of this one's reads.
        if self.where or frame.f_code.co_filename not in READING or frame.f_code.co_name == "_forget":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            operation = operations(frame.f_code).get(frame.f_lasti, "")
            # Ones that are no more than a part of the next one.
            before = self._before.get(frame, "")
            if operation not in ("CACHE", "PRECALL"):
                self._before[frame] = operation
            # Python never does so where a handler begins, and would take the handled exception for one that goes on.
            if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and operation != "PUSH_EXC_INFO":
                self.left -= 1
                if self.left < 0:
                    self.where = f"{frame.f_code.co_name}:{frame.f_lineno} after {before}"
                    raise KeyboardInterrupt
        return self


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
def test_an_interrupt_at_any_moment_of_a_read_loses_no_end(read: Callable[[Pipeline[Any], list[Any]], None]) -> None:
    before = sys.gettrace()
    number = 0
    try:
        while True:
            tracer = Interrupt(number)
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
            for index, got in enumerate(epochs):
                assert {each for each, _ in got} <= {index}, tracer.where
            # One item may have been on its way to the loop.
            assert sum(map(len, epochs)) >= EPOCHS * SIZE - 1, tracer.where
            assert epoch == EPOCHS, tracer.where
            number += 1
    finally:
        sys.settrace(before)
    assert all(len(got) == SIZE for got in epochs)
    assert number > 30

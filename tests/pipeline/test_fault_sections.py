"""Test events between any two lines of the engine: finalizers, signal handlers, Ctrl-C.

A tracer counts the lines of the engine that a thread runs, and acts at the n-th one, for many n. It does what a
finalizer or a signal handler would do there, while the thread holds the locks of that line.
"""

from __future__ import annotations

import dis
import gc
import linecache
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, twice, wait_until

import spdl.pipeline
from spdl.pipeline import PipelineFailure
from spdl.pipeline.defs import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from spdl.pipeline import Pipeline

ENGINE = str(Path(spdl.pipeline.__file__).parent)
COUNT = 12
DEADLINE = 10


@pytest.fixture(autouse=True)
def small_heap() -> None:
    """Limit the collector, which runs very often here, to objects of the test.

    They stay frozen. Unfreezing would also unfreeze what `tests/conftest.py` has frozen.
    """
    gc.collect()
    gc.freeze()


def is_at_end_of_handler(frame: FrameType) -> bool:
    """Return whether a line begins with the end of a handler.

    Python interrupts nothing there. A tracer that does leaves the handled exception as the thread's for ever.
    """
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap.get("POP_EXCEPT")


class AtLine:
    """A tracer that acts once, at the n-th line of the engine."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.act = act
        self.where = ""
        self.done = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if self.done or not frame.f_code.co_filename.startswith(ENGINE):
            return None
        # A with statement counts as a line again when its block ends. Nothing can come between that and the release of
        # its lock.
        if (
            event == "line"
            and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
            and not is_at_end_of_handler(frame)
        ):
            self.left -= 1
            if self.left < 0 and not self.done:
                self.done = True
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
                self.act()
        return self


def graph(count: int = COUNT) -> Pipeline[Any]:
    """Return a pipeline of stages that have their own critical sections."""
    paths = [[Pipe(list, name="left")], [Pipe(list, output_order="input", concurrency=2, name="right")]]
    return (
        source(range(count))
        .pipe(lambda x: x, concurrency=2, output_order="input")
        .pipe(twice)
        .aggregate(3)
        .path_variants(lambda batch: [x % 2 for x in batch], paths, batched=True)
        .disaggregate()
        .pipe(awaits)
        .add_sink(2)
        .build(num_threads=2)
    )


async def awaits(x: int) -> int:
    return x


EXPECTED = sorted([*range(COUNT), *range(100, 100 + COUNT)])


class InCycle:
    """An object in a reference cycle, which only the collector frees."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.cycle = self

    def __del__(self) -> None:
        self.act()


def collect_with(act: Callable[[], object]) -> Callable[[], object]:
    def collect() -> None:
        InCycle(act)
        gc.collect()

    return collect


ACTIONS: dict[str, Callable[[Pipeline[Any]], Callable[[], object]]] = {
    "stop": lambda pipeline: lambda: pipeline.stop(timeout=DEADLINE),
    "statistics": lambda pipeline: pipeline.statistics,
    "collect_and_stop": lambda pipeline: collect_with(lambda: pipeline.stop(timeout=DEADLINE)),
    "collect_and_look": lambda pipeline: collect_with(lambda: (pipeline.statistics(), repr(pipeline))),
    "forget_another": lambda _: collect_with(started),
}


def started() -> None:
    """Start a pipeline and forget it, so that its finalizer runs."""
    graph().start()


def read(pipeline: Pipeline[Any]) -> list[int]:
    with pipeline.auto_stop(timeout=DEADLINE):
        return list(pipeline.get_iterator(timeout=DEADLINE))


def lines_of(trace: Callable[[Any], None]) -> int:
    """Return how many lines of the engine a run takes in the traced threads."""
    counter = AtLine(10**9, lambda: None)
    trace(counter)
    try:
        read(graph())
    finally:
        trace(None)
    return 10**9 - counter.left


def spread(total: int, points: int) -> Iterator[int]:
    """Yield points in the first half of a run, the first ones close together, since paths through the code repeat."""
    yield from sorted({int(total / 2 * (index / points) ** 2) for index in range(points)})


@pytest.mark.filterwarnings("ignore:The pipeline was stopped before its end:RuntimeWarning")
@pytest.mark.parametrize("thread", ["consumer", "worker"])
@pytest.mark.parametrize("action", ACTIONS)
def test_between_any_two_lines(action: str, thread: str) -> None:
    trace: Any = sys.settrace if thread == "consumer" else threading.settrace
    before = sys.gettrace()
    total = lines_of(trace)
    acted = 0
    try:
        for number in spread(total, 120):
            pipeline = graph()
            tracer = AtLine(number, ACTIONS[action](pipeline))
            begin = time.monotonic()
            trace(tracer)
            try:
                got = read(pipeline)
            except BaseException as error:
                error.add_note(f"{action} at {tracer.where}")
                raise
            finally:
                trace(None)
            assert time.monotonic() - begin < DEADLINE, tracer.where
            acted += tracer.done
            assert len(got) == len(set(got)), tracer.where
            if "stop" not in action:
                assert sorted(got) == EXPECTED, tracer.where
            assert not [alive for alive in pipeline._engine.all_threads() if alive.is_alive()], tracer.where
    finally:
        sys.settrace(before)
    assert acted > 60


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:The pipeline has been read to its end before")
@pytest.mark.parametrize("then", ["leave", "go on"])
def test_an_interrupt_between_any_two_lines_of_the_consumers(then: str) -> None:
    before = sys.gettrace()
    total = lines_of(sys.settrace)
    acted = 0
    try:
        for number in spread(2 * total, 300):
            pipeline = graph()
            pipeline.start()
            tracer = AtLine(number, interrupt)
            got: list[int] = []
            sys.settrace(tracer)
            try:
                for item in pipeline.get_iterator(timeout=DEADLINE):
                    got.append(item)  # noqa: PERF402 - what came before an interrupt counts.
            except KeyboardInterrupt:
                acted += 1
            finally:
                sys.settrace(None)
            if then == "go on":
                try:
                    got += pipeline.get_iterator(timeout=DEADLINE)
                except BaseException as error:
                    error.add_note(tracer.where)
                    raise
                # The interrupt may have come when an item had left the sink and not yet reached the loop.
                assert len(got) >= len(EXPECTED) - 1, tracer.where
            assert len(got) == len(set(got)), tracer.where
            begin = time.monotonic()
            pipeline.stop(timeout=DEADLINE)
            assert time.monotonic() - begin < DEADLINE / 2, tracer.where
            assert not [alive for alive in pipeline._engine.all_threads() if alive.is_alive()], tracer.where
    finally:
        sys.settrace(before)
    assert acted > 60


def test_an_interrupt_between_any_two_lines_of_the_start() -> None:
    before = sys.gettrace()
    acted = 0
    try:
        while True:
            # No event loop: one that was made and not started warns that nobody has closed it.
            pipeline = source(range(COUNT)).pipe(twice, concurrency=2).add_sink(2).build(num_threads=2)
            tracer = AtLine(acted, interrupt)
            sys.settrace(tracer)
            try:
                pipeline.start()
                break
            except KeyboardInterrupt:
                acted += 1
            finally:
                sys.settrace(None)
            begin = time.monotonic()
            got: list[Any] = []
            try:
                # All of it, where it had not begun, or was done.
                got = sorted(pipeline.get_iterator(timeout=DEADLINE))
            except PipelineFailure as failure:
                got.append(str(failure.exceptions[0]))
            except BaseException as error:
                error.add_note(tracer.where)
                raise
            assert got in (EXPECTED, ["The pipeline could not be started: KeyboardInterrupt"]), tracer.where
            pipeline.stop(timeout=DEADLINE)
            assert time.monotonic() - begin < DEADLINE / 2, tracer.where
            assert not [alive for alive in pipeline._engine.all_threads() if alive.is_alive()], tracer.where
    finally:
        sys.settrace(before)
    assert acted > 40


def read_beside_another(number: int) -> tuple[list[int], AtLine]:
    """Read an item in two threads, interrupt this one at a line, and return what came in all."""
    left = threading.Event()
    waiting: list[Any] = []

    def items() -> Iterator[int]:
        # It comes once both readers wait for it, or one is gone.
        assert wait_until(lambda: len(waiting) == 2 or left.is_set(), DEADLINE)
        yield 7

    def end() -> None:
        left.set()
        raise KeyboardInterrupt

    pipeline = source(items()).add_sink(1).build(num_threads=1)
    waiting = pipeline._engine.sink.readers
    got: list[int] = []
    other = threading.Thread(target=lambda: got.extend(pipeline), daemon=True)
    tracer = AtLine(number, end)
    with pipeline.auto_stop():
        other.start()
        assert wait_until(lambda: waiting, DEADLINE)
        iterator = pipeline.get_iterator(timeout=DEADLINE)
        sys.settrace(tracer)
        try:
            got.extend(iterator)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
            left.set()
        other.join(DEADLINE)
        assert not other.is_alive(), tracer.where
    return got, tracer


def test_an_interrupt_of_one_of_two_readers_between_any_two_lines() -> None:
    before = sys.gettrace()
    try:
        number = 0
        while True:
            got, tracer = read_beside_another(number)
            if not tracer.done:
                break
            # One that has left the sink and not reached the loop is gone. Else the other reader gets it.
            assert got == [7] or (not got and "_wait" not in tracer.where), tracer.where
            number += 1
    finally:
        sys.settrace(before)
    assert number > 30

"""Test that nothing begins once a pipeline was asked to stop, wherever the request comes, with every kind of stage.

A request takes no lock. So one comes here whenever the engine's lock was released, by whichever thread: before an op, a
step of a generator, a pull of the source. What that thread would begin next must not begin.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.kinds import KINDS, Item, Kind, faulty, text_log
from tests.pipeline.support import source, wait_until

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore:The pipeline was stopped before its end")

DEADLINE = 10

# Those of which each call of the op is one that the engine makes, in this process.
CALLED = [
    kind for kind in KINDS if kind.name not in ("processes", "flush", "pipeline_source", "callback", "disaggregate")
]
CARRIED = Kind("carried", "drop", lambda op, items, _: (items, [faulty(op), faulty(op), faulty(op)]))


class Trap:
    """Asks a pipeline to stop right after its lock was released for the n-th time, and notes what begins later."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.pipeline: Pipeline[Any] | None = None
        self.lock: object = None
        self.thread = 0
        self.asked = False
        # How often each thread has begun something since.
        self.begun: Counter[int] = Counter()
        self.read = 0

    @contextmanager
    def set_for(self, pipeline: Pipeline[Any]) -> Iterator[None]:
        """Watch the lock of a pipeline that has not started."""
        self.pipeline, self.lock = pipeline, pipeline._engine.lock
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _watch(self, _: object, event: str, call: Any) -> None:
        if event == "c_return" and not self.asked and call.__name__ in ("release", "__exit__"):
            self._returned(call.__self__)

    def _returned(self, lock: object) -> None:
        if lock is not self.lock:
            return
        self.left -= 1
        if self.left <= 0:
            assert self.pipeline is not None
            self.asked = True
            self.thread = threading.get_ident()
            # As `stop` does, in a finalizer or a signal handler.
            self.pipeline._engine.request_stop()

    def op(self, item: Any) -> Any:
        if self.asked:
            self.begun[threading.get_ident()] += 1
        time.sleep(0.0005)
        return item

    def wrong(self) -> list[str]:
        """Return what has begun that should not: another thread may have been about to begin one op."""
        found = ["in the thread that was asked"] if self.begun[self.thread] else []
        return found + ["again in another thread" for count in self.begun.values() if count > 1]


def _run(kind: Kind, number: int) -> Trap:
    trap = Trap(number)
    items = [Item(number) for number in range(30)]
    with kind.pipeline(trap.op, items) as pipeline, trap.set_for(pipeline):
        pipeline.start()
        try:
            while not (trap.asked or pipeline._engine.done):
                trap.read += len(list(pipeline.get_iterator(timeout=DEADLINE)))
            trap.read += len(list(pipeline))
        except PipelineFailure as failure:
            raise AssertionError(kind) from failure
        pipeline.stop(timeout=DEADLINE)
        # Nothing came after the end was seen, and what was read was counted.
        assert not pipeline._engine.sink.entries
        order = pipeline._engine.nodes[-1].order if pipeline._engine.nodes else None
        held = order.buffered if order is not None else 0
        assert pipeline.statistics().stages[-1].num_completed - held == trap.read
    return trap


@pytest.mark.filterwarnings("ignore:The pipeline has been read to its end before")
@pytest.mark.parametrize("kind", [*CALLED, CARRIED], ids=str)
def test_nothing_begins_after_a_stop(kind: Kind) -> None:
    found = {}
    for number in [*range(1, 40), *range(40, 120, 5)]:
        if wrong := _run(kind, number).wrong():
            found[number] = wrong
    assert not found


def _chain(ops: int, op: Callable[[Any], Any]) -> Pipeline[Any]:
    builder = source(range(100))
    for index in range(ops):
        builder.pipe(op, name=f"stage {index}")
    return builder.add_sink(3).build(num_threads=2)


def test_an_item_is_not_carried_through_further_stages() -> None:
    begun: list[int] = []
    entered, goes_on = threading.Event(), threading.Event()

    def op(item: int) -> int:
        begun.append(item)
        entered.set()
        goes_on.wait(DEADLINE)
        return item

    pipeline = _chain(6, op)
    pipeline.start()
    assert entered.wait(DEADLINE)
    # The second worker runs the second item.
    assert wait_until(lambda: len(begun) == 1)
    with pytest.raises(TimeoutError):
        pipeline.stop(timeout=0)
    before = len(begun)
    goes_on.set()
    pipeline.stop(timeout=DEADLINE)
    assert len(begun) == before


class _Sums(Aggregator[int, int]):
    def __init__(self, op: Callable[[int], Any]) -> None:
        self.op = op

    def accumulate(self, item: int) -> int:
        self.op(item)
        return item

    def flush(self) -> None:
        return None


def test_what_an_op_returns_after_the_end_was_seen_never_comes() -> None:
    entered, goes_on = threading.Event(), threading.Event()

    def op(item: int) -> int:
        entered.set()
        goes_on.wait(DEADLINE)
        return item

    builds: list[Callable[[], PipelineBuilder[Any, Any]]] = [
        lambda: source(range(9)).pipe(op),
        lambda: source(range(9)).pipe(op, output_order="input", concurrency=2),
        lambda: source(range(9)).pipe(lambda item: (op(each) for each in [item])),
        lambda: source(range(9)).aggregate(_Sums(op)),
        lambda: source(op(each) for each in range(9)),
    ]
    for build in builds:
        entered.clear()
        goes_on.clear()
        pipeline: Pipeline[Any] = build().add_sink(3).build(num_threads=2)
        pipeline.start()
        assert entered.wait(DEADLINE)
        pipeline._engine.request_stop()
        assert list(pipeline) == []
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=0)
        goes_on.set()
        pipeline.stop(timeout=DEADLINE)
        assert list(pipeline) == []
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=0)


class _Source:
    """A source that says how often it is iterated and closed."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make
        self.log: list[str] = []
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        self.log.append("iter")
        return _Iterator(self)


class _Iterator:
    def __init__(self, source: _Source) -> None:
        self.source = source
        self.number = -1

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        self.number += 1
        return self.source.make(self.number)

    def close(self) -> None:
        self.source.log.append("close")
        self.source.closed.set()


def test_a_source_is_not_iterated_again_after_another_worker_closed_it() -> None:
    class Stops:
        """An item that a worker drops between two looks at what is to be done."""

        def __del__(self) -> None:
            pipeline.stop()
            items.closed.wait(1)

    def refuse(item: Any) -> None:
        raise ValueError(type(item))

    items = _Source(lambda number: number or Stops())
    pipeline = source(items).pipe(refuse).add_sink(3).build(num_threads=2)
    with text_log():
        pipeline.start()
        assert wait_until(lambda: pipeline._engine.stopping)
        pipeline.stop(timeout=DEADLINE)
    assert items.log == ["iter", "close"]


@pytest.mark.parametrize("length", [2, 10**9])
@pytest.mark.parametrize(
    "options", [{}, {"continuous": True}, {"dedicated_thread": True}, {"continuous": True, "dedicated_thread": True}]
)
def test_each_iterator_is_closed_once_or_runs_out(options: dict[str, Any], length: int) -> None:
    def make(number: int) -> int:
        if number >= length:
            items.log.append("end")
            raise StopIteration
        return number

    for number in range(1, 80):
        trap = Trap(number)
        items = _Source(make)
        pipeline = source(items, **options).pipe(lambda x: x).add_sink(3).build(num_threads=2)
        with trap.set_for(pipeline):
            pipeline.start()
            while not (trap.asked or pipeline._engine.done):
                list(pipeline)
            pipeline.stop(timeout=DEADLINE)
        # What was iterated ran out before it is iterated again, and at last ran out or was closed, once.
        *before, last = " ".join(items.log).split("iter")[1:] or ["end"]
        assert {end.strip() for end in before} <= {"end"}, (number, items.log)
        assert last.strip() in ("end", "close"), (number, items.log)


def test_no_thread_starts_for_a_retry_after_a_stop() -> None:
    entered, goes_on = threading.Event(), threading.Event()

    def op(item: int) -> int:
        entered.set()
        goes_on.wait(DEADLINE)
        raise ValueError(item)

    pipeline = source(range(9)).pipe(op, retries=3, retry_delay=0).add_sink(3).build(num_threads=1)
    pipeline.start()
    assert entered.wait(DEADLINE)
    pipeline._engine.request_stop()
    goes_on.set()
    pipeline.stop(timeout=DEADLINE)
    assert pipeline._engine.timer.thread.ident is None

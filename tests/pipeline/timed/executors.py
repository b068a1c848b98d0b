"""How many calls are handed over to pools of processes, and what is measured of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source
from tests.pipeline.timed.programs import drain, exactly, program
from tests.simulation.executors import ProcessPool, ThreadPool
from tests.simulation.world import monotonic, sleep

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class Counting(ProcessPool):
    """One that counts the calls submitted to it."""

    submitted = 0

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        self.submitted += 1
        return super().submit(function, *args)


class CountingThreads(ThreadPool):
    """The same of threads."""

    submitted = 0

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        self.submitted += 1
        return super().submit(function, *args)


def _same(x: int) -> int:
    return x


def _takes_long_from_200(x: int) -> int:
    if x >= 200:
        sleep(0.1)
        _ended[x] = monotonic()
    return x


_ended: dict[int, float] = {}


def _submitted(op: Callable[[int], int], items: range, kind: Any = Counting) -> int:
    executor = kind(1)
    stage = source(items).pipe(op, executor=executor, concurrency=64, output_order="input")
    assert drain(stage.add_sink(10).build(num_threads=4)) == list(items)
    executor.shutdown()
    submitted: int = executor.submitted
    return submitted


@program
def short_ops_share_a_call() -> None:
    assert _submitted(_same, range(600)) < 200
    assert _submitted(_same, range(600), CountingThreads) < 10


@program
def a_call_ends_early_where_it_takes_long() -> None:
    executor = Counting(1)
    builder = source(range(230)).pipe(_takes_long_from_200, executor=executor, concurrency=64, output_order="input")
    with builder.add_sink(10).build(num_threads=4).auto_stop() as pipeline:
        for number, got in enumerate(pipeline.get_iterator(timeout=20)):
            # What is left over of a call is handed over again, in its order.
            assert got == number
            if got == 200:
                # It does not wait for those that were handed over with it.
                assert monotonic() - _ended[got] == exactly(0)
    executor.shutdown()
    assert executor.submitted > 30


_begun: list[int] = []


def _notes_and_takes_long_from_400(x: int) -> int:
    _begun.append(x)
    if x >= 400:
        sleep(0.2)
    return x


@program
def few_items_of_a_call_begin_after_a_stop() -> None:
    del _begun[:]
    executor = Counting(1)
    builder = source(range(10**6)).pipe(_notes_and_takes_long_from_400, executor=executor, concurrency=64)
    pipeline = builder.add_sink(1000).build(num_threads=1)
    pipeline.start()
    for _ in range(1_000):
        if len(_begun) <= 400:
            sleep(0.01)
    before = len(_begun)
    assert before > 400
    pipeline.stop(timeout=60)
    executor.shutdown()
    sleep(10)
    # The pool has one call in store.
    assert len(_begun) - before <= 1


def _nap(seconds: float) -> float:
    sleep(seconds)
    return seconds


@program
def statistics_count_the_time_in_the_worker() -> None:
    executor = ProcessPool(2)
    builder = source([0.05] * 6).pipe(_nap, executor=executor, concurrency=6, name="sleep").add_sink(9)
    pipeline = builder.build(num_threads=1)
    assert len(drain(pipeline)) == 6
    executor.shutdown()
    (stage,) = [each for each in pipeline.statistics().stages if each.name == "sleep"]
    # Six ops of 50 ms run on two processes. The time they wait for a process does not count.
    assert stage.busy_seconds == exactly(0.3)
    assert pipeline.statistics().elapsed == exactly(0.15)

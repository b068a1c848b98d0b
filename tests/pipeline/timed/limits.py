"""What a pipeline says is its limit, of stages, sources and consumers whose times are known."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
from typing import TYPE_CHECKING, Any

from tests.pipeline.support import source
from tests.pipeline.timed.cores import compute
from tests.pipeline.timed.programs import drain, nap, program, slowly
from tests.simulation.executors import ThreadPool
from tests.simulation.world import sleep

from spdl.pipeline import TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline import PipelineBuilder


def _limit(
    builder: PipelineBuilder[Any, Any], *, consume: float = 0, sink: int = 3, num_threads: int = 8, **options: Any
) -> str:
    pipeline = builder.add_sink(sink).build(num_threads=num_threads, **options)
    drain(pipeline, consume=consume)
    return pipeline.statistics().bottleneck


@program
def a_stage() -> None:
    said = _limit(source(range(100)).pipe(abs).pipe(nap(0.01), name="slow"))
    assert said.startswith(
        "I/O. 'slow': Its only slot is in use 100 % of the time, and computes for 0 % of it: it waits"
    )
    said = _limit(source(range(400)).pipe(nap(0.01), name="slow", concurrency=4).pipe(abs))
    assert said.startswith("Unclear. 'slow': Its 4 slots are in use 100 % of the time"), said
    # They may wait for each other, so nobody promises anything.
    assert "they wait for I/O, or for another thread's lock, 10 ms for each item." in said
    assert "If it is I/O: `concurrency=64`" in said
    assert "x as fast" not in said


def _heavy(x: int) -> int:
    compute(0.01)
    return x


@program
def the_cpu() -> None:
    threads = os.cpu_count() or 1
    builder = source(range(50 * threads)).pipe(_heavy, concurrency=threads, name="decode").pipe(abs)
    said = _limit(builder, num_threads=threads + 1)
    assert re.fullmatch(
        r"CPU\. 'decode': Its (only slot is|\d+ slots are) in use 100 % of the time, and computes? for 100 % of it: "
        r"10 ms for each item\. The process uses [\d.]+ of [\d.]+ cores\. .*",
        said,
    ), said


@program
def the_consumer() -> None:
    said = _limit(source(range(100)).pipe(abs), consume=0.01)
    assert said.startswith("Slow consumer. The training loop waits 0 % of the time for data: "), said
    assert said.endswith("a faster loader gains nothing."), said
    assert _limit(source(range(100)), consume=0.01).startswith("Slow consumer.")


@program
def the_source() -> None:
    said = _limit(source(slowly(100, 0.01)).pipe(abs))
    assert said.startswith("Serial source. 'src': Its next() takes 100 % of the time, 10 ms for each item"), said


@program
def the_threads() -> None:
    for num_threads, said in ((2, "All 2 threads are in ops"), (1, "The only thread is in ops")):
        builder = source(range(100))
        for name in ("one", "two"):
            builder.pipe(nap(0.01), name=name, concurrency=4)
        found = _limit(builder, num_threads=num_threads)
        assert said in found, found
        assert found.startswith("I/O."), found
        assert "Its ops wait: `num_threads=8`." in found, found


def _kilobyte(_: object) -> bytes:
    sleep(0.02)
    return bytes(1 << 10)


@program
def the_bytes() -> None:
    builder = source(range(40)).pipe(_kilobyte, concurrency=16, name="read")
    said = _limit(builder, sink=4, num_threads=16, max_bytes=2 << 10)
    assert re.match(
        r"Memory budget\. 'read': 9\d % of the time another item might not have fitted into the 2,048 bytes of "
        r"`max_bytes`, and its 16 slots are in use only 12 % of it\. `max_bytes=",
        said,
    ), said


@program
def the_bytes_that_the_consumer_has_not_read() -> None:
    builder = source(range(40)).pipe(_kilobyte, concurrency=16, name="read")
    said = _limit(builder, sink=4, num_threads=16, max_bytes=4 << 10, consume=0.1)
    assert said.startswith("Slow consumer."), said
    assert "and `max_bytes` leaves room for no more" in said, said


@program
def what_is_in_use_all_the_time_though_bytes_are_short() -> None:
    builder = source(range(40)).pipe(_kilobyte, name="slow")
    assert _limit(builder, sink=4, max_bytes=1 << 10).startswith("I/O. 'slow': Its only slot is in use")


class _Nothing(TaskHook):
    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


async def _nap_async(_: int) -> None:
    await asyncio.sleep(0.2)


def _apply(function: Any, x: int) -> Any:
    return function(x)


def _nap(_: int) -> None:
    sleep(0.2)


@program
def only_what_threads_of_the_pipeline_run_is_theirs() -> None:
    ops: dict[str, Any] = {"async": _nap_async, "late async": functools.partial(_apply, _nap_async)}
    for kind in ("worker", "hooked", "async", "late async", "threads"):
        executor = ThreadPool(8) if kind == "threads" else None
        builder = source(range(8)).pipe(ops.get(kind, _nap), concurrency=16, executor=executor)
        hooks = (lambda _: [_Nothing()]) if kind == "hooked" else None
        said = _limit(builder, num_threads=2, task_hook_factory=hooks)
        if executor is not None:
            executor.shutdown()
        expected = "All 2 threads are in ops" if kind in ("worker", "hooked") else "no stage is in use"
        assert expected in said, (kind, said)


@program
def nothing() -> None:
    said = _limit(source(range(8)).pipe(_nap_async, concurrency=16, name="busiest"))
    assert said.startswith("None."), said
    assert "no stage is in use for more than 50 % of it" in said, said
    said = _limit(source(slowly(100, 0.006)), consume=0.01)
    assert said.startswith("Slow consumer. The training loop waits 1 % of the time for data: 2 of 3 places hold"), said


@program
def nothing_that_has_run() -> None:
    assert _limit(source([]).pipe(abs)) == "Nothing has run yet."
    unstarted = source([1]).add_sink(1).build(num_threads=1)
    assert unstarted.statistics().bottleneck == "Nothing has run yet."

"""What a pipeline says is its limit, of stages, sources and consumers whose times are known."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import sys
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
    assert _limit(source(range(100)).pipe(abs).pipe(nap(0.01), name="slow")) == (
        "Stage 'slow' is the limit: its only slot was busy 100 % of the time."
    )
    assert _limit(source(range(400)).pipe(nap(0.01), name="slow", concurrency=4).pipe(abs)) == (
        "Stage 'slow' is the limit: its 4 slots were busy 100 % of the time."
    )


def _heavy(x: int) -> int:
    compute(0.01)
    return x


@program
def the_cpu() -> None:
    threads = os.cpu_count() or 1
    builder = source(range(50 * threads)).pipe(_heavy, concurrency=threads, name="decode").pipe(abs)
    said = _limit(builder, num_threads=threads + 1)
    assert re.fullmatch(
        r"The CPU is the limit: the ops use [\d.]+ of [\d.]+ cores, most of it in stage 'decode' "
        r"\(10\.00 ms of CPU per item\)\.",
        said,
    ), said


@program
def the_consumer() -> None:
    said = _limit(source(range(100)).pipe(abs), consume=0.01)
    assert re.fullmatch(r"The consumer is the limit: the sink's 3 places were taken 100 % of the time\.", said), said
    assert _limit(source(range(100)), consume=0.01).startswith("The consumer is the limit")


@program
def the_source() -> None:
    assert _limit(source(slowly(100, 0.01)).pipe(abs)) == (
        "The source is the limit: its next() took 100 % of the time."
    )


@program
def the_threads() -> None:
    for num_threads, said in (
        (2, "The threads are the limit: all 2 of them ran ops 100 % of the time."),
        (1, "The only thread is the limit: it ran ops 100 % of the time."),
    ):
        builder = source(range(100))
        for name in ("one", "two"):
            builder.pipe(nap(0.01), name=name, concurrency=4)
        assert _limit(builder, num_threads=num_threads) == said


def _kilobyte(_: object) -> bytes:
    sleep(0.02)
    return bytes(1 << 10)


@program
def the_bytes() -> None:
    builder = source(range(40)).pipe(_kilobyte, concurrency=16, name="read")
    said = _limit(builder, sink=4, num_threads=16, max_bytes=2 << 10)
    assert re.fullmatch(
        r"`max_bytes` is the limit: 9\d % of the time another item might not have fitted into its 2,048 bytes, while "
        r"stage 'read' was busy 12 % of it\. Raise it, or make the items smaller\.",
        said,
    ), said


@program
def the_bytes_that_the_consumer_has_not_read() -> None:
    builder = source(range(40)).pipe(_kilobyte, concurrency=16, name="read")
    said = _limit(builder, sink=4, num_threads=16, max_bytes=4 << 10, consume=0.1)
    assert re.fullmatch(
        r"The consumer is the limit: 100 % of the time what it had not read yet left no room for another item in the "
        r"4,096 bytes of `max_bytes`\.",
        said,
    ), said


@program
def what_is_in_use_all_the_time_though_bytes_are_short() -> None:
    builder = source(range(40)).pipe(_kilobyte, name="slow")
    assert _limit(builder, sink=4, max_bytes=1 << 10).startswith("Stage 'slow' is the limit")


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
        expected = "The threads are the limit" if kind in ("worker", "hooked") else "Nothing is saturated"
        assert said.startswith(expected), (kind, said)


@program
def nothing() -> None:
    said = _limit(source(range(8)).pipe(_nap_async, concurrency=16, name="busiest"))
    assert said.startswith("Nothing is saturated: stage 'busiest' is the busiest, 50 % of the time."), said
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert ("`spdl profile` says" in said) == has_gil
    said = _limit(source(slowly(100, 0.006)), consume=0.01)
    assert re.fullmatch(r"Nothing is saturated: the source's next\(\) took 6\d % of the time\.", said), said


@program
def nothing_that_has_run() -> None:
    assert _limit(source([]).pipe(abs)) == "Nothing has run yet."
    unstarted = source([1]).add_sink(1).build(num_threads=1)
    assert unstarted.statistics().bottleneck == "Nothing has run yet."

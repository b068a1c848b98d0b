"""Measure items per second through stages that do nothing, and through equivalents without an engine."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from outcome import figures
from usage import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable


def same(item: int) -> int:
    """Do nothing."""
    return item


def pipeline(
    *,
    items: int,
    stages: int,
    concurrency: int,
    threads: int,
    op: str = "same",
    order: str = "completion",
    aggregate: int = 0,
    pool: int = 0,
) -> dict[str, float]:
    """Pass the items through so many equal stages, with an executor of so many threads if ``pool`` is not 0."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the bare contenders do without.

    function: Callable[[int], Any] = same
    if op == "same_async":
        # Only then: asyncio would count as memory of those that do without.
        from coroutines import same_async  # noqa: PLC0415

        function = same_async
    executor = ThreadPoolExecutor(pool) if pool else None
    builder: Any = PipelineBuilder().add_source(range(items))
    for _ in range(stages):
        builder.pipe(function, concurrency=concurrency, output_order=order, executor=executor)
    if aggregate:
        builder.aggregate(aggregate)
    built = builder.add_sink(100).build(num_threads=threads)
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    if executor is not None:
        executor.shutdown()
    if aggregate:
        got = [item for batch in got for item in batch]
    return figures(got, items, seconds, cpu)


def bare_executor(*, items: int, concurrency: int, pool: int) -> dict[str, float]:
    """Submit an op for each item, with a callback that takes the result, and so many at a time."""
    got: list[int] = []
    # The fastest of the ways to bound them: a SimpleQueue passes permits in half of a Semaphore's time.
    permits: SimpleQueue[None] = SimpleQueue()
    for _ in range(concurrency):
        permits.put(None)

    def done(future: Future[int]) -> None:
        got.append(future.result())
        permits.put(None)

    cpu, begin = cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(pool) as executor:
        for item in range(items):
            permits.get()
            executor.submit(same, item).add_done_callback(done)
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)

"""Measure how long one item takes through stages that do nothing, with no other item in flight."""

from __future__ import annotations

import time
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from stream import same
from usage import cpu_seconds, peak_memory_mb, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WARM_UP = 200


def pipeline(*, items: int, stages: int, concurrency: int, threads: int, sink: int) -> dict[str, float]:
    """Time each item from the permit to yield it until the consumer has it."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    permits: SimpleQueue[int | None] = SimpleQueue()

    def source() -> Iterator[int]:
        # Never more than one item is in flight: the next is permitted when the consumer has this one.
        while (item := permits.get()) is not None:
            yield item

    builder: Any = PipelineBuilder().add_source(source())
    for _ in range(stages):
        builder.pipe(same, concurrency=concurrency)
    built = builder.add_sink(sink).build(num_threads=threads)
    with built.auto_stop():
        consumer = iter(built)
        result = _time(permits, lambda: next(consumer), items)
        permits.put(None)
        if list(consumer):
            raise SystemExit("more items came out than went in")
    return result


def bare_thread(*, items: int) -> dict[str, float]:
    """Let one thread take the permit and put the item where the consumer waits: two wake-ups and nothing else."""
    permits: SimpleQueue[int | None] = SimpleQueue()
    sink: SimpleQueue[int] = SimpleQueue()

    def work() -> None:
        while (item := permits.get()) is not None:
            sink.put(same(same(same(item))))

    thread = Thread(target=work)
    thread.start()
    result = _time(permits, sink.get, items)
    permits.put(None)
    thread.join()
    return result


def _time(permits: SimpleQueue[int | None], take: Callable[[], int], items: int) -> dict[str, float]:
    took = []
    cpu = 0.0
    for number in range(WARM_UP + items):
        if number == WARM_UP:
            cpu = cpu_seconds()
        begin = time.perf_counter()
        permits.put(number)
        got = take()
        took.append(time.perf_counter() - begin)
        if got != number:
            raise SystemExit(f"item {got} came out while only item {number} was in flight")
    cpu = cpu_seconds() - cpu
    return {
        **spread(took[WARM_UP:]),
        "cpu_seconds": cpu,
        "cpu_seconds_per_million": cpu / items * 1e6,
        "peak_memory_mb": peak_memory_mb(),
    }

"""Measure stages that sleep, against the most that their concurrency and threads allow."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Any

from outcome import figures
from usage import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable


def sleeper(seconds: float) -> Callable[[int], int]:
    """Return an op that sleeps."""

    def op(item: int) -> int:
        time.sleep(seconds)
        return item

    return op


def alone(seconds: list[float]) -> list[float]:
    """Return how long each op takes on an otherwise idle thread, in seconds. Equal ops are measured once."""
    found = {}
    for duration in set(seconds):
        op = sleeper(duration)
        times = max(20, min(1000, round(0.2 / max(duration, 1e-6))))
        begin = time.perf_counter()
        for item in range(times):
            op(item)
        found[duration] = (time.perf_counter() - begin) / times
    return [found[duration] for duration in seconds]


def bare_threads(*, items: int, seconds: list[float], threads: int) -> dict[str, float]:
    """Let threads take items from one iterator and run all ops on each: the cost of the ops and the GIL alone."""
    ops = [sleeper(duration) for duration in seconds]
    source = iter(range(items))
    got: list[int] = []

    def work() -> None:
        for item in source:
            for op in ops:
                op(item)
            got.append(item)

    workers = [Thread(target=work) for _ in range(threads)]
    cpu, begin = cpu_seconds(), time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)


def pipeline(*, items: int, seconds: list[float], slots: list[int], threads: int) -> dict[str, float]:
    """Pass the items through, and compare with min(c_i / d_i, threads / sum d_i)."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    # The real duration of a sleep varies with the machine's load, so it is measured before and after.
    before = alone(seconds)
    builder: Any = PipelineBuilder().add_source(range(items))
    for duration, concurrency in zip(seconds, slots, strict=True):
        builder.pipe(sleeper(duration), concurrency=concurrency)
    built = builder.add_sink(100).build(num_threads=threads)
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    result = figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)
    mean = [sum(pair) / 2 for pair in zip(before, alone(seconds), strict=True)]
    bounds = [count / duration for count, duration in zip(slots, mean, strict=True)]
    result["bound_items_per_second"] = min(*bounds, threads / sum(mean))
    result["share_of_bound"] = result["items_per_second"] / result["bound_items_per_second"]
    # The items that can be ahead of an item: the stages' concurrency, and 2 slots in each stage's input queue.
    result["overtaken_share_of_in_flight"] = result["overtaken_by_at_most"] / (sum(slots) + 2 * len(slots))
    return result

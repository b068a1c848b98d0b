"""The engine's workloads, on the public API that this project and the released reference share.

Run as `python _engine_work.py WORK N`: prints one line of JSON. It runs in the contender's own interpreter, so it
imports nothing but `spdl.pipeline` and the standard library.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SLEEPING = {
    "sleeps 1, 0.5, 4 ms": ((0.001, 0.0005, 0.004), (8, 1, 8), 8),
    "sleeps 1, 0.9, 4 ms": ((0.001, 0.0009, 0.004), (8, 1, 8), 6),
    "sleeps 2, 1, 4 ms": ((0.002, 0.001, 0.004), (4, 2, 8), 16),
}


def same(item: int) -> int:
    """Do nothing."""
    return item


async def same_async(item: int) -> int:
    """Do nothing, and let others run."""
    await asyncio.sleep(0)
    return item


def sleeping(seconds: float) -> Callable[[int], int]:
    """Make an op that sleeps."""

    def op(item: int) -> int:
        time.sleep(seconds)
        return item

    return op


def build(work: str, items: Iterable[int]) -> Any:
    """Build the pipeline of that workload."""
    builder: Any = PipelineBuilder().add_source(items)
    num_threads, sink = 8, 100
    if work in SLEEPING:
        seconds, slots, num_threads = SLEEPING[work]
        for duration, concurrency in zip(seconds, slots, strict=True):
            builder.pipe(sleeping(duration), concurrency=concurrency)
    elif work == "1 async stage":
        builder.pipe(same_async, concurrency=64)
    else:
        order = "input" if work == "3 no-op stages in input order" else "completion"
        for _ in range(3):
            builder.pipe(same, concurrency=4, output_order=order)
        if work == "3 no-op stages and aggregate(32)":
            builder.aggregate(32)
    return builder.add_sink(sink).build(num_threads=num_threads)


def durations(work: str) -> list[float]:
    """How long the ops of a sleeping workload take when measured alone, in seconds."""
    found = []
    for seconds in SLEEPING[work][0]:
        op = sleeping(seconds)
        begin = time.perf_counter()
        for item in range(200):
            op(item)
        found.append((time.perf_counter() - begin) / 200)
    return found


def measure(work: str, n: int) -> dict[str, Any]:
    """Pass ``n`` items through, and check that they all come out."""
    alone = durations(work) if work in SLEEPING else []
    pipeline = build(work, range(n))
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    with pipeline.auto_stop():
        got = list(pipeline)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    if work == "3 no-op stages and aggregate(32)":
        got = [item for batch in got for item in batch]
    if sorted(got) != list(range(n)):
        raise SystemExit(f"{work}: {len(got)} items came out of {n}, or not the same ones")
    result = {
        "items_per_second": n / seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_memory_mb": after.ru_maxrss / 1024,
        "overtaken_by_at_most": max(place - item for place, item in enumerate(got)),
    }
    if work in SLEEPING:
        # How long a sleep really takes moves with the machine's load: measured before and after.
        _, slots, num_threads = SLEEPING[work]
        mean = [sum(pair) / 2 for pair in zip(alone, durations(work), strict=True)]
        result["bound"] = min(
            *(count / duration for count, duration in zip(slots, mean, strict=True)), num_threads / sum(mean)
        )
        result["share_of_bound"] = result["items_per_second"] / result["bound"]
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))

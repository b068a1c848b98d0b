"""Measure how long a consumer that leaves early waits for the pipeline to stop."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from math import ceil
from random import Random
from typing import Any

from sleeping import sleeper
from usage import cpu_seconds, peak_memory_mb, spread


def pipeline(*, graphs: int, seconds: float, seed: int) -> dict[str, float]:
    """Break out of random graphs whose ops all take this long, and time from there to the end of `auto_stop`."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    random = Random(seed)  # noqa: S311 - these graphs are no secrets.
    took: list[float] = []
    cpu = cpu_seconds()
    for _ in range(graphs):
        builder: Any = PipelineBuilder().add_source(count())
        for _ in range(random.randint(1, 6)):
            op: Any = sleeper(seconds) if random.random() < 0.75 else async_sleeper(seconds)  # noqa: PLR2004 - a share.
            order = random.choice(["completion", "input"])
            builder.pipe(op, concurrency=random.randint(1, 8), output_order=order)
        built = builder.add_sink(random.randint(1, 10)).build(num_threads=random.randint(1, 16))
        left_after = random.randint(0, 20)
        with built.auto_stop():
            for number, _ in enumerate(built):
                if number >= left_after:
                    break
            begin = time.perf_counter()
        took.append(time.perf_counter() - begin)
    return {
        **spread(took),
        "p95_microseconds": sorted(took)[ceil(len(took) * 0.95) - 1] * 1e6,
        "cpu_seconds": cpu_seconds() - cpu,
        "peak_memory_mb": peak_memory_mb(),
    }


def async_sleeper(seconds: float) -> Any:
    """Return a coroutine function that sleeps."""

    async def op(item: int) -> int:
        await asyncio.sleep(seconds)
        return item

    return op

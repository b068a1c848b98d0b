"""Measure stages in the processes of a region, or in threads."""

from __future__ import annotations

import time
from typing import Any


def spin(x: int) -> int:
    """Hold the GIL for a millisecond."""
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass
    return x


def same(x: int) -> int:
    """Do nothing."""
    return x


def chain(*, op: str, count: int, where: str, workers: int = 2) -> dict[str, float]:
    """Run one op on numbers, and read them after the first ones."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the contender's.
    from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig  # noqa: PLC0415

    function = {"spin": spin, "same": same}[op]
    first = count // 10
    builder: Any = PipelineBuilder().add_source(range(count))
    if where == "region":
        builder = builder.to(ProcessPoolExecutorConfig(workers), buffer_size=64).pipe(function)
        builder = builder.to(MAIN_PROCESS, buffer_size=64)
    else:
        builder = builder.pipe(function, concurrency=workers)
    # In the reference, `auto_stop` returns nothing.
    pipeline = builder.add_sink(64).build(num_threads=workers)
    with pipeline.auto_stop():
        items = iter(pipeline)
        for _ in range(first):
            next(items)
        begin = time.perf_counter()
        rest = sum(1 for _ in items)
        return {"items_per_second": rest / (time.perf_counter() - begin)}

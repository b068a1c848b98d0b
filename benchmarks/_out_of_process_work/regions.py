"""Measure stages in the processes of a region, or in threads."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
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


def flat(*, count: int, workers: int = 2) -> dict[str, float]:
    """Run numbers through a region, and watch the memory of this process and of the workers after the first tenth."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the contender's.
    from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig  # noqa: PLC0415

    builder: Any = PipelineBuilder().add_source(range(count)).to(ProcessPoolExecutorConfig(workers), buffer_size=64)
    pipeline: Any = builder.pipe(same).to(MAIN_PROCESS, buffer_size=64).add_sink(64).build(num_threads=workers)
    begun, ended = count // 10, count - count // 100
    with pipeline.auto_stop():
        for number, _ in enumerate(pipeline):
            if number == begun:
                before, begin = _resident(), time.perf_counter()
            elif number == ended:
                # The workers still run.
                grown, seconds = _resident() - before, time.perf_counter() - begin
    return {"items_per_second": (ended - begun) / seconds, "grown_mb": max(0.0, grown)}


def _resident() -> float:
    pids = [os.getpid(), *(each.pid for each in multiprocessing.active_children())]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

"""Measure the kinds of workers that a region may have, beside plain threads."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from regions import same, spin

if TYPE_CHECKING:
    from collections.abc import Callable

OPS: dict[str, Callable[[int], int]] = {"spin": spin, "same": same}
# A pipeline whose start is timed has so many items. What it has beside its first one does not count.
_SHORT = 4


def _build(op: str, items: Any, kind: str, workers: int) -> Any:
    from spdl.pipeline import PipelineBuilder, defs  # noqa: PLC0415 - the contender's.

    builder: Any = PipelineBuilder().add_source(items)
    if kind == "none":
        return builder.pipe(OPS[op], concurrency=workers).add_sink(64).build(num_threads=workers)
    config = {
        "processes": defs.ProcessPoolExecutorConfig,
        "interpreters": defs.InterpreterPoolExecutorConfig,
        "threads": defs.ThreadPoolExecutorConfig,
    }[kind]
    builder = builder.to(config(workers), buffer_size=64).pipe(OPS[op]).to(defs.MAIN_PROCESS, buffer_size=64)
    return builder.add_sink(64).build(num_threads=workers)


def rate(*, kind: str, op: str, count: int, workers: int = 2) -> dict[str, float]:
    """Run one op on numbers, and read them after the first tenth."""
    first = count // 10
    pipeline = _build(op, range(count), kind, workers)
    with pipeline.auto_stop():
        items = iter(pipeline)
        for _ in range(first):
            next(items)
        begin = time.perf_counter()
        rest = sum(1 for _ in items)
        return {"items_per_second": rest / (time.perf_counter() - begin)}


def start(*, kind: str, again: int, preload: bool = False, workers: int = 2) -> dict[str, float]:
    """Return the seconds from the build to the first item, of the first pipeline and of later ones."""
    if preload:
        import multiprocessing  # noqa: PLC0415

        multiprocessing.set_forkserver_preload(["spdl.pipeline", "kinds"])
    # What it imports is not timed.
    with _build("same", range(_SHORT), "none", workers).auto_stop() as pipeline:
        list(pipeline)
    seconds = []
    for _ in range(1 + again):
        begin = time.perf_counter()
        with _build("same", range(_SHORT), kind, workers).auto_stop() as pipeline:
            items = iter(pipeline)
            next(items)
            seconds.append(time.perf_counter() - begin)
            for _item in items:
                pass
    return {"first_milliseconds": 1000 * seconds[0], "later_milliseconds": 1000 * median(seconds[1:])}

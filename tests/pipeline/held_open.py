"""A program that leaves everything open that starts processes or threads, in processes that multiprocessing starts."""

from __future__ import annotations

import multiprocessing
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl.pipeline import (
    PipelineBuilder,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD: list[Any] = []


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def numbers() -> Iterator[int]:
    """Yield numbers without end."""
    number = 0
    while True:
        yield number
        number += 1


def _hold(pipeline: Any) -> None:
    iterator = iter(pipeline)
    assert next(iterator) == 0
    HELD.extend([pipeline, iterator])


def _builder() -> PipelineBuilder[int, int]:
    return PipelineBuilder().add_source(range(1000), continuous=True)


def region(method: str) -> None:
    """Hold a region of processes open."""
    config = ProcessPoolExecutorConfig(max_workers=1, mp_context=method)
    _hold(_builder().to(config).pipe(double).to(MAIN_PROCESS).add_sink(4).build(num_threads=1))


def iterable(method: str) -> None:
    """Hold an iterable open that another process makes."""
    iterator = iter(iterate_in_subprocess(numbers, mp_context=method))
    assert next(iterator) == 0
    HELD.append(iterator)


def pipeline_elsewhere(method: str) -> None:
    """Hold a pipeline open that another process runs."""
    config = _builder().pipe(double).add_sink(4).get_config()
    iterator = iter(run_pipeline_in_subprocess(config, num_threads=1, mp_context=method))
    assert next(iterator) == 0
    HELD.append(iterator)


def pools(method: str) -> None:
    """Hold the pools that stages share open."""
    context = multiprocessing.get_context(method)
    for pool in PriorityProcessPoolExecutor(1, mp_context=context), PriorityThreadPoolExecutor(1):
        HELD.append(pool)
        _hold(_builder().pipe(double, executor=pool.get_executor()).add_sink(4).build(num_threads=1))


KINDS = {"region": region, "iterable": iterable, "pipeline": pipeline_elsewhere, "pools": pools}


def hold(method: str, depth: int) -> None:
    """Hold everything open, and start a process that does the same if there is one more level."""
    for kind in KINDS.values():
        kind(method)
    if depth:
        start(partial(hold, method, depth - 1), method)


def start(work: Any, method: str) -> None:
    """Run work in a process of multiprocessing, and wait for its end."""
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=work)
    process.start()
    process.join(50)
    assert process.exitcode == 0, process.exitcode


def train(_rank: int, method: str) -> None:
    """Do what a rank of ``torch.multiprocessing.spawn`` does."""
    hold(method, 0)


if __name__ == "__main__":
    if "torch" in sys.argv:
        from torch.multiprocessing.spawn import start_processes

        start_processes(train, (sys.argv[1],), nprocs=2, start_method=sys.argv[1])
    else:
        start(partial(hold, sys.argv[1], 1), sys.argv[1])

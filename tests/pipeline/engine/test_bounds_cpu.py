"""Test that a pipeline that has nothing to do uses no CPU, whatever it waits for."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source, twice, twice_async, wait_until

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from spdl.pipeline import Pipeline

_SECONDS = 5.0
_CPU_SECONDS = 0.005


def same(x: Any) -> Any:
    return x


async def same_async(x: Any) -> Any:
    await asyncio.sleep(0)
    return x


def fails(x: Any) -> Any:
    raise ValueError(x)


def parity(x: int) -> int:
    return x % 2


def parities(xs: list[int]) -> list[int]:
    return [x % 2 for x in xs]


class Blocked:
    """Pipelines that each wait for something different until `gate` is opened."""

    def __init__(self, threads: ThreadPoolExecutor, processes: ProcessPoolExecutor) -> None:
        self.gate = threading.Event()
        self.threads = threads
        self.processes = processes

    def wait(self, x: Any) -> Any:
        self.gate.wait(60)
        return x

    async def wait_async(self, x: Any) -> Any:
        await asyncio.sleep(60)
        return x

    def stuck(self) -> Iterator[int]:
        yield 0
        self.gate.wait(60)

    async def stuck_async(self) -> AsyncIterator[int]:
        yield 0
        await self.wait_async(0)

    def unread(self) -> dict[str, PipelineBuilder[Any]]:
        """Return pipelines whose results nobody reads."""
        items = itertools.count
        plain = [[Pipe(same)], [Pipe(same, concurrency=2)]]
        pairs = source(items()).aggregate(2)
        return {
            "no stage": source(items()),
            "stages": source(items()).pipe(same, concurrency=4).pipe(same),
            "order": source(items()).pipe(same, concurrency=4, output_order="input"),
            "generators": source(items()).pipe(twice, concurrency=4),
            "generators in order": source(items()).pipe(twice, concurrency=4, output_order="input"),
            "async": source(items()).pipe(same_async, concurrency=4).pipe(same_async, output_order="input"),
            "async generators": source(items()).pipe(twice_async, concurrency=4),
            "executor": source(items()).pipe(same, concurrency=4, executor=self.threads),
            "process pool": source(items()).pipe(str, concurrency=4, executor=self.processes),
            "batches": source(items()).aggregate(3).disaggregate().aggregate(2),
            "paths": source(items()).path_variants(parity, plain),
            "paths of batches": pairs.path_variants(parities, plain, batched=True),
            "a continuous source": source(range(3), continuous=True).pipe(same),
            "a dedicated thread": source(items(), dedicated_thread=True).pipe(same_async),
            "timeouts": source(items()).pipe(same, concurrency=2, timeout=60),
        }

    def busy(self) -> dict[str, PipelineBuilder[Any]]:
        """Return pipelines in which the user's code does not return."""
        return {
            "source": source(self.stuck()),
            "async source": source(self.stuck_async()).pipe(same),
            "source in a dedicated thread": source(self.stuck(), dedicated_thread=True).pipe(same),
            "op": source(range(100)).pipe(self.wait, concurrency=2),
            "op in order": source(range(100)).pipe(self.wait, concurrency=2, output_order="input").pipe(same),
            "op with a timeout": source(range(100)).pipe(self.wait, timeout=60, on_timeout="drop"),
            "async op": source(range(100)).pipe(self.wait_async, concurrency=3),
            "op on an executor": source(range(100)).pipe(self.wait, executor=self.threads),
            "a retry that is not due": source(range(100)).pipe(fails, retries=1, retry_delay=60),
            "an async retry that is not due": source(range(100)).pipe(fails_async, retries=1, retry_delay=60),
            "an epoch": source(range(3), continuous=True).pipe(self.wait),
        }


async def fails_async(x: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError(x)


def merged() -> Pipeline[Any]:
    branches = [PipelineConfig(SourceConfig(itertools.count()), [Pipe(same)], SinkConfig(1)) for _ in range(3)]
    return build_pipeline(PipelineConfig(Merge(branches), [], SinkConfig(1)), num_threads=2)


def cpu_seconds_in(seconds: float) -> float:
    begin = time.process_time()
    time.sleep(seconds)
    return time.process_time() - begin


@pytest.mark.long
def test_a_blocked_pipeline_uses_no_cpu() -> None:
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        blocked = Blocked(threads, processes)
        builders = blocked.unread() | blocked.busy()
        pipelines = [builder.add_sink(2).build(num_threads=2) for builder in builders.values()]
        pipelines.append(merged())
        # Two more whose reader waits. The second one's source is the first one.
        pipelines.append(source(blocked.stuck()).add_sink(1).build(num_threads=1))
        pipelines.append(source(pipelines[-1]).add_sink(1).build(num_threads=1))
        reader = threading.Thread(target=lambda: list(pipelines[-1].get_iterator(timeout=60)))
        with ExitStack() as stack:
            for pipeline in pipelines:
                stack.enter_context(pipeline.auto_stop())
            reader.start()
            try:
                # Workers that write the page look four times more, ever more rarely, and then once a minute.
                assert wait_until(lambda: cpu_seconds_in(1.5) < 0.0015, seconds=15)
                used = cpu_seconds_in(_SECONDS)
                for _ in range(2):
                    # A busy machine may have held up until now what comes once. What looks again and again stays.
                    if used >= _CPU_SECONDS:
                        used = cpu_seconds_in(_SECONDS)
            finally:
                blocked.gate.set()
                for pipeline in pipelines:
                    # Ops that sleep on the event loop end only by their cancellation.
                    pipeline.stop()
                reader.join()
    assert used < _CPU_SECONDS, f"{len(pipelines)} blocked pipelines used {used * 1000:.1f} ms in {_SECONDS:g} s"

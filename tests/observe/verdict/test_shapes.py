"""`diagnose` on programs of other shapes than the planted ones: graphs, coroutines, executors, ready-made loaders."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.observe.asking import ask_until
from tests.observe.programs import running

from spdl.observe import PageError, diagnose, find_pipelines

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from spdl.observe import Observation, ObservedPipeline, Verdict

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.timeout(240)]

HEAD = """
import asyncio, functools, itertools, threading, time
from concurrent.futures import ThreadPoolExecutor
from spdl.dataloader import DataLoader
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess
from spdl.pipeline.defs import Pipe


def sleeps(seconds):
    def op(item):
        time.sleep(seconds)
        return item
    return op


def slow_source(seconds):
    for number in itertools.count():
        time.sleep(seconds)
        yield number


def read(builder, step=0.0):
    with builder.add_sink(4).build(num_threads=6).auto_stop() as pipeline:
        for _ in pipeline:
            time.sleep(step)


def numbers():
    return PipelineBuilder().add_source(range(10**9))

"""

# The program, and of each pipeline the kind and the stage; None where there are two that are alike.
SHAPES: dict[str, tuple[str, list[tuple[str, str | None]]]] = {
    "behind a merge": (
        """
a, b = numbers().pipe(sleeps(0.003), name="a"), numbers().pipe(sleeps(0.004), name="b")
read(PipelineBuilder().merge([a, b]).pipe(sleeps(0.03), concurrency=2, name="slow"))
""",
        [("I/O", "slow")],
    ),
    "both sides of a merge": (
        """
a, b = numbers().pipe(sleeps(0.03), name="a"), numbers().pipe(sleeps(0.03), name="b")
read(PipelineBuilder().merge([a, b]).pipe(sleeps(0.002), concurrency=2, name="fast"))
""",
        [("I/O", None)],
    ),
    "one of two paths": (
        """
paths = [[Pipe(sleeps(0.03), name="left")], [Pipe(sleeps(0.001), name="right")]]
read(numbers().path_variants(lambda number: number % 2, paths))
""",
        [("I/O", "left")],
    ),
    "coroutines": (
        """
async def fetch(number):
    await asyncio.sleep(0.06)
    return number

read(numbers().pipe(fetch, concurrency=3).pipe(sleeps(0.003), concurrency=2))
""",
        [("I/O", "fetch")],
    ),
    "coroutines that hang": (
        """
async def fetch(number):
    await asyncio.sleep(0.002 if number < 100 else 1000)
    return number

read(numbers().pipe(fetch, concurrency=2).pipe(sleeps(0.001)))
""",
        [("hang", "fetch")],
    ),
    "a source in another process": (
        """
source = iterate_in_subprocess(functools.partial(slow_source, 0.02))
read(PipelineBuilder().add_source(source).pipe(sleeps(0.004)))
""",
        [("serial source", "src")],
    ),
    "an executor with few workers": (
        """
pool = ThreadPoolExecutor(2)
read(numbers().pipe(sleeps(0.04), concurrency=6, name="fetch", executor=pool).pipe(sleeps(0.003), name="decode"))
""",
        [("I/O", "fetch")],
    ),
    "a loader that batches": (
        """
def collate(batch):
    time.sleep(0.05)
    return batch

for _ in DataLoader(range(10**9), preprocessor=sleeps(0.004), batch_size=8, aggregator=collate, num_threads=8):
    pass
""",
        [("batching", "collate")],
    ),
    "two pipelines": (
        """
first = numbers().pipe(sleeps(0.03), concurrency=2, name="fetch")
threading.Thread(target=read, args=(first,), daemon=True).start()
time.sleep(0.5)
read(numbers().pipe(sleeps(0.001), name="quick"), 0.03)
""",
        [("I/O", "fetch"), ("slow consumer", "")],
    ),
    "a pipeline that feeds another": (
        """
inner = numbers().pipe(sleeps(0.03), name="fetch").add_sink(2).build(num_threads=2)
inner.start()
read(PipelineBuilder().add_source(iter(inner)).pipe(sleeps(0.002)))
""",
        [("I/O", "fetch"), ("serial source", "src")],
    ),
}


def observed_pipelines(
    process: subprocess.Popen[bytes], count: int, until: Callable[[Observation], bool]
) -> list[ObservedPipeline]:
    """Return the pipelines of a process as soon as there are so many, and something holds of what each page says."""
    deadline = time.monotonic() + 90
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        pipelines = find_pipelines(process.pid)
        # One may have only begun.
        with suppress(PageError):
            if len(pipelines) == count and all(until(it.observe()) for it in pipelines):
                return pipelines
        time.sleep(0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_named(shape: str) -> None:
    program, expected = SHAPES[shape]
    indented = "\n".join(f"    {line}" for line in program.strip().splitlines())
    with running(f"{HEAD}if __name__ == '__main__':\n{indented}\n") as process:
        pipelines = observed_pipelines(process, len(expected), lambda seen: seen.delivered >= 20)

        def are_right(verdicts: Sequence[Verdict]) -> bool:
            return all(
                verdict.kind == kind and stage in {None, verdict.stage}
                for verdict, (kind, stage) in zip(verdicts, expected, strict=True)
            )

        # A hang is told by how long it lasts.
        verdicts = ask_until(lambda: [diagnose(pipeline) for pipeline in pipelines], are_right)
    assert are_right(verdicts), [each.sentence() for each in verdicts]


_BOTH_COMPUTE = """
import itertools, os, threading, zlib
from spdl.pipeline import PipelineBuilder

CORES = len(os.sched_getaffinity(0))
BLOCK = os.urandom(1_000_000)

def pack(number):
    zlib.compress(BLOCK, 1)
    return number

def read():
    builder = PipelineBuilder().add_source(itertools.count()).pipe(pack, concurrency=2 * CORES)
    for _ in builder.add_sink(2).build(num_threads=2 * CORES):
        pass

threading.Thread(target=read, daemon=True).start()
read()
"""


def test_the_threads_of_another_pipeline_are_none_that_ops_have_started() -> None:
    with running(_BOTH_COMPUTE) as process:
        pipelines = observed_pipelines(process, 2, lambda seen: seen.delivered >= 2 * seen.num_threads)
        verdicts = [diagnose(pipeline) for pipeline in pipelines]
    assert "oversubscription" not in {verdict.kind for verdict in verdicts}, [each.sentence() for each in verdicts]

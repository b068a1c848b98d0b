"""Test how far sources are pulled ahead of the consumer: never further than in the released reference."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Endless:
    """A source that never ends and counts the items that it was asked for."""

    def __init__(self, make: Any = lambda number: number) -> None:
        self.make = make
        self.asked = 0

    def __iter__(self) -> Iterator[Any]:
        for number in itertools.count():
            self.asked += 1
            yield self.make(number)


class EndlessAsync(Endless):
    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in itertools.count():
            self.asked += 1
            yield number


def same(x: Any) -> Any:
    return x


async def same_async(x: int) -> int:
    await asyncio.sleep(0)
    return x


def one(x: int) -> Iterator[int]:
    yield x


def two(x: int) -> Iterator[int]:
    yield x
    yield x


async def two_async(x: int) -> AsyncIterator[int]:
    yield x
    yield x


def fours(number: int) -> list[int]:
    return [number] * 4


def parity(x: int) -> int:
    return x % 2


def parities(xs: list[int]) -> list[int]:
    return [x % 2 for x in xs]


def ordered(op: Any, concurrency: int) -> Any:
    return Pipe(op, concurrency=concurrency, output_order="input")


PLAIN = [[Pipe(same)], [Pipe(same)]]

# The graphs to run: the source of each branch, the stages, and the sink's size.
Graphs = dict[str, tuple[list[Endless], list[Any], int]]


def graphs(pool: ThreadPoolExecutor) -> Graphs:
    found: Graphs = {
        "no stage": ([Endless()], [], 1),
        "no stage, a sink of 3": ([Endless()], [], 3),
        "two branches": ([Endless(), Endless()], [], 1),
        "two branches, then 2 at once": ([Endless(), Endless()], [Pipe(same, concurrency=2)], 1),
        "3 stages of 4 at once": ([Endless()], [Pipe(same, concurrency=4)] * 3, 1),
        "batches of 4": ([Endless()], [Aggregate(4)], 1),
        "2 at once, batches of 4": ([Endless()], [Pipe(same, concurrency=2), Aggregate(4)], 1),
        "batches of 4, taken apart": ([Endless()], [Aggregate(4), Disaggregate()], 1),
        "lists of 4, taken apart": ([Endless(fours)], [Disaggregate()], 1),
        "two paths": ([Endless()], [PathVariants(parity, PLAIN)], 1),
        "two paths of batches": ([Endless(fours)], [PathVariants(parities, PLAIN, batched=True)], 1),
        "async source": ([EndlessAsync()], [], 1),
        "async source, 2 at once": ([EndlessAsync()], [Pipe(same, concurrency=2)], 1),
        "async source, 2 async at once": ([EndlessAsync()], [Pipe(same_async, concurrency=2)], 1),
        "2 at once, 2 async at once": ([Endless()], [Pipe(same, concurrency=2), Pipe(same_async, concurrency=2)], 1),
        "2 async at once, 2 at once": ([Endless()], [Pipe(same_async, concurrency=2), Pipe(same, concurrency=2)], 1),
    }
    for c in (1, 2, 4):
        found |= {
            f"{c} at once": ([Endless()], [Pipe(same, concurrency=c)], 1),
            f"{c} in order": ([Endless()], [ordered(same, c)], 1),
            f"{c} async at once": ([Endless()], [Pipe(same_async, concurrency=c)], 1),
            f"{c} async in order": ([Endless()], [ordered(same_async, c)], 1),
            f"{c} on an executor": ([Endless()], [Pipe(same, concurrency=c, executor=pool)], 1),
            f"{c} on an executor in order": (
                [Endless()],
                [Pipe(same, concurrency=c, executor=pool, output_order="input")],
                1,
            ),
            f"{c} generators of one": ([Endless()], [Pipe(one, concurrency=c)], 1),
            f"{c} generators of two": ([Endless()], [Pipe(two, concurrency=c)], 1),
            f"{c} async generators of two": ([Endless()], [Pipe(two_async, concurrency=c)], 1),
        }
    return found


# How often spdl 0.8.0 had asked the source once nothing moved any more: before the first read, after one, and after
# four. The figures are the lowest of three runs of this file as a script, which runs the same graphs with the installed
# `spdl`.
REFERENCE: dict[str, list[int]] = {
    "no stage": [5, 6, 9],
    "no stage, a sink of 3": [7, 8, 11],
    "two branches": [12, 13, 16],
    "two branches, then 2 at once": [16, 17, 20],
    "3 stages of 4 at once": [23, 24, 27],
    "batches of 4": [23, 27, 39],
    "2 at once, batches of 4": [27, 31, 43],
    "batches of 4, taken apart": [23, 23, 27],
    "lists of 4, taken apart": [5, 5, 6],
    "two paths": [51, 52, 55],
    "two paths of batches": [14, 15, 18],
    "async source": [5, 6, 9],
    "async source, 2 at once": [9, 10, 13],
    "async source, 2 async at once": [9, 10, 13],
    "2 at once, 2 async at once": [13, 14, 17],
    "2 async at once, 2 at once": [13, 14, 17],
    "1 at once": [8, 9, 12],
    "1 in order": [10, 11, 14],
    "1 async at once": [8, 9, 12],
    "1 async in order": [10, 11, 14],
    "1 on an executor": [8, 9, 12],
    "1 on an executor in order": [10, 11, 14],
    "1 generators of one": [8, 9, 12],
    "1 generators of two": [6, 6, 8],
    "1 async generators of two": [6, 6, 8],
    "2 at once": [9, 10, 13],
    "2 in order": [11, 12, 15],
    "2 async at once": [9, 10, 13],
    "2 async in order": [11, 12, 15],
    "2 on an executor": [9, 10, 13],
    "2 on an executor in order": [11, 12, 15],
    "2 generators of one": [9, 10, 13],
    "2 generators of two": [7, 7, 9],
    "2 async generators of two": [7, 7, 9],
    "4 at once": [11, 12, 15],
    "4 in order": [13, 14, 17],
    "4 async at once": [11, 12, 15],
    "4 async in order": [13, 14, 17],
    "4 on an executor": [11, 12, 15],
    "4 on an executor in order": [13, 14, 17],
    "4 generators of one": [11, 12, 15],
    "4 generators of two": [8, 8, 9],
    "4 async generators of two": [9, 9, 9],
}


def quiet(sources: list[Endless], seconds: float) -> int:
    """Return how often the sources were asked, once that has not changed for so many seconds."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        asked = sum(source.asked for source in sources)
        if asked != seen:
            seen, since = asked, time.monotonic()
        time.sleep(0.002)
    return seen


def look_ahead(sources: list[Endless], stages: list[Any], sink: int, *, seconds: float) -> list[int]:
    configs = [SourceConfig(source) for source in sources]
    first: Any = configs[0]
    if len(configs) > 1:
        first = Merge([PipelineConfig(config, [], SinkConfig(1)) for config in configs])
    found = []
    # The `auto_stop` of the reference yields None, so the pipeline has a name of its own.
    pipeline = build_pipeline(PipelineConfig(first, stages, SinkConfig(sink)), num_threads=8)
    with pipeline.auto_stop():
        # The source is pulled ahead of the first read. On a busy machine the threads may need a while to begin.
        begun = time.monotonic()
        while not any(source.asked for source in sources):
            assert time.monotonic() - begun < 10
            time.sleep(0.002)
        for reads in (0, 1, 3):
            for _ in range(reads):
                pipeline.get_item(timeout=10)
            found.append(quiet(sources, seconds))
    return found


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_no_further_than_the_reference(name: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = look_ahead(*graphs(pool)[name], seconds=0.05)
    assert all(ours <= theirs for ours, theirs in zip(asked, REFERENCE[name], strict=True)), (asked, REFERENCE[name])


def test_every_graph_was_run_with_the_reference() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert set(graphs(pool)) == set(REFERENCE)


if __name__ == "__main__":
    with ThreadPoolExecutor(4) as pool:
        for name, graph in graphs(pool).items():
            print(f"    {name!r}: {look_ahead(*graph, seconds=0.3)},".replace("'", '"'))  # noqa: T201 - it is a script.

"""Check that nothing grows while a pipeline runs for long.

Claim: while 1,000,000 items go through every kind of stage, memory stays flat. The median resident memory of the last
fifth of the run is at most 2 MB above that of the second fifth, and the number of Python's memory blocks at most 5,000.
Nothing in the engine ever holds more entries than the declaration allows in flight. Every item arrives as often as it
should, and none is in flight any more once the last one was read.

Run it as `python benchmarks/soak.py [--items N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline import Pipeline, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence

ITEMS = 1_000_000
EPOCHS = 10
SAMPLES = 40
BATCH = 16
PAYLOAD_BYTES = 256

GROWTH_MB = 2.0
GROWTH_BLOCKS = 5_000
# The most entries that the graph below may have in flight: the slots of its queues, the stages' concurrency, items
# that wait for their order, the router's look-ahead, the sink, and the items held in batches, each item counted. Two
# generators make the items, and each keeps an entry of its own for all that it has made.
ENTRIES = 1_500
# The pipeline is full if nothing has moved during so many looks, one every so many seconds.
STILL_LOOKS = 3
LOOK_SECONDS = 0.02


class Item(NamedTuple):
    """An item that goes through the pipeline."""

    number: int
    # 1 for the second result that a generator made from a number.
    copy: int
    payload: bytes


def make(number: int) -> Item:
    """Make an item that is large enough for a lost one to show."""
    return Item(number, 0, number.to_bytes(8, "little") * (PAYLOAD_BYTES // 8))


# ---- which items are doubled, retried, given up and dropped ----


def is_doubled(item: Item) -> bool:
    """Return whether the generator makes two results from an item."""
    return item.number % 97 == 0


def is_tried_again(item: Item) -> bool:
    """Return whether the first try fails."""
    return item.number % 500 == 7  # noqa: PLR2004 - one in 500.


def is_given_up(item: Item) -> bool:
    """Return whether every try fails."""
    return item.number % 1000 == 11  # noqa: PLR2004 - one in 1000.


def is_dropped(item: Item) -> bool:
    """Return whether an op returns None for an item."""
    return item.number % 100 == 13  # noqa: PLR2004 - one in 100.


def expected(numbers: range) -> tuple[int, int]:
    """Return how many items come out of an epoch over these numbers, and their checksum."""
    count = checksum = 0
    for number in numbers:
        item = Item(number, 0, b"")
        if not (is_given_up(item) or is_dropped(item)):
            copies = 2 if is_doubled(item) else 1
            count += copies
            checksum += copies * number
    return count, checksum


# ---- sources: each yields a third of every epoch, and nothing once the last epoch is over ----


class Numbers:
    """A continuous source."""

    def __init__(self, total: int, index: int) -> None:
        self._epochs = epochs(total)
        self._index = index

    def __iter__(self) -> Iterator[Item]:
        for number in next(self._epochs, range(0))[self._index :: 3]:
            yield make(number)


class AsyncNumbers(Numbers):
    """A continuous source for the event loop."""

    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[Item]:
        for number in next(self._epochs, range(0))[self._index :: 3]:
            yield make(number)


def epochs(total: int) -> Iterator[range]:
    """Yield the numbers of each epoch."""
    size = -(-total // EPOCHS)
    for begin in range(0, total, size):
        yield range(begin, min(begin + size, total))


# ---- stages ----


def same(item: Any) -> Any:
    """Pass an item on unchanged."""
    return item


def same_batch(items: list[Item]) -> list[Item]:
    """Pass a batch on, through another process."""
    return items


def again(item: Item) -> Item:
    """Make a new item from an item."""
    return Item(item.number, item.copy, bytes(bytearray(item.payload)))


async def again_async(item: Item) -> Item:
    """Make a new item from an item, on the event loop."""
    await asyncio.sleep(0)
    return again(item)


def doubled(item: Item) -> Iterator[Item | None]:
    """Yield one result or two, and one that is dropped at once."""
    yield item
    if is_doubled(item):
        yield None
        yield Item(item.number, 1, item.payload)


async def alone(item: Item) -> AsyncIterator[Item]:
    """Yield one result, as an async generator."""
    yield again(item)


class Unreliable:
    """An op that fails at the first try of some items and at every try of others."""

    def __init__(self) -> None:
        self._tried: set[tuple[int, int]] = set()

    def __call__(self, item: Item) -> Item:
        """Pass an item on, or fail."""
        key = item[:2]
        if is_given_up(item) or (is_tried_again(item) and key not in self._tried):
            if not is_given_up(item):
                self._tried.add(key)
            raise ValueError(item.number)
        self._tried.discard(key)
        return item


async def unreliable_async(item: Item) -> Item:
    """Pass items on. No item that would fail is left here."""
    if is_given_up(item):
        raise ValueError(item.number)
    return item


def kept(item: Item) -> Item | None:
    """Drop some items."""
    return None if is_dropped(item) else item


class Joined(Aggregator["list[Item]", "list[Item]"]):
    """A user's aggregator that joins two batches."""

    def __init__(self) -> None:
        self._held: list[Item] = []
        self._batches = 0

    def accumulate(self, items: list[Item], /) -> list[Item] | None:
        """Keep a batch, or pass two on."""
        self._held += items
        self._batches += 1
        return self.flush() if self._batches == 2 else None  # noqa: PLR2004 - two batches.

    def flush(self) -> list[Item] | None:
        """Pass on the batches that are held."""
        held, self._held, self._batches = self._held, [], 0
        return held or None


def thirds(item: Item) -> int:
    """Route an item."""
    return item.number % 3


def halves(items: list[Item]) -> list[int]:
    """Route the items of a batch."""
    return [item.number % 2 for item in items]


def graph(total: int, threads: ThreadPoolExecutor, processes: ProcessPoolExecutor) -> PipelineConfig[Item]:
    """Return one graph with every kind of source and stage."""
    sources = [
        SourceConfig(Numbers(total, 0), continuous=True),
        SourceConfig(AsyncNumbers(total, 1), continuous=True),
        SourceConfig(Numbers(total, 2), continuous=True, dedicated_thread=True),
    ]
    branches: list[PipelineConfig[Any]] = [
        PipelineConfig(sources[0], [Pipe(again, concurrency=2)], SinkConfig(1)),
        PipelineConfig(sources[1], [], SinkConfig(1)),
        PipelineConfig(sources[2], [Pipe(same)], SinkConfig(1)),
    ]
    by_item = PathVariants(
        thirds,
        [
            [Pipe(again, concurrency=2)],
            [Pipe(again_async, concurrency=4, output_order="input"), Pipe(unreliable_async)],
            [Aggregate(BATCH), Disaggregate()],
        ],
    )
    by_batch = PathVariants(
        halves, [[Pipe(list, concurrency=2)], [Pipe(list, concurrency=2, output_order="input")]], batched=True
    )
    stages: list[Any] = [
        Pipe(again, concurrency=4),
        Pipe(again, concurrency=4, output_order="input"),
        Pipe(again_async, concurrency=8),
        Pipe(doubled, concurrency=2),
        Pipe(alone, concurrency=4),
        Pipe(lambda item: again_async(item) if item.number % 2 else item, concurrency=4),
        Pipe(again, concurrency=4, executor=threads),
        Pipe(Unreliable(), concurrency=4, retries=1, retry_delay=0.001),
        Pipe(kept, concurrency=2, timeout=30),
        by_item,
        Aggregate(BATCH),
        by_batch,
        Pipe(same_batch, concurrency=4, executor=processes),
        Aggregate(Joined()),
        Disaggregate(),
    ]
    return PipelineConfig(Merge(branches), stages, SinkConfig(100))


# ---- measuring ----


def resident_mb() -> float:
    """Return the process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def copied(container: Collection[Any]) -> list[Any]:
    """Return a copy of a container that threads go on changing. Without the GIL they may do so during the copy, too."""
    while True:
        with suppress(RuntimeError):
            return list(container.values() if isinstance(container, dict) else container)


def container_sizes(engine: object) -> dict[str, int]:
    """Return the largest size of each container that the engine's objects have, by class and attribute."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    pending: list[tuple[str, object]] = [("engine", engine)]
    while pending:
        where, value = pending.pop()
        if id(value) in seen:
            continue
        if isinstance(value, list | tuple | set | frozenset | deque | dict):
            seen.add(id(value))
            if not isinstance(value, Item):
                elements = copied(value)
                found[where] = max(found.get(where, 0), len(elements))
                pending += [(f"{where}[]", element) for element in elements]
        elif type(value).__module__.startswith("spdl.pipeline"):
            seen.add(id(value))
            names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
            pending += [
                (f"{type(value).__name__}.{name}", getattr(value, name, None))
                for name in (*names, *getattr(value, "__dict__", ()))
                if name != "__weakref__"
            ]
    return found


def wait_until_full(pipeline: Pipeline[Any]) -> None:
    """Wait until the pipeline is full, or until all that is left waits for the consumer.

    Otherwise memory would tell how quick the consumer has been.
    """
    before: list[int] = []
    still = 0
    while still < STILL_LOOKS:
        now = [stage.num_completed for stage in pipeline.statistics().stages]
        still = still + 1 if now == before else 0
        before = now
        time.sleep(LOOK_SECONDS)


def fifths(samples: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the second fifth and of the last."""
    size = len(samples) // 5
    return median(samples[size : 2 * size]), median(samples[-size:])


def soak(total: int) -> dict[str, Any]:
    """Pass a number of items through, and return the observations."""
    memory: list[float] = []
    blocks: list[int] = []
    sizes: dict[str, int] = {}
    read = 0
    exact = True
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        pipeline = build_pipeline(graph(total, threads, processes), num_threads=4)
        begin = time.perf_counter()
        with pipeline.auto_stop():
            for numbers in epochs(total):
                count = checksum = 0
                for item in pipeline.get_iterator(timeout=60):
                    count += 1
                    checksum += item.number
                    if (read + count) % (total // SAMPLES) == 0:
                        wait_until_full(pipeline)
                        # What only the collector frees is none of the pipeline's.
                        gc.collect()
                        memory.append(resident_mb())
                        blocks.append(sys.getallocatedblocks())
                        for name, size in container_sizes(pipeline._engine).items():  # noqa: SLF001 - its subject.
                            sizes[name] = max(sizes.get(name, 0), size)
                read += count
                exact = exact and (count, checksum) == expected(numbers)
            seconds = time.perf_counter() - begin
            statistics = pipeline.statistics()
    return {
        "items": total,
        "items_per_second": total / seconds,
        "exact": exact,
        "in_flight_at_the_end": statistics.in_flight,
        "failed": sum(stage.num_failed for stage in statistics.stages),
        "retried": sum(stage.num_retried for stage in statistics.stages),
        "dropped": sum(stage.num_dropped for stage in statistics.stages),
        "memory_mb": fifths(memory),
        "blocks": fifths(blocks),
        "largest_containers": dict(sorted(sizes.items(), key=lambda pair: -pair[1])[:40]),
    }


def judge(result: dict[str, Any]) -> list[str]:
    """Return the claims that the result does not meet."""
    missed = []
    early, late = result["memory_mb"]
    if late - early > GROWTH_MB:
        missed.append(f"resident memory grew from {early:.1f} to {late:.1f} MB, mark {GROWTH_MB:.0f} MB")
    early, late = result["blocks"]
    if late - early > GROWTH_BLOCKS:
        missed.append(f"allocated blocks grew from {early:,.0f} to {late:,.0f}, mark {GROWTH_BLOCKS:,}")
    for name, size in result["largest_containers"].items():
        if size > ENTRIES:
            missed.append(f"{name} held {size:,} entries, mark {ENTRIES:,}")
    if not result["exact"]:
        missed.append("the items of an epoch were not exactly those expected")
    if result["in_flight_at_the_end"]:
        missed.append(f"{result['in_flight_at_the_end']} items are said to be under way though all were read")
    return missed


def main() -> int:
    """Run it, then print and write the outcome. The exit status says whether the claim holds."""
    parser = argparse.ArgumentParser(description="Soak the engine.")
    parser.add_argument("--items", type=int, default=ITEMS, help="how many items (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()

    result = soak(options.items)
    missed = judge(result)
    early, late = result["memory_mb"]
    print(
        f"{options.items:,} items through every kind of stage, {result['items_per_second']:,.0f} a second:"
        f" memory {early:.1f} MB in the second fifth, {late:.1f} MB in the last; "
        f"{'met' if not missed else 'MISSED'}"
    )
    for line in missed:
        print(f"MISSED {line}")
    if options.json:
        from spdl.cli._common.machine import provenance  # noqa: PLC0415 - its imports are not to be measured.

        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"provenance": provenance(), **result}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

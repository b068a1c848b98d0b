"""Test the memory bound that a declaration implies: how many items can be alive at once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.aggregators import Pairs
from tests.pipeline.support import FREE_THREADED, let_go, wait_until

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
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from spdl.pipeline import Pipeline

# From the documentation: how many items fit into a queue between two stages, and how many a router may take while a
# path is full.
_QUEUE = 2
_ROUTER = 32


class Census:
    """A counter of the items that are alive, and of the most that were alive at once."""

    def __init__(self) -> None:
        # Reentrant, since a finaliser may run inside the constructor of another item.
        self._lock = threading.RLock()
        self.made = self.alive = self.peak = 0

    def item(self, number: int = 0) -> Item:
        return Item(self, number)

    def add(self, change: int) -> None:
        with self._lock:
            self.alive += change
            self.made += change > 0
            if not FREE_THREADED:
                self.peak = max(self.peak, self.alive)

    def look(self) -> None:
        """Update the peak while nothing moves."""
        let_go()
        self.peak = max(self.peak, self.alive)

    def settle(self) -> None:
        """Wait until no item has been made for a while, because everything is full or has ended."""
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < 0.05:
            if self.made != seen:
                seen, since = self.made, time.monotonic()
            time.sleep(0.002)
        self.look()


class Item:
    """An item of a pipeline, which its census counts."""

    def __init__(self, census: Census, number: int) -> None:
        self.census = census
        self.number = number
        census.add(1)

    def __del__(self) -> None:
        self.census.add(-1)


# ---- ops: some pass their item on, some make a new one, as decoders do ----


def same(item: Item) -> Item:
    return item


def new(item: Item) -> Item:
    return item.census.item(item.number)


async def same_async(item: Item) -> Item:
    await asyncio.sleep(0)
    return item


async def new_async(item: Item) -> Item:
    await asyncio.sleep(0)
    return new(item)


def two(item: Item) -> Iterator[Item]:
    census, number = item.census, item.number
    # An item held by the generator's own frame would not be the pipeline's fault.
    del item
    yield census.item(number)
    yield census.item(number)


async def two_async(item: Item) -> AsyncIterator[Item]:
    census, number = item.census, item.number
    del item
    yield census.item(number)
    await asyncio.sleep(0)
    yield census.item(number)


def drops(item: Item) -> Item | None:
    return item if item.number % 3 else None


def fails(item: Item) -> Item:
    if item.number % 3 == 0:
        raise ValueError(item.number)
    return item


async def fails_async(item: Item) -> Item:
    await asyncio.sleep(0)
    return fails(item)


# ---- stages and graphs, and how many items they may hold ----


@dataclass(frozen=True)
class Part:
    """Stages, and how many items they may hold with the queues in front of them."""

    stages: tuple[Any, ...]
    items: int


def _stage(op: Any, concurrency: int, **arguments: Any) -> Part:
    items = _QUEUE + concurrency
    if arguments.get("output_order") == "input":
        items += concurrency + 2
    if op in {new, new_async}:
        # An op that makes a new item holds the old one, too, when it returns.
        items += concurrency
    return Part((Pipe(op, concurrency=concurrency, **arguments),), items)


def _kind(op: Any, **arguments: Any) -> Any:
    return lambda concurrency, _: _stage(op, concurrency, **arguments)


def _on_executor(op: Any, **arguments: Any) -> Any:
    return lambda concurrency, executor: _stage(op, concurrency, executor=executor, **arguments)


def _batched_and_split(batcher: Callable[[int], Any], size: Callable[[int], int]) -> Any:
    def part(n: int, _: ThreadPoolExecutor) -> Part:
        # The batch being gathered (counted apart), one more in the batcher's slot, the batches in the queue, and one in
        # the splitter.
        held = size(n)
        return Part((Aggregate(batcher(n)), Disaggregate()), _QUEUE + held + held * (1 + _QUEUE + 1))

    return part


def _split_batches(concurrency: int, _: ThreadPoolExecutor) -> Part:
    n = 3
    paths = [[Pipe(list, concurrency=concurrency)], [Pipe(list, concurrency=concurrency, output_order="input")]]
    stage = PathVariants(lambda items: [item.number % 2 for item in items], paths, batched=True)
    # For each path its queue, its stage and the merge's queue; and for the second path the results kept in order.
    inside = 2 * (_QUEUE + concurrency + _QUEUE) + concurrency + 2
    # The batcher's slot, and a queue and a slot each of the router, the merge and the stage that splits the batches.
    batches = 1 + _QUEUE + 1 + inside + 1 + _QUEUE + 1
    return Part((Aggregate(n), stage, Disaggregate()), _QUEUE + n + n * batches)


KINDS: dict[str, Any] = {
    "function": _kind(same),
    "function of new items": _kind(new),
    "ordered": _kind(same, output_order="input"),
    "ordered, of new items": _kind(new, output_order="input"),
    "generator": _kind(two),
    "ordered generator": _kind(two, output_order="input"),
    "lambda of generator": _kind(lambda item: two(item) if item else None),
    "async": _kind(same_async),
    "async, of new items": _kind(new_async),
    "ordered async": _kind(same_async, output_order="input"),
    "lambda of coroutine": _kind(lambda item: same_async(item) if item else None),
    "async generator": _kind(two_async),
    "executor": _on_executor(same),
    "executor, of new items": _on_executor(new),
    "ordered executor": _on_executor(same, output_order="input"),
    "drops": _kind(drops),
    "fails": _kind(fails),
    "async fails": _kind(fails_async),
    "executor fails": _on_executor(fails),
    "retries": _kind(fails, retries=1, retry_delay=0.001),
    "async retries": _kind(fails_async, retries=1, retry_delay=0.001),
    "timed": _kind(same, timeout=20),
    "batch": _batched_and_split(lambda n: n, lambda n: n),
    "aggregator": _batched_and_split(lambda _: Pairs(), lambda _: 2),
    "split batches": _split_batches,
}


def fork(paths: Sequence[Sequence[Part]]) -> Part:
    stages = [[stage for part in path for stage in part.stages] for path in paths]
    inside = sum(part.items for path in paths for part in path)
    stage = PathVariants(lambda item: item.number % len(paths), stages)
    # The router with its queue, the items that it may take ahead, and the merge with a queue for each path.
    return Part((stage,), _QUEUE + 1 + _ROUTER + inside + _QUEUE * len(paths) + 1)


@dataclass(frozen=True)
class Graph:
    """The branches, the stages after their merge, the sink's size, and the kind of source."""

    branches: tuple[tuple[Part, ...], ...]
    trunk: tuple[Part, ...]
    sink: int
    source: str = "iterable"

    @property
    def bound(self) -> int:
        parts = [part for chain in (*self.branches, self.trunk) for part in chain]
        merge = _QUEUE * len(self.branches) + 1 if len(self.branches) > 1 else 0
        return sum(part.items for part in parts) + merge + self.sink + len(self.branches)

    def config(self, sources: Sequence[Any]) -> PipelineConfig:
        def chain(source: Any, parts: Sequence[Part], sink: int) -> PipelineConfig:
            stages = [stage for part in parts for stage in part.stages]
            return PipelineConfig(source, stages, SinkConfig(sink))

        configs = [SourceConfig(source, dedicated_thread=self.source == "dedicated") for source in sources]
        if len(configs) == 1:
            return chain(configs[0], self.branches[0] + self.trunk, self.sink)
        merged = Merge([chain(source, parts, 1) for source, parts in zip(configs, self.branches, strict=True)])
        return chain(merged, self.trunk, self.sink)


class Endless:
    """A source that never ends and does not hold the items that it yielded."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self.given = 0

    def __iter__(self) -> Iterator[Item]:
        for number in itertools.count():
            self.given += 1
            yield self._census.item(number)


class EndlessAsync(Endless):
    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[Item]:
        for number in itertools.count():
            self.given += 1
            yield self._census.item(number)


def read(pipeline: Pipeline[Any], count: int, seconds: float = 0) -> None:
    for _ in range(count):
        pipeline.get_item(timeout=20)
        time.sleep(seconds)


def measure(graph: Graph, num_threads: int) -> dict[str, int]:
    """Return how many items were alive at once, for each way to read the pipeline."""
    census = Census()
    make_source = EndlessAsync if graph.source == "async" else Endless
    config = graph.config([make_source(census) for _ in graph.branches])
    with build_pipeline(config, num_threads=num_threads).auto_stop() as pipeline:
        census.settle()
        unread, census.peak = census.peak, 0
        read(pipeline, 10, 0.001)
        slowly, census.peak = census.peak, 0
        read(pipeline, 60)
        fast, census.peak = census.peak, 0
        census.settle()
    return {"unread": unread, "read slowly": slowly, "read fast": fast, "no longer read": census.peak}


def check_bound(graph: Graph, num_threads: int) -> None:
    # A thread drops a finished item after it has released the lock. If it is delayed right there, which is rare but on
    # a machine of one core, one item more is alive than the stages hold. More than that are never, and a defect keeps
    # them each time.
    letting_go = num_threads + len(graph.branches) + 1
    for attempt in range(10):
        peaks = measure(graph, num_threads)
        bound = graph.bound + (letting_go if attempt < 9 else 0)
        assert max(peaks.values()) <= bound, f"{peaks} items were alive at once, {graph.bound} may be"
        if max(peaks.values()) <= graph.bound:
            return


one_stage = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 4))
forks = st.lists(st.lists(one_stage, min_size=1, max_size=2), min_size=1, max_size=3)
parts = st.one_of(one_stage, one_stage, forks)
graphs = st.tuples(
    st.lists(st.lists(parts, max_size=2), min_size=1, max_size=3),
    st.lists(parts, max_size=2),
    st.integers(1, 4),
    st.sampled_from(["iterable", "dedicated", "async"]),
)


def make_part(drawn: Any, pool: ThreadPoolExecutor) -> Part:
    if isinstance(drawn, tuple):
        part: Part = KINDS[drawn[0]](drawn[1], pool)
        return part
    return fork([[make_part(stage, pool) for stage in path] for path in drawn])


@pytest.fixture(autouse=True)
def no_log_records() -> Iterator[None]:
    """Keep pytest from storing log records: they hold the frames of ops that failed, and so the items."""
    logger = logging.getLogger("spdl.pipeline")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.mark.timeout(120)
class TestLiveItems:
    @pytest.mark.parametrize("kind", sorted(KINDS))
    @pytest.mark.parametrize("concurrency", [1, 4])
    def test_one_stage(self, kind: str, concurrency: int, executor: ThreadPoolExecutor) -> None:
        check_bound(Graph(((KINDS[kind](concurrency, executor),),), (), 2), 4)

    @pytest.mark.parametrize("source", ["iterable", "dedicated", "async"])
    @pytest.mark.parametrize("branches", [1, 3])
    def test_sources(self, source: str, branches: int, executor: ThreadPoolExecutor) -> None:
        for kinds in ([], ["function"], ["async"], ["executor"]):
            parts = tuple(KINDS[kind](2, executor) for kind in kinds)
            check_bound(Graph((parts,) * branches, (), 3, source), 2)

    def test_forks(self, executor: ThreadPoolExecutor) -> None:
        inner = fork([[KINDS["function"](1, executor)], [KINDS["generator"](2, executor)]])
        check_bound(
            Graph(((fork([[inner], [KINDS["async"](3, executor)], [KINDS["batch"](4, executor)]]),),), (), 1), 4
        )

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(graph=graphs, num_threads=st.integers(1, 5))
    def test_random_graphs(self, graph: Any, num_threads: int) -> None:
        branches, trunk, sink, source = graph
        with ThreadPoolExecutor(4) as pool:
            declared = Graph(
                tuple(tuple(make_part(part, pool) for part in branch) for branch in branches),
                tuple(make_part(part, pool) for part in trunk),
                sink,
                source,
            )
            check_bound(declared, num_threads)


class TestStragglers:
    """One op takes long while the others of its stage go on. The items that wait behind it are still bounded."""

    @pytest.mark.parametrize("arguments", [{}, {"timeout": 20}, {"retries": 2}])
    @pytest.mark.parametrize("ordered", [False, True])
    def test_items_of_a_stage(self, arguments: dict[str, Any], ordered: bool) -> None:  # noqa: FBT001
        gate = threading.Event()
        census = Census()

        def op(item: Item) -> Item:
            if item.number == 0:
                gate.wait(20)
            return new(item)

        stage = Pipe(op, concurrency=2, output_order="input" if ordered else "completion", **arguments)
        config = PipelineConfig(SourceConfig(Endless(census)), [stage], SinkConfig(1))
        with build_pipeline(config, num_threads=3).auto_stop() as pipeline:
            if not ordered:
                read(pipeline, 100)
            census.settle()
            # The queue, two slots with an item and its result each, the sink, one at the source, and the results kept
            # in order.
            assert census.peak <= 2 + 2 * 2 + 1 + 1 + (2 + 2 if ordered else 0)
            gate.set()

    def test_what_a_stage_was_given_is_gone_while_the_next_one_works(self) -> None:
        gate, asked_again = threading.Event(), threading.Event()
        census = Census()

        def items() -> Iterator[Item]:
            yield census.item()
            # Occupy the other worker, which would drop the item.
            asked_again.set()
            gate.wait(20)

        def first(item: Item) -> Item:
            asked_again.wait(20)
            return new(item)

        def last(item: Item) -> Item:
            gate.wait(20)
            return item

        stages = [Pipe(first, retries=1), Pipe(new, timeout=20), Pipe(last)]
        config = PipelineConfig(SourceConfig(items()), stages, SinkConfig(1))
        with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
            assert wait_until(lambda: pipeline.statistics().stages[3].running)
            census.look()
            assert census.alive == 1
            gate.set()

    def test_batches_of_a_fork(self) -> None:
        gate = threading.Event()
        census = Census()
        asked: list[int] = []

        def batches() -> Iterator[list[Item]]:
            for number in itertools.count():
                asked.append(number)
                yield [census.item(number), census.item(number + 1)]

        def op(items: list[Item]) -> list[Item]:
            if any(item.number == 0 for item in items):
                gate.wait(20)
            return items

        fork = PathVariants(
            lambda items: [item.number % 2 for item in items], [[Pipe(op, concurrency=2)], [Pipe(list)]], batched=True
        )
        config = PipelineConfig(SourceConfig(batches()), [fork], SinkConfig(1))
        with build_pipeline(config, num_threads=3).auto_stop() as pipeline:
            census.settle()
            # The router and its queue, and the batches that fit into the wider path: two slots and the queues around
            # them.
            assert len(asked) <= 2 + 1 + (2 + 2 + 2) + 1
            assert census.peak <= 2 * len(asked)
            gate.set()
            assert len(pipeline.get_item(timeout=10)) == 2

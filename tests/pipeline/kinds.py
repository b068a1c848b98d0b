"""Every place that runs a user's code. Each calls one op on each item and passes the result on."""

from __future__ import annotations

import functools
import gc
import io
import logging
import multiprocessing
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from spdl.pipeline import Pipeline, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    MergeConfig,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

__all__ = ["KINDS", "Item", "Items", "Kind", "Op", "one_process_pool", "text_log"]

Op: TypeAlias = Callable[[Any], Any]


class Item:
    """An item of a pipeline."""

    def __init__(self, number: int) -> None:
        self.number = number


class Items:
    """A source of items that knows which of them are alive."""

    def __init__(self, count: int, kind: type[Item] = Item) -> None:
        self.count = count
        self.kind = kind
        self.made: list[weakref.ref[Item]] = []

    def __iter__(self) -> Iterator[Item]:
        for number in range(self.count):
            item = self.kind(number)
            self.made.append(weakref.ref(item))
            yield item
            del item

    def alive(self) -> list[int]:
        """Return the numbers of the items that are still alive."""
        gc.collect()
        return [item.number for item in (reference() for reference in self.made) if item is not None]


def generate(op: Op, items: Iterable[Any]) -> Iterator[Any]:
    for x in items:
        yield op(x)


async def generate_async(op: Op, items: Iterable[Any]) -> AsyncIterator[Any]:
    for x in items:
        yield op(x)


def yields(op: Op, x: Any) -> Iterator[Any]:
    yield op(x)


async def yields_async(op: Op, x: Any) -> AsyncIterator[Any]:
    yield op(x)


async def awaits(op: Op, x: Any) -> Any:
    return op(x)


class Again:
    """An iterable that calls the op in every pass."""

    def __init__(self, op: Op, items: Iterable[Any]) -> None:
        self.op = op
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return generate(self.op, self.items)


class Iterates:
    """An iterable with one element, the result of the op."""

    def __init__(self, op: Op, x: Any) -> None:
        self.op = op
        self.x = x

    def __iter__(self) -> Iterator[Any]:
        return iter([self.op(self.x)])


class Accumulates(Aggregator[Any, Any]):
    def __init__(self, op: Op) -> None:
        self.op = op

    def accumulate(self, item: Any) -> Any:
        return self.op(item)

    def flush(self) -> Any:
        return None


class Flushes(Aggregator[Any, Any]):
    def __init__(self, op: Op) -> None:
        self.op = op
        self.items: list[Any] = []

    def accumulate(self, item: Any) -> None:
        self.items.append(item)

    def flush(self) -> Any:
        items, self.items = self.items, []
        return [self.op(x) for x in items]


def same(x: Any) -> Any:
    return x


async def route_async(op: Op, x: Any) -> int:
    op(x)
    return 0


def route(op: Op, x: Any) -> int:
    op(x)
    return 0


def route_batch(op: Op, batch: list[Any]) -> list[int]:
    return [route(op, x) for x in batch]


def each(op: Op, batch: list[Any]) -> list[Any]:
    return [op(x) for x in batch]


class Refuses:
    """A source of two items for each one, and a stage that fails on one of the two. The callback then calls the op."""

    def __init__(self, op: Op, items: Iterable[Any]) -> None:
        self.op = op
        self.items = items
        self.refused: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for x in self.items:
            yield (x,)
            yield x

    def __call__(self, x: Any) -> Any:
        if type(x) is tuple:
            self.refused += x
            raise ValueError("one for the callback")
        return x

    def tell(self, _: object) -> None:
        self.op(self.refused.pop())


def thread_pool(stack: ExitStack) -> ThreadPoolExecutor:
    return stack.enter_context(ThreadPoolExecutor(2))


_shared_pools: list[ProcessPoolExecutor] = []


@contextmanager
def text_log() -> Iterator[io.StringIO]:
    """Log to a text stream, and keep no records: their exceptions would keep frames and items alive."""
    logger = logging.getLogger("spdl.pipeline")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield stream
    finally:
        logger.propagate = True
        logger.removeHandler(handler)


@contextmanager
def one_process_pool() -> Iterator[None]:
    """Share one process pool among all pipelines of the block, since starting one takes long."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as executor:
        _shared_pools.append(executor)
        try:
            yield
        finally:
            _shared_pools.remove(executor)


def process_pool(stack: ExitStack) -> ProcessPoolExecutor:
    if not _shared_pools:
        stack.enter_context(one_process_pool())
    return _shared_pools[-1]


def feeding(op: Op, items: Iterable[Any], stack: ExitStack) -> Pipeline[Any]:
    """Return a pipeline that will be the source of another."""
    inner = build_pipeline(
        PipelineConfig(SourceConfig(items), [Pipe(op, name="faulty", concurrency=2)], SinkConfig(2)), num_threads=2
    )
    # The outer pipeline reports its failure.
    stack.enter_context(suppress(PipelineFailure))
    stack.callback(inner.stop, timeout=5)
    return inner


faulty = functools.partial(Pipe, name="faulty", concurrency=2)


def merged(op: Op, items: Iterable[Any]) -> tuple[Any, list[Any]]:
    branch = PipelineConfig(SourceConfig(items), [faulty(op)], SinkConfig(1))
    return Merge([branch, PipelineConfig(SourceConfig([]), [], SinkConfig(1))]), [Pipe(same)]


def refused(op: Op, items: Iterable[Any]) -> tuple[Any, list[Any]]:
    stage = Refuses(op, items)
    return stage, [Pipe(stage, name="faulty", on_failure=stage.tell)]


def fork(router: Any, *, batched: bool = False) -> Any:
    return PathVariants(router, [[Pipe(same)], [Pipe(same)]], "faulty", batched)


@dataclass(frozen=True)
class Kind:
    """A place for an op.

    Attributes:
        name: Its name.
        on_error: What an exception of the op does: drop its item, fail the pipeline, or nothing.
        graph: Makes the source and the stages from the op and the items, and puts anything to close onto the stack.
        stage: The name of the stage that calls the op.
        waits: Whether `stop` waits for the op.
    """

    name: str
    on_error: Literal["drop", "fail", "bear"]
    graph: Callable[[Op, Any, ExitStack], tuple[Any, list[Any]]]
    stage: str = "faulty"
    waits: bool = True

    @contextmanager
    def pipeline(self, op: Op, items: Iterable[Any], *, sink: int = 2, num_threads: int = 2) -> Iterator[Pipeline[Any]]:
        """Build a pipeline, and close its executors and sources at the end."""
        with text_log(), ExitStack() as stack:
            src, stages = self.graph(op, items, stack)
            if not isinstance(src, SourceConfig | MergeConfig):
                src = SourceConfig(src)
            yield build_pipeline(PipelineConfig(src, stages, SinkConfig(sink)), num_threads=num_threads)

    def __str__(self) -> str:
        return self.name


def in_stage(name: str, stage: Callable[[Op], Any], **kwargs: Any) -> Kind:
    return Kind(name, "drop", lambda op, items, _: (items, [stage(op)]), **kwargs)


def bind(function: Callable[..., Any], op: Op) -> Any:
    return functools.partial(function, op)


KINDS = [
    Kind("source", "fail", lambda op, items, _: (generate(op, items), []), "src", waits=False),
    Kind("source_of_stage", "fail", lambda op, items, _: (generate(op, items), [Pipe(same)]), "src", waits=False),
    Kind("async_source", "fail", lambda op, items, _: (generate_async(op, items), [Pipe(same)]), "src", waits=False),
    Kind(
        "dedicated_source",
        "fail",
        lambda op, items, _: (SourceConfig(generate(op, items), dedicated_thread=True), [Pipe(same)]),
        "src",
        waits=False,
    ),
    Kind(
        "continuous_source",
        "fail",
        lambda op, items, _: (SourceConfig(Again(op, items), continuous=True), [Pipe(same)]),
        "src",
        waits=False,
    ),
    Kind("pipeline_source", "drop", lambda op, items, stack: (feeding(op, items, stack), [Pipe(same)]), waits=False),
    in_stage("function", faulty),
    in_stage("ordered", lambda op: faulty(op, output_order="input")),
    in_stage("retried", lambda op: faulty(op, retries=1, retry_delay=0.001)),
    in_stage("timed", lambda op: faulty(op, timeout=60, on_timeout="drop")),
    in_stage("generator", lambda op: faulty(bind(yields, op))),
    in_stage("ordered_generator", lambda op: faulty(bind(yields, op), output_order="input")),
    in_stage("async", lambda op: faulty(bind(awaits, op))),
    in_stage("ordered_async", lambda op: faulty(bind(awaits, op), output_order="input")),
    in_stage("async_generator", lambda op: faulty(bind(yields_async, op))),
    # Only the result shows that a lambda makes coroutines.
    in_stage("late_async", lambda op: faulty(lambda x: awaits(op, x))),
    Kind("threads", "drop", lambda op, items, stack: (items, [faulty(op, executor=thread_pool(stack))])),
    Kind("processes", "drop", lambda op, items, stack: (items, [faulty(op, executor=process_pool(stack))])),
    Kind("aggregate", "fail", lambda op, items, _: (items, [Aggregate(Accumulates(op))]), "aggregate"),
    Kind("flush", "fail", lambda op, items, _: (items, [Aggregate(Flushes(op)), Disaggregate()]), "aggregate"),
    Kind(
        "disaggregate",
        "drop",
        lambda op, items, _: ((Iterates(op, x) for x in items), [Disaggregate()]),
        "disaggregate",
    ),
    Kind("merged", "drop", lambda op, items, _: merged(op, items)),
    Kind("router", "fail", lambda op, items, _: (items, [fork(bind(route, op))])),
    Kind("async_router", "fail", lambda op, items, _: (items, [fork(bind(route_async, op))])),
    Kind(
        "batch_router",
        "fail",
        lambda op, items, _: (items, [Aggregate(1), fork(bind(route_batch, op), batched=True), Disaggregate()]),
    ),
    Kind(
        "path",
        "drop",
        lambda op, items, _: (items, [PathVariants(lambda _: 1, [[Pipe(same)], [faulty(op), Pipe(same)]])]),
    ),
    Kind(
        "batch_path",
        "drop",
        lambda op, items, _: (
            items,
            [
                Aggregate(1),
                PathVariants(lambda batch: [1] * len(batch), [[Pipe(same)], [faulty(bind(each, op))]], batched=True),
                Disaggregate(),
            ],
        ),
    ),
    Kind("callback", "bear", lambda op, items, _: refused(op, items)),
]

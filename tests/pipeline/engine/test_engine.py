"""Test random pipelines against a model that computes their results."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@dataclass(frozen=True)
class Stage:
    """One stage of a random pipeline."""

    kind: str
    concurrency: int
    ordered: bool
    pace: str  # how long ops take


PACES: dict[str, Callable[[int], float]] = {
    "at once": lambda _: 0.0,
    "now and then": lambda x: 0.002 if x % 7 == 0 else 0.0,
    "always": lambda x: 0.0002 * (x % 3),
}

MAPS = (
    "function",
    "generator",
    "async",
    "async generator",
    "executor",
    "drops",
    "fails",
    "lambda of generator",
    "lambda of coroutine",
)

stages = st.builds(
    Stage, st.sampled_from((*MAPS, "batch")), st.integers(1, 5), st.booleans(), st.sampled_from(sorted(PACES))
)


def expand(x: int) -> list[int]:
    """Return the results of a generator stage for an item: 0 to 2 of them."""
    return [x * 2 + i for i in range(x % 3)]


def model(stage: Stage, items: list[int]) -> list[int]:
    match stage.kind:
        case "generator" | "async generator" | "lambda of generator":
            return [y for x in items for y in expand(x)]
        case "drops":
            return [x for x in items if x % 4]
        case "fails":
            return [x for x in items if x % 5]
        case "batch":
            return items
        case _:
            return [x + 1 for x in items]


def make_op(stage: Stage) -> Callable[[int], Any]:  # noqa: C901 - one kind of op each.
    pause = PACES[stage.pace]

    def function(x: int) -> int | None:
        time.sleep(pause(x))
        if stage.kind == "drops":
            return x if x % 4 else None
        if stage.kind == "fails":
            if x % 5 == 0:
                raise ValueError(f"{x} is a multiple of 5")
            return x
        return x + 1

    def generator(x: int) -> Iterator[int]:
        for y in expand(x):
            time.sleep(pause(x))
            yield y

    async def coroutine(x: int) -> int:
        await asyncio.sleep(pause(x))
        return x + 1

    async def async_generator(x: int) -> AsyncIterator[int]:
        for y in expand(x):
            await asyncio.sleep(pause(x))
            yield y

    match stage.kind:
        case "generator":
            return generator
        case "async":
            return coroutine
        case "async generator":
            return async_generator
        case "lambda of generator":
            return lambda x: generator(x + 0)
        case "lambda of coroutine":
            return lambda x: coroutine(x + 0)
        case _:
            return function


def build(items: list[int], graph: list[Stage], num_threads: int, sink: int, executor: ThreadPoolExecutor) -> Any:
    builder = PipelineBuilder[Any, Any]().add_source(items)
    for stage in graph:
        if stage.kind == "batch":
            builder.aggregate(3).disaggregate()
        else:
            builder.pipe(
                make_op(stage),
                concurrency=stage.concurrency,
                output_order="input" if stage.ordered else "completion",
                executor=executor if stage.kind == "executor" else None,
            )
    return builder.add_sink(sink).build(num_threads=num_threads)


@pytest.mark.filterwarnings("ignore:The source of the pipeline")
@pytest.mark.timeout(300)
@settings(max_examples=90, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    size=st.integers(0, 60),
    graph=st.lists(stages, max_size=4),
    num_threads=st.integers(1, 6),
    sink=st.integers(1, 8),
)
def test_nothing_is_lost_or_duplicated(size: int, graph: list[Stage], num_threads: int, sink: int) -> None:
    expected = list(range(size))
    for stage in graph:
        expected = model(stage, expected)
    with ThreadPoolExecutor(2) as executor:
        pipeline = build(list(range(size)), graph, num_threads, sink, executor)
        got: list[int] = []
        try:
            with pipeline.auto_stop():
                got.extend(pipeline.get_iterator(timeout=20))
        except PipelineFailure:
            # A run fails if all of its items do.
            assert not expected
            assert pipeline.failures()
    assert Counter(got) == Counter(expected)
    if all(stage.ordered or stage.concurrency == 1 or stage.kind == "batch" for stage in graph):
        # Stages with one slot keep the order, except async ones, which hand their items to the event loop.
        ordered = all(stage.ordered or stage.kind in {"function", "drops", "fails", "batch"} for stage in graph)
        if ordered:
            assert got == expected
    assert pipeline.statistics().in_flight == 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=st.lists(stages, max_size=3), num_threads=st.integers(1, 6), take=st.integers(0, 10))
def test_leaving_early_ends_every_thread(graph: list[Stage], num_threads: int, take: int) -> None:
    before = set(threading.enumerate())
    with ThreadPoolExecutor(2) as executor:
        pipeline = build(list(range(10_000)), graph, num_threads, 2, executor)
        with pipeline.auto_stop():
            for _, _item in zip(range(take), pipeline.get_iterator(timeout=20), strict=False):
                pass
    assert set(threading.enumerate()) <= before

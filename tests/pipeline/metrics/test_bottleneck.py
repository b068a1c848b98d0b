"""Test the verdict on made-up records."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.delays import tolerates_delays
from tests.pipeline.support import source

from spdl.pipeline import PipelineBuilder, StageStatistics, TaskHook
from spdl.pipeline._metrics.bottleneck import bottleneck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ELAPSED = 10.0
RECORD = StageStatistics(
    name="",
    concurrency=1,
    num_completed=1000,
    num_emitted=1000,
    num_failed=0,
    num_dropped=0,
    num_retried=0,
    num_overdue=0,
    running=0,
    busy_seconds=0.5,
    cpu_seconds=0.4,
    starved_seconds=9.0,
    blocked_seconds=0.0,
    held_seconds=0.0,
    queue_size=0,
    queue_capacity=2,
    queue_fill=0.0,
    elapsed=ELAPSED,
)


def stage(name: str, **changes: Any) -> StageStatistics:
    return dataclasses.replace(RECORD, name=name, **changes)


def verdict(
    *inner: StageStatistics,
    source: StageStatistics | None = None,
    num_threads: int = 8,
    short: float = 0.0,
    waits: float = 9.0,
) -> str:
    sources = [source or stage("src")]
    return bottleneck(
        sources,
        inner,
        stage("sink", queue_capacity=3, starved_seconds=waits),
        max_bytes=4_000_000 if short else 0,
        seconds_short_of_bytes=short,
        elapsed=ELAPSED,
        num_threads=num_threads,
        thread_seconds=sum(each.busy_seconds for each in inner),
    )


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdl.pipeline._metrics.bottleneck.available_cores", lambda: 4.0)


def test_a_stage() -> None:
    assert verdict(stage("quick"), stage("slow", busy_seconds=9.5)) == (
        "Stage 'slow' is the limit: its only slot was busy 95 % of the time."
    )
    assert verdict(stage("slow", busy_seconds=36, concurrency=4)) == (
        "Stage 'slow' is the limit: its 4 slots were busy 90 % of the time."
    )


def test_the_cpu() -> None:
    decode = stage("decode", busy_seconds=39, concurrency=4, cpu_seconds=36)
    assert verdict(decode, stage("quick")) == (
        "The CPU is the limit: the ops use 3.6 of 4 cores, most of it in stage 'decode' (36.00 ms of CPU per item)."
    )
    tiny = dataclasses.replace(decode, num_completed=1_000_000)
    assert "(36.0 microseconds of CPU per item)" in verdict(tiny)


def test_the_consumer() -> None:
    assert verdict(stage("quick", blocked_seconds=9.9)) == (
        "The consumer is the limit: the sink's 3 places were taken 99 % of the time."
    )
    assert verdict(source=stage("src", blocked_seconds=8)).startswith("The consumer is the limit")


def test_the_source() -> None:
    assert verdict(stage("quick"), source=stage("src", busy_seconds=9.9)) == (
        "The source is the limit: its next() took 99 % of the time."
    )


def test_the_threads() -> None:
    stages = [stage(name, busy_seconds=9.5, concurrency=4) for name in ("one", "two")]
    assert verdict(*stages, num_threads=2) == "The threads are the limit: all 2 of them ran ops 95 % of the time."
    assert verdict(stages[0], num_threads=1) == "The only thread is the limit: it ran ops 95 % of the time."


def test_the_bytes() -> None:
    reading = stage("read", busy_seconds=3.0, blocked_seconds=9.0)
    assert verdict(stage("quick"), reading, short=9.0) == (
        "`max_bytes` is the limit: 90 % of the time another item might not have fitted into its 4,000,000 bytes, while "
        "stage 'read' was busy 30 % of it. Raise it, or make the items smaller."
    )
    assert verdict(reading, short=9.0, waits=0.1) == (
        "The consumer is the limit: 90 % of the time what it had not read yet left no room for another item in the "
        "4,000,000 bytes of `max_bytes`."
    )
    # Another part is in use all the time, or bytes are short now and then.
    assert verdict(stage("slow", busy_seconds=9.5), short=9.0).startswith("Stage 'slow' is the limit")
    assert verdict(stage("quick"), source=stage("src", busy_seconds=9.9), short=9.0).startswith("The source")
    assert verdict(stage("busiest", busy_seconds=3), short=2.0).startswith("Nothing is saturated")
    assert verdict(short=9.0).startswith("`max_bytes` is the limit")


@tolerates_delays
def test_real_items_that_do_not_fit() -> None:
    def read(_: int) -> bytes:
        time.sleep(0.02)
        return bytes(1 << 20)

    builder = PipelineBuilder[Any, Any]().add_source(range(40)).pipe(read, concurrency=16, name="read").add_sink(4)
    pipeline = builder.build(num_threads=16, max_bytes=2 << 20)
    with pipeline.auto_stop():
        assert sum(len(item) for item in pipeline) == 40 << 20
    assert pipeline.statistics().bottleneck.startswith("`max_bytes` is the limit")


def test_nothing() -> None:
    assert verdict(stage("busiest", busy_seconds=3), stage("other")).startswith(
        "Nothing is saturated: stage 'busiest' is the busiest, 30 % of the time."
    )
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert ("`spdl profile` says" in verdict(stage("busiest", busy_seconds=3))) == has_gil
    assert verdict() == "Nothing is saturated: the source's next() took 5 % of the time."
    assert verdict(stage("idle"), source=stage("src", num_emitted=0)) == "Nothing has run yet."
    unstarted = PipelineBuilder[Any, Any]().add_source([1]).add_sink(1).build(num_threads=1)
    assert unstarted.statistics().bottleneck == "Nothing has run yet."


@tolerates_delays
def test_a_real_consumer_that_is_slow() -> None:
    pipeline = PipelineBuilder[Any, Any]().add_source(range(40)).pipe(lambda x: x).add_sink(2).build(num_threads=2)
    with pipeline.auto_stop():
        for _ in pipeline:
            time.sleep(0.004)
    assert pipeline.statistics().bottleneck.startswith("The consumer is the limit")


def sleep(_: int) -> None:
    time.sleep(0.2)


async def sleep_async(_: int) -> None:
    await asyncio.sleep(0.2)


def apply(function: Any, x: int) -> Any:
    return function(x)


class Nothing(TaskHook):
    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize("kind", ["worker", "hooked", "async", "late async", "threads"])
@tolerates_delays
def test_only_what_threads_of_the_pipeline_run_counts_as_theirs(kind: str) -> None:
    ops: dict[str, Any] = {"async": sleep_async, "late async": functools.partial(apply, sleep_async)}
    with ThreadPoolExecutor(8) as executor:
        builder = source(range(8)).pipe(
            ops.get(kind, sleep), concurrency=16, executor=executor if kind == "threads" else None
        )
        hooks = (lambda _: [Nothing()]) if kind == "hooked" else None
        with builder.add_sink(3).build(num_threads=2, task_hook_factory=hooks).auto_stop() as pipeline:
            assert list(pipeline) == []
    expected = "The threads are the limit" if kind in ("worker", "hooked") else "Nothing is saturated"
    assert pipeline.statistics().bottleneck.startswith(expected)

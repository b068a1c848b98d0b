"""Test the budget of bytes: what items in flight may keep, whatever the graph."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.aggregators import Pairs
from tests.pipeline.support import source, wait_until

from spdl.pipeline import AsyncQueue, PipelineFailure, build_pipeline
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

SIZE = 1000


def made(number: int) -> bytes:
    """Return an item of a known size, which says where it comes from."""
    return number.to_bytes(4, "big").ljust(SIZE, b".")


def number_of(item: bytes) -> int:
    return int.from_bytes(item[:4], "big")


async def copied_later(item: bytes) -> bytes:
    await asyncio.sleep(0)
    return bytes(bytearray(item))


def twice(item: bytes) -> Iterator[bytes]:
    yield bytes(bytearray(item))
    yield bytes(bytearray(item))


async def twice_later(item: bytes) -> AsyncIterator[bytes]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield bytes(bytearray(item))


def copied(item: bytes) -> bytes:
    return bytes(bytearray(item))


def joined(items: list[bytes]) -> list[bytes]:
    return [bytes(bytearray(item)) for item in items]


# Each takes single items to single items; the second number is how many come of one.
_STAGES: dict[str, tuple[Any, int]] = {
    "function": (lambda: [Pipe(copied, concurrency=3)], 1),
    "ordered": (lambda: [Pipe(copied, concurrency=3, output_order="input")], 1),
    "coroutine": (lambda: [Pipe(copied_later, concurrency=3)], 1),
    "ordered coroutine": (lambda: [Pipe(copied_later, concurrency=3, output_order="input")], 1),
    "generator": (lambda: [Pipe(twice, concurrency=2)], 2),
    "ordered generator": (lambda: [Pipe(twice, concurrency=2, output_order="input")], 2),
    "async generator": (lambda: [Pipe(twice_later, concurrency=2)], 2),
    "batches": (lambda: [Aggregate(3), Disaggregate()], 1),
    "an aggregator": (lambda: [Aggregate(Pairs()), Disaggregate()], 1),
    "paths": (
        lambda: [PathVariants(lambda item: number_of(item) % 2, [[Pipe(copied)], [Pipe(copied_later), Pipe(copied)]])],
        1,
    ),
    "batched paths": (
        lambda: [
            Aggregate(2),
            PathVariants(
                lambda items: [number_of(item) % 2 for item in items], [[Pipe(joined)], [Pipe(list)]], batched=True
            ),
            Disaggregate(),
        ],
        1,
    ),
    "a pool": (lambda: [Pipe(copied, executor=ThreadPoolExecutor(2), concurrency=2)], 1),
}


class _Later:
    """An async source."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in self.numbers:
            await asyncio.sleep(0)
            yield made(number)


def _source(kind: str, numbers: range) -> SourceConfig[Any]:
    if kind == "async":
        return SourceConfig(_Later(numbers))
    return SourceConfig([made(number) for number in numbers], dedicated_thread=kind == "dedicated")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(sorted(_STAGES)), max_size=4),
    st.lists(st.sampled_from(["plain", "async", "dedicated"]), min_size=1, max_size=3),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_whatever_the_graph_nothing_is_lost(
    stages: list[str], sources: list[str], places: int, buffer: int, threads: int
) -> None:
    count = 14
    branches = [
        PipelineConfig(_source(kind, range(100 * at, 100 * at + count)), [], SinkConfig(1))
        for at, kind in enumerate(sources)
    ]
    pipes = [pipe for name in stages for pipe in _STAGES[name][0]()]
    config = (
        PipelineConfig(branches[0].src, pipes, SinkConfig(buffer))
        if len(branches) == 1
        else PipelineConfig(Merge(branches), pipes, SinkConfig(buffer))
    )
    pipeline = build_pipeline(config, num_threads=threads, max_bytes=places * SIZE)
    times = 1
    for name in stages:
        times *= _STAGES[name][1]
    with pipeline.auto_stop():
        got = sorted(map(number_of, pipeline.get_iterator(timeout=30)))
    wanted = [100 * at + number for at in range(len(sources)) for number in range(count)]
    assert got == sorted(wanted * times)
    seen = pipeline.statistics()
    assert seen.bytes_in_flight == 0
    assert seen.max_bytes == places * SIZE
    # What one item needs at once: its batches, and what becomes of it. Up to that it may pass alone. Each source may
    # have pulled one before it is known what they weigh.
    batches = 3 * times * len(stages) + 2
    assert seen.peak_bytes <= max(places, batches, len(sources)) * SIZE


@pytest.mark.parametrize(
    ("stages", "sources"),
    [
        # Between the ops of the only thread, in front of a pool, and behind what the event loop has just pulled.
        (["batched paths"], ["plain", "plain", "plain"]),
        (["an aggregator", "a pool"], ["dedicated", "plain", "dedicated"]),
        (["batches", "a pool"], ["async", "plain", "async"]),
        ([], ["async", "plain"]),
    ],
)
def test_sources_give_way_to_what_is_about_to_go_on(stages: list[str], sources: list[str]) -> None:
    for _ in range(60):
        branches = [
            PipelineConfig(_source(kind, range(14 * at, 14 * at + 14)), [], SinkConfig(1))
            for at, kind in enumerate(sources)
        ]
        pipes = [pipe for name in stages for pipe in _STAGES[name][0]()]
        config = PipelineConfig(Merge(branches), pipes, SinkConfig(3))
        pipeline = build_pipeline(config, num_threads=1, max_bytes=4 * SIZE)
        with pipeline.auto_stop():
            assert sorted(map(number_of, pipeline.get_iterator(timeout=30))) == list(range(14 * len(sources)))
        # A batch of three, and one that its copies are made of.
        assert pipeline.statistics().peak_bytes <= 7 * SIZE


@pytest.mark.parametrize("last", ["function", "a pool"])
def test_a_stage_gives_way_to_those_nearer_the_sink(last: str) -> None:
    # An item of the async generator needs three places: for itself and for its results. Only 20 items fit, and the
    # consumer may be about to take one whenever another result is made.
    for _ in range(6):
        branches = [
            PipelineConfig(_source(kind, range(14 * at, 14 * at + 14)), [], SinkConfig(1))
            for at, kind in enumerate(["async", "plain", "dedicated"])
        ]
        pipes = [pipe for name in ("paths", "async generator", last) for pipe in _STAGES[name][0]()]
        config = PipelineConfig(Merge(branches), pipes, SinkConfig(6))
        pipeline = build_pipeline(config, num_threads=4, max_bytes=20 * SIZE)
        with pipeline.auto_stop():
            assert len(list(pipeline.get_iterator(timeout=30))) == 84
        assert pipeline.statistics().peak_bytes <= 20 * SIZE


def test_the_items_stay_within_it_while_nobody_reads() -> None:
    pipeline = source(range(1000)).pipe(made, concurrency=8).add_sink(500).build(num_threads=8, max_bytes=20 * SIZE)
    with pipeline.auto_stop():
        assert wait_until(lambda: pipeline.statistics().bytes_in_flight == 20 * SIZE, 20)
        for _ in range(200):
            pipeline.get_item(timeout=20)
            assert pipeline.statistics().bytes_in_flight <= 20 * SIZE
        assert pipeline.statistics().peak_bytes == 20 * SIZE
        assert pipeline.statistics().seconds_short_of_bytes > 0


def test_ops_that_run_have_reserved_for_their_results() -> None:
    running = threading.Semaphore(0)
    proceed = threading.Event()
    begun: list[int] = []

    def op(number: int) -> bytes:
        begun.append(number)
        running.release()
        if number:
            assert proceed.wait(30)
        return made(number)

    pipeline = source(range(50)).pipe(op, concurrency=16).add_sink(50).build(num_threads=16, max_bytes=4 * SIZE)
    with pipeline.auto_stop():
        # The first one says what a result weighs. It waits to be read, and three more are expected.
        assert running.acquire(timeout=20)
        assert wait_until(lambda: len(begun) == 4, 20)
        proceed.set()
        assert sorted(map(number_of, pipeline.get_iterator(timeout=30))) == list(range(50))
        assert pipeline.statistics().peak_bytes <= 4 * SIZE


def test_one_that_does_not_fit_passes_alone_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    at_once: list[int] = []
    running: list[int] = []

    def op(number: int) -> bytes:
        running.append(number)
        at_once.append(len(running))
        item = made(number)
        running.remove(number)
        return item

    with caplog.at_level(logging.WARNING):
        pipeline = source(range(20)).pipe(op, concurrency=4).add_sink(8).build(num_threads=4, max_bytes=SIZE // 2)
        with pipeline.auto_stop():
            assert len(list(pipeline.get_iterator(timeout=30))) == 20
    assert max(at_once) == 1
    assert pipeline.statistics().peak_bytes == SIZE
    (warning,) = [record for record in caplog.records if "max_bytes" in record.getMessage()]
    assert "500" in warning.getMessage()


def test_failures_retries_drops_and_timeouts_give_back_what_they_had() -> None:
    tried: set[int] = set()

    def op(item: bytes) -> bytes | None:
        number = number_of(item)
        if number % 5 == 0:
            raise ValueError(number)
        if number % 5 == 1 and number not in tried:
            tried.add(number)
            raise OSError
        return None if number % 5 == 2 else copied(item)

    pipeline = (
        source(map(made, range(100)))
        .pipe(op, concurrency=4, retries=1, retry_delay=0)
        .add_sink(3)
        .build(num_threads=4, max_bytes=6 * SIZE)
    )
    with pipeline.auto_stop():
        got = sorted(map(number_of, pipeline.get_iterator(timeout=30)))
    assert got == [number for number in range(100) if number % 5 not in (0, 2)]
    assert pipeline.statistics().bytes_in_flight == 0
    assert pipeline.statistics().peak_bytes <= 6 * SIZE


def test_what_has_come_before_a_failure_is_delivered() -> None:
    def op(number: int) -> bytes:
        if number == 30:
            raise ValueError(number)
        return made(number)

    pipeline = source(range(100)).pipe(op, max_failures=0).pipe(copied).add_sink(3).build(max_bytes=3 * SIZE)
    got: list[int] = []
    with pytest.raises(PipelineFailure), pipeline.auto_stop():
        got += map(number_of, pipeline.get_iterator(timeout=30))
    assert got == list(range(len(got)))


def test_epochs_and_a_state() -> None:
    def build() -> Any:
        return (
            source(range(12), continuous=True)
            .pipe(made, concurrency=3, output_order="input")
            .pipe(copied)
            .add_sink(3)
            .build(num_threads=3, max_bytes=4 * SIZE)
        )

    with build().auto_stop() as pipeline:
        for _ in range(2):
            assert [number_of(item) for item in pipeline.get_iterator(timeout=30)] == list(range(12))
        got = [number_of(pipeline.get_item(timeout=30)) for _ in range(5)]
        state = pipeline.state_dict()
    resumed = build()
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        got += map(number_of, resumed.get_iterator(timeout=30))
    assert got == list(range(12))


def test_queues_of_the_users_are_refused() -> None:
    builder = source(range(3)).add_sink(1)
    with pytest.raises(ValueError, match="max_bytes"):
        builder.build(max_bytes=10, queue_class=_Queue)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_bytes"):
            builder.build(max_bytes=wrong)
    with pytest.raises(TypeError, match="max_bytes"):
        builder.build(max_bytes="1 GB")  # type: ignore[arg-type]


class _Queue(AsyncQueue[Any]):
    """A queue of the user's."""


def test_a_process_keeps_no_more_memory() -> None:
    # 48 items of 64 MB through 16 threads, of which none is read before all that fits is there.
    script = """
    import threading, time
    import numpy as np
    from spdl.pipeline import PipelineBuilder

    MB = 1 << 20

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096 // MB

    def make(number):
        array = np.empty(64 * MB, np.uint8)
        array[::1024] = number
        return array

    base, peak = resident(), 0
    pipeline = (
        PipelineBuilder().add_source(range(32)).pipe(make, concurrency=16).add_sink(30)
        .build(num_threads=16, max_bytes=512 * MB)
    )
    with pipeline.auto_stop():
        while pipeline.statistics().bytes_in_flight < 512 * MB:
            time.sleep(0.001)
        got = []
        for array in pipeline:
            peak = max(peak, resident())
            got.append(int(array[0]))
            del array
    print(sorted(got) == list(range(32)), pipeline.statistics().peak_bytes // MB, peak - base)
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("resident memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100, check=True
    )
    whole, peak, resident = done.stdout.split()
    assert whole == "True"
    assert int(peak) == 512
    # The item that is read, and another that an op drops, come on top.
    assert int(resident) <= 512 + 2 * 64

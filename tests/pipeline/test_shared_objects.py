"""Test eight threads on one pipeline, iterator or pool at once. This is meant for builds without the GIL."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

import pytest
from tests.hammer import ROUNDS, THREADS, hammer
from tests.pipeline.support import source

from spdl.pipeline import Pipeline, PriorityThreadPoolExecutor

ITEMS = 2000


def read_items(pipeline: Pipeline[int]) -> list[int]:
    items = []
    try:
        while True:
            items.append(pipeline.get_item(timeout=20))
    except EOFError:
        return items


def read_iterator(pipeline: Pipeline[int]) -> list[int]:
    return list(pipeline.get_iterator(timeout=20))


@pytest.mark.parametrize("read", [read_items, read_iterator])
def test_readers_of_a_pipeline_get_each_item_once(read: Callable[[Pipeline[int]], list[int]]) -> None:
    builder = source(range(ITEMS)).pipe(lambda x: x + 1, concurrency=4).add_sink(3)
    with builder.build(num_threads=4).auto_stop() as pipeline, ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(read, [pipeline] * THREADS))
    assert sorted(chain(*parts)) == list(range(1, ITEMS + 1))


def test_threads_that_share_an_iterator_get_each_item_once() -> None:
    builder = source(range(ITEMS)).pipe(lambda x: x + 1, concurrency=4).add_sink(3)

    def drain(shared: Iterator[int]) -> list[int]:
        return list(shared)

    with builder.build(num_threads=4).auto_stop() as pipeline, ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(drain, [iter(pipeline)] * THREADS))
    assert sorted(chain(*parts)) == list(range(1, ITEMS + 1))


def test_a_pipeline_that_is_asked_and_changed_while_it_runs() -> None:
    builder = source(iter(int, 1)).pipe(lambda x: x + 1, concurrency=2, name="add").add_sink(3)
    with builder.build(num_threads=2).auto_stop() as pipeline:
        returned = hammer(
            lambda: pipeline.get_item(timeout=20),
            lambda: [stage.name for stage in pipeline.statistics().stages],
            lambda: pipeline.set_concurrency("add", 3),
            lambda: pipeline.set_concurrency("add", 1),
            pipeline.failures,
            lambda: repr(pipeline).split()[0],
        )
        completed = next(stage for stage in pipeline.statistics().stages if stage.name == "add").num_completed
    assert [len(values) for values in returned] == [THREADS * ROUNDS] * 6
    assert set(returned[0]) == {1}
    assert all(values == values[:1] * len(values) for values in returned[1:])
    assert completed >= THREADS * ROUNDS


def test_a_pipeline_that_all_stop_at_once() -> None:
    for _ in range(ROUNDS):
        pipeline = source(iter(int, 1)).pipe(lambda x: x + 1, concurrency=2).add_sink(3).build(num_threads=2)
        pipeline.start()

        def read_and_stop(number: int, pipeline: Pipeline[int] = pipeline) -> None:
            with suppress(EOFError):  # Another thread was quicker to stop.
                assert number % 2 == 0 or pipeline.get_item(timeout=20) == 1
            pipeline.stop()

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(read_and_stop, range(THREADS)))


def test_a_pool_with_a_priority_that_all_submit_to() -> None:
    with PriorityThreadPoolExecutor(4) as pool:
        executors = [pool.get_executor() for _ in range(3)]
        returned = hammer(*(lambda executor=executor: executor.submit(int, "7").result(20) for executor in executors))
    assert returned == [[7] * (THREADS * ROUNDS)] * 3

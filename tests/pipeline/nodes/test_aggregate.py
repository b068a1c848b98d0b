"""Test stages that gather items, and the stage that splits batches."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import PipelineFailure, TaskHook, build_pipeline
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Pairs(Aggregator[str, str]):
    held = ""

    def accumulate(self, item: str) -> str | None:
        self.held += item
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> str | None:
        held, self.held = self.held, ""
        return held or None


class Nothing(TaskHook):
    @contextlib.asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


class TestAggregates:
    @pytest.mark.parametrize(
        ("drop_last", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]
    )
    @pytest.mark.parametrize("before", [0, 1])
    def test_batches(self, before: int, *, drop_last: bool, expected: list[list[int]]) -> None:
        builder = source(range(7))
        for _ in range(before):
            builder.pipe(lambda x: x)
        assert run(builder.aggregate(3, drop_last=drop_last), num_threads=1) == expected

    def test_what_was_dropped_is_no_longer_in_flight(self) -> None:
        pipeline = source(range(7)).aggregate(3, drop_last=True).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 2
        assert pipeline.statistics().in_flight == 0

    def test_disaggregate(self) -> None:
        assert run(source(["ab", [1, None, 2], (), 5, {"k": 0}]).disaggregate()) == ["a", "b", 1, 2, "k"]

    def test_a_users_aggregator_decides(self) -> None:
        class UpTo(Aggregator[int, list[int]]):
            """An aggregator that gathers items until their sum reaches 10."""

            def __init__(self) -> None:
                self.held: list[int] = []

            def accumulate(self, item: int) -> list[int] | None:
                self.held.append(item)
                return self.flush() if sum(self.held) >= 10 else None

            def flush(self) -> list[int] | None:
                held, self.held = self.held, []
                return held or None

        assert run(source([5, 5, 11, 1, 2]).aggregate(UpTo())) == [[5, 5], [11], [1, 2]]
        assert run(source([5, 5, 1]).aggregate(UpTo(), drop_last=True)) == [[5, 5]]

    @pytest.mark.parametrize("hooks", [[], [Nothing()]], ids=["plain", "hooked"])
    @pytest.mark.parametrize("drop_last", [False, True])
    def test_what_is_left_at_the_end_does_not_get_into_the_next_pipeline(
        self, hooks: list[TaskHook], *, drop_last: bool
    ) -> None:
        config = source([*"abc"]).aggregate(Pairs(), drop_last=drop_last).add_sink().get_config()
        for _ in range(2):
            pipeline = build_pipeline(config, num_threads=1, task_hook_factory=lambda _: hooks)
            with pipeline.auto_stop():
                assert list(pipeline) == (["ab"] if drop_last else ["ab", "c"])
            assert pipeline.statistics().in_flight == 0

    @pytest.mark.parametrize(
        ("items", "op", "hooks"),
        # A stage that calls an op takes an item only when there is a place for its result.
        [("abcde", 2, []), ("abcd", Pairs(), []), ("abcd", 2, [Nothing()]), ("abcd", Pairs(), [Nothing()])],
    )
    def test_what_is_dropped_at_the_end_needs_no_place(self, items: str, op: Any, hooks: list[TaskHook]) -> None:
        builder = source([*items]).aggregate(op, drop_last=True).add_sink(1)
        with builder.build(num_threads=1, task_hook_factory=lambda _: hooks).auto_stop() as pipeline:
            # Nobody reads, so the results of the first four items take all places.
            assert wait_until(lambda: "(finished)" in repr(pipeline))
            assert pipeline.statistics().in_flight == 4
            assert len(list(pipeline)) == 2

    def test_what_flush_raises_fails_the_pipeline_though_its_result_would_be_dropped(self) -> None:
        class Broken(Pairs):
            def flush(self) -> str | None:
                raise OSError("the disk is full")

        with (
            source([*"a"]).aggregate(Broken(), drop_last=True).add_sink().build(num_threads=1).auto_stop() as pipeline,
            pytest.raises(PipelineFailure) as raised,
        ):
            list(pipeline)
        (error,) = raised.value.exceptions
        assert isinstance(error, OSError)

    @pytest.mark.parametrize("batches", [False, True])
    def test_items_in_hand_cost_few_bytes_of_the_pipelines(self, *, batches: bool) -> None:
        class Sum(Aggregator[int, int]):
            total = memory = 0

            def accumulate(self, item: int) -> None:
                self.total += item
                if item == 10_000:
                    gc.collect()
                    self.memory = tracemalloc.get_traced_memory()[0]
                elif item == 29_999:
                    # Later Pythons collect less often.
                    gc.collect()
                    self.memory = tracemalloc.get_traced_memory()[0] - self.memory

            def flush(self) -> int:
                return self.total

        op = Sum()
        builder = source(range(30_000))
        if batches:
            builder.aggregate(100).disaggregate()
        builder.aggregate(op)
        tracemalloc.start()
        try:
            with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
                assert list(pipeline) == [sum(range(30_000))]
        finally:
            tracemalloc.stop()
        # A position and its place in a set for each, and in a batch's list as well.
        assert op.memory < 20_000 * 250

    def test_the_positions_of_all_items_in_hand_are_in_flight(self) -> None:
        class Last(Aggregator[int, int]):
            last = 0

            def accumulate(self, item: int) -> None:
                self.last = item

            def flush(self) -> int:
                return self.last

        reached, more = threading.Event(), threading.Event()

        def items() -> Iterator[int]:
            yield from range(3_000)
            reached.set()
            assert more.wait(20)

        with source(items()).aggregate(Last()).add_sink().build(num_threads=1).auto_stop() as pipeline:
            assert reached.wait(20)
            assert wait_until(lambda: pipeline.statistics().stages[1].num_completed == 3_000)
            assert pipeline.statistics().in_flight == 3_000
            more.set()
            assert list(pipeline) == [2_999]
        assert pipeline.statistics().in_flight == 0

    def test_the_failure_of_an_item_made_of_items_made_of_items_is_reported_at_once(self) -> None:
        """Where it came from is found once, however many ways lead there: here they are 2 to the power of 40."""

        def fail(batch: list[int]) -> None:
            raise ValueError(f"{batch} is bad")

        builder = source(range(2))
        for _ in range(40):
            builder.aggregate(2).disaggregate()
        builder.aggregate(2).pipe(fail, max_failures=0, name="fail")
        with (
            pytest.raises(PipelineFailure) as caught,
            builder.add_sink().build(num_threads=1).auto_stop() as pipeline,
        ):
            list(pipeline.get_iterator(timeout=20))
        assert pipeline.failures()[0].positions == (0, 1)
        assert caught.value.exceptions[0].__notes__[0].endswith("source items 0, 1")

    def test_an_aggregator_is_called_from_one_thread_at_a_time(self) -> None:
        inside = threading.Lock()

        class Exclusive(Aggregator[int, int]):
            def accumulate(self, item: int) -> int:
                assert inside.acquire(blocking=False)
                time.sleep(0.0005)
                inside.release()
                return item

            def flush(self) -> None:
                return None

        builder = source(range(100)).pipe(lambda x: x, concurrency=4).aggregate(Exclusive())
        assert sorted(run(builder)) == list(range(100))

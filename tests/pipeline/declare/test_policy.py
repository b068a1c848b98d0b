"""Test how stages handle failures: limits and retries."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import fails_at, source

from spdl.pipeline import PipelineBuilder, PipelineFailure, TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def run(builder: PipelineBuilder[Any, Any], **kwargs: Any) -> list[Any]:
    with builder.add_sink(1000).build(num_threads=2, **kwargs).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20))


def failure_of(builder: PipelineBuilder[Any, Any], **kwargs: Any) -> tuple[list[Any], BaseException]:
    """Return the results that came before the failure, and the failure itself."""
    pipeline = builder.add_sink(1000).build(num_threads=2, **kwargs)
    got: list[Any] = []
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        got.extend(pipeline.get_iterator(timeout=20))
    (error,) = caught.value.exceptions
    return got, error


class TestLimits:
    @pytest.mark.parametrize("where", ["stage", "pipeline"])
    @pytest.mark.parametrize("limit", [0, 1, 2])
    def test_a_count(self, where: str, limit: int) -> None:
        def graph(**kwargs: Any) -> PipelineBuilder[Any, Any]:
            return source(range(1000)).pipe(fails_at(3, 5, 7), name="picky", **kwargs)

        stage = {"max_failures": limit} if where == "stage" else {}
        build = {"max_failures": limit} if where == "pipeline" else {}
        got, error = failure_of(graph(**stage), **build)
        assert got[: 3 + limit] == [0, 1, 2, 4, 6][: 3 + limit]
        assert len(got) < 10
        (note,) = error.__notes__
        where, _, item = note.removeprefix("Pipeline stage: ").partition(", ")
        assert where.endswith(":1:picky")
        assert item == f"source item {(3, 5, 7)[limit]}"
        message = f"The pipeline stage ({where}) failed {limit + 1} times, which exceeds the threshold ({limit})."
        assert str(error) == message
        assert str(error.__cause__) == f"{(3, 5, 7)[limit]} is bad"

    def test_a_count_that_is_not_exceeded(self) -> None:
        assert len(run(source(range(100)).pipe(fails_at(3, 5, 7), max_failures=3))) == 97
        assert len(run(source(range(100)).pipe(fails_at(3, 5, 7)), max_failures=3)) == 97
        assert len(run(source(range(100)).pipe(fails_at(*range(50))), max_failures=-1)) == 50

    def test_a_share_counts_from_the_hundredth_item(self) -> None:
        early = fails_at(*range(10))
        assert len(run(source(range(99)).pipe(early, max_failures=Fraction(1, 100)))) == 89
        again = fails_at(*range(10), 150)
        got, error = failure_of(source(range(1000)).pipe(again, max_failures=Fraction(1, 100), name="op"))
        message = " failed 11 times out of 151 invocations (7.3%), which exceeds the threshold (1.0%)."
        assert str(error).endswith(message)
        assert len(got) == 140
        assert len(run(source(range(1000)).pipe(again, max_failures=Fraction(1, 10)))) == 989

    @pytest.mark.parametrize("where", ["stage", "pipeline"])
    def test_a_share_is_looked_at_when_the_input_ends(self, where: str) -> None:
        stage: dict[str, Any] = {}
        build: dict[str, Any] = {}
        (stage if where == "stage" else build)["max_failures"] = Fraction(3, 20)
        # When the 20th fails, 99 were tried; the 100th succeeds, and nothing fails any more.
        graph = source(range(100)).pipe(fails_at(*range(79, 99)), name="op", **stage)
        got, error = failure_of(graph, **build)
        assert len(got) == 80
        assert str(error).endswith(
            "failed 20 times out of 100 invocations (20.0%), which exceeds the threshold (15.0%)."
        )
        assert ":op)" in str(error)
        assert len(run(source(range(100)).pipe(fails_at(*range(84, 99)), **stage), **build)) == 85

    def test_a_share_is_looked_at_when_an_epoch_ends(self) -> None:
        op = fails_at(*range(20))
        graph = source(range(60), continuous=True).pipe(op, max_failures=Fraction(1, 4), name="op")
        with graph.add_sink(200).build(num_threads=1).auto_stop() as pipeline:
            # 20 of 60 are too few to judge by, 40 of 120 are not.
            assert len(list(pipeline.get_iterator(timeout=20))) == 40
            with pytest.raises(PipelineFailure) as caught:
                list(pipeline.get_iterator(timeout=20))
        # The stage may have begun the third epoch by then.
        assert re.search(r":op\) failed \d\d times out of 1\d\d invocations", str(caught.value.exceptions[0]))

    def test_no_item_of_the_next_epoch_follows_when_an_epoch_fails(self) -> None:
        epochs = itertools.count()

        class Items:
            def __iter__(self) -> Iterator[tuple[int, int]]:
                epoch = next(epochs)
                return ((epoch, number) for number in range(120))

        def op(item: tuple[int, int]) -> tuple[int, int]:
            if item[1] < 40:
                raise ValueError(item)
            return item

        builder = source(Items(), continuous=True).pipe(op, max_failures=Fraction(1, 4), name="op")
        pipeline = builder.pipe(lambda item: item, name="after").add_sink(300).build(num_threads=2)
        got: list[tuple[int, int]] = []
        with pytest.raises(PipelineFailure), pipeline.auto_stop():
            got += pipeline.get_iterator(timeout=20)
        assert {epoch for epoch, _ in got} <= {0}

    @pytest.mark.parametrize("last", ["function", "coroutine"])
    def test_an_epoch_that_fails_does_not_wait_for_the_source(self, last: str) -> None:
        blocked = threading.Event()
        passes = itertools.count()

        class Items:
            def __iter__(self) -> Iterator[int]:
                if next(passes):
                    assert blocked.wait(20)
                return iter(range(120))

        async def coroutine(item: int) -> int:
            return item

        builder = source(Items(), continuous=True).pipe(fails_at(*range(10)), max_failures=Fraction(1, 20))
        builder = builder.pipe(coroutine if last == "coroutine" else lambda item: item)
        # The share is no more than 1/20 whenever one fails: fewer than 100 were tried.
        with builder.add_sink(300).build(num_threads=2).auto_stop() as pipeline:
            with pytest.raises(PipelineFailure):
                list(pipeline.get_iterator(timeout=10))
            blocked.set()

    def test_the_stage_with_most_failures_is_named(self) -> None:
        graph = source(range(100)).pipe(fails_at(98), name="some").pipe(fails_at(*range(80, 97)), name="most")
        _, error = failure_of(graph, max_failures=Fraction(1, 20))
        assert ":most)" in str(error)

    def test_a_stage_with_its_own_limit_does_not_count_for_the_pipelines(self) -> None:
        graph = source(range(100)).pipe(fails_at(*range(20)), max_failures=50).pipe(fails_at(30, 40))
        assert len(run(graph, max_failures=2)) == 78
        graph = source(range(100)).pipe(fails_at(*range(20)), max_failures=50).pipe(fails_at(30, 40, 50))
        failure_of(graph, max_failures=2)

    @pytest.mark.parametrize("limit", [Fraction(0), Fraction(3, 2), Fraction(-1, 2)])
    def test_shares_out_of_range(self, limit: Fraction) -> None:
        with pytest.raises(ValueError, match=r"`max_failures` must be .*Fraction above 0 and at most 1"):
            source([]).pipe(len, max_failures=limit)

    @pytest.mark.parametrize("limit", [0.5, True, "1", None])
    def test_other_types(self, limit: Any) -> None:
        with pytest.raises(TypeError, match="`max_failures` must be an int"):
            source([]).add_sink(1).build(num_threads=1, max_failures=limit)

    @pytest.mark.parametrize("executor_free", [True, False])
    def test_a_pipeline_of_which_every_item_failed(self, *, executor_free: bool) -> None:
        op: Any = fails_at(*range(10)) if executor_free else _fails_async
        _, error = failure_of(source(range(10)).pipe(op, name="op"))
        assert "all 10 items failed, the last one in stage 'op': ValueError:" in str(error)

    @pytest.mark.filterwarnings("ignore:The source of the pipeline")
    def test_nothing_failed_or_something_was_dropped_is_no_failure(self) -> None:
        assert run(source([])) == []
        assert run(source([]).pipe(len)) == []
        with pytest.warns(RuntimeWarning, match="Nothing came out of the pipeline"):
            assert run(source([1, 2]).pipe(lambda x: None if x == 1 else 1 // 0)) == []


async def _fails_async(x: int) -> int:
    raise ValueError(f"{x} is bad")


class Flaky:
    """An op that fails the first `times` attempts on each item."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.attempts: Counter[int] = Counter()

    def __call__(self, x: int) -> int:
        self.attempts[x] += 1
        if self.attempts[x] <= self.times:
            raise OSError("try again")
        return x


class TestRetries:
    @pytest.mark.parametrize("order", ["completion", "input"])
    def test_an_item_is_tried_again(self, order: Any) -> None:
        op = Flaky(2)
        graph = source(range(20)).pipe(op, retries=2, retry_delay=0.001, concurrency=3, output_order=order)
        pipeline = graph.add_sink(3).build(num_threads=2)
        with pipeline.auto_stop():
            got = list(pipeline.get_iterator(timeout=20))
        assert sorted(got) == list(range(20))
        assert order == "completion" or got == sorted(got)
        assert set(op.attempts.values()) == {3}
        stage = pipeline.statistics().stages[1]
        assert (stage.num_retried, stage.num_failed, stage.num_completed) == (40, 0, 20)
        assert pipeline.failures() == []

    def test_an_async_op_is_tried_again(self) -> None:
        flaky = Flaky(1)

        async def op(x: int) -> int:
            return flaky(x)

        assert sorted(run(source(range(20)).pipe(op, retries=1, retry_delay=0.001, concurrency=4))) == list(range(20))

    def test_after_the_last_retry_it_is_given_up(self) -> None:
        op = Flaky(3)
        pipeline = source([5, 6]).pipe(op, retries=2, retry_delay=0).pipe(str).add_sink(3).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        pipeline.stop()
        assert op.attempts == {5: 3, 6: 3}
        assert [item.attempts for item in pipeline.failures()] == [3, 3]

    def test_what_waits_for_its_retry_occupies_no_thread(self) -> None:
        blocked = threading.Event()

        def op(x: int) -> int:
            if x == 0 and not blocked.is_set():
                raise OSError("not yet")
            if x == 5:
                blocked.set()
            return x

        got = run(source(range(10)).pipe(op, retries=20, retry_delay=0.0005, concurrency=2).pipe(lambda x: x))
        assert sorted(got) == list(range(10))

    def test_waits_double(self) -> None:
        times: list[float] = []

        def op(x: int) -> int:
            times.append(time.monotonic())
            raise OSError("never")

        failure_of(source([1]).pipe(op, retries=3, retry_delay=0.02))
        gaps = [after - before for before, after in pairwise(times)]
        assert all(gap >= wait for gap, wait in zip(gaps, (0.02, 0.04, 0.08), strict=True))

    def test_stop_does_not_wait_for_retries(self) -> None:
        pipeline = source(range(10)).pipe(Flaky(9), retries=9, retry_delay=60).add_sink(1).build(num_threads=1)
        begin = time.monotonic()
        with pipeline.auto_stop(), pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0.1)
        assert time.monotonic() - begin < 10

    def test_a_generator_that_has_begun_is_not_tried_again(self) -> None:
        calls: list[int] = []

        def op(x: int) -> Iterator[int]:
            calls.append(x)
            yield x
            raise OSError("half-way")

        assert run(source([1, 2]).pipe(op, retries=3, retry_delay=0)) == [1, 2]
        assert calls == [1, 2]

    @pytest.mark.parametrize("kind", ["generator", "generator with hooks", "async generator"])
    def test_a_generator_that_fails_was_tried_once(self, kind: str) -> None:
        def op(x: int) -> Iterator[int]:
            yield x
            raise OSError("half-way")

        async def op_async(x: int) -> AsyncIterator[int]:
            yield x
            raise OSError("half-way")

        class Hook(TaskHook):
            @asynccontextmanager
            async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
                yield

        hooks = None if kind != "generator with hooks" else lambda _: [Hook()]
        builder = source([1, 2]).pipe(op_async if kind == "async generator" else op, retries=3, retry_delay=0)
        pipeline = builder.add_sink(3).build(num_threads=1, task_hook_factory=hooks)
        with pipeline.auto_stop():
            assert list(pipeline) == [1, 2]
        assert [failed.attempts for failed in pipeline.failures()] == [1, 1]

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"retries": -1}, ValueError),
            ({"retries": 1.0}, TypeError),
            ({"retries": True}, TypeError),
            ({"retry_delay": -0.1}, ValueError),
            ({"retry_delay": float("inf")}, ValueError),
            ({"retry_delay": float("nan")}, ValueError),
            ({"retry_delay": "1"}, TypeError),
            ({"on_failure": 3}, TypeError),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], error: type[Exception]) -> None:
        (name,) = arguments
        with pytest.raises(error, match=f"`{name}` must be"):
            source([]).pipe(len, **arguments)


class TestToldAtOnce:
    """The consumer is told of a failure at once, whatever still runs or waits in the stages that were given up."""

    @pytest.mark.parametrize("where", ["beside", "upstream"])
    def test_an_op_that_does_not_return(self, where: str) -> None:
        release = threading.Event()
        blocked = threading.Event()

        def block_on_zero(x: int) -> int:
            if x == 0:
                blocked.set()
                release.wait(30)
            return x

        def fail_on_one(x: int) -> int:
            if x == 1:
                blocked.wait(20)
                raise KeyboardInterrupt
            return x

        if where == "beside":
            builder = source(range(9)).pipe(lambda x: fail_on_one(block_on_zero(x)), concurrency=2)
        else:
            builder = source(range(9)).pipe(block_on_zero, concurrency=2).pipe(fail_on_one)
        pipeline = builder.add_sink(9).build(num_threads=3)
        begin = time.monotonic()
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        assert time.monotonic() - begin < 10
        release.set()
        pipeline.stop()

    def test_an_item_that_rests_until_its_retry(self) -> None:
        def op(x: int) -> int:
            if x == 0:
                raise ValueError
            if x == 5:
                raise KeyboardInterrupt
            return x

        pipeline = source(range(9)).pipe(op, concurrency=3, retries=1, retry_delay=25).add_sink(9).build(num_threads=2)
        begin = time.monotonic()
        with pytest.raises(PipelineFailure):
            list(pipeline.get_iterator(timeout=20))
        assert time.monotonic() - begin < 10
        pipeline.stop()

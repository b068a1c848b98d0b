"""What fails in a worker is told as if it had failed here."""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import FailedItem

TWO = ProcessPoolExecutorConfig(2)
ONE = ProcessPoolExecutorConfig(1)


def region(op: Callable[[Any], Any], items: Any = range(30), workers: Any = TWO, **options: Any) -> Any:
    return PipelineBuilder().add_source(items).to(workers).pipe(op, **options).to(MAIN_PROCESS).add_sink()


def failure_of(builder: Any, **options: Any) -> list[BaseException]:
    with pytest.raises(PipelineFailure) as caught, builder.build(num_threads=2, **options).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))
    return list(caught.value.exceptions)


def test_failed_items_are_dropped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[FailedItem] = []
    builder = region(ops.fail_on_fives, name="look up", on_failure=told.append)
    with builder.build(num_threads=2).auto_stop() as pipeline:
        assert sorted(pipeline) == [x for x in range(30) if x % 5]
        failures = pipeline.failures()
        statistics = pipeline.statistics()
    assert sorted(failure.positions for failure in failures) == [(x,) for x in range(0, 30, 5)]
    assert {failure.stage for failure in failures} == {"look up"}
    assert sorted(int(failure.item) for failure in failures) == list(range(0, 30, 5))
    first = next(failure for failure in failures if failure.item == "10")
    assert first.error == "LookupError: no 10 here"
    assert first.origin == "source item 10"
    assert "fail_on_fives" in first.traceback
    assert first.attempts == 1
    assert sorted(told, key=lambda failure: failure.positions) == sorted(failures, key=lambda it: it.positions)
    assert (statistics.stages[1].num_failed, statistics.stages[1].num_completed) == (6, 24)
    assert any("'look up' failed on source item 10" in record.getMessage() for record in caplog.records)


def test_the_limit_of_the_build_counts_all_workers() -> None:
    (error,) = failure_of(region(ops.fail_on_fives, range(1000)), max_failures=3)
    assert "failed 4 times, which exceeds the threshold (3)" in str(error)
    assert isinstance(error.__cause__, LookupError)
    assert any("fail_on_fives" in note for note in error.__notes__)


def test_the_limit_of_a_stage_counts_all_workers() -> None:
    (error,) = failure_of(region(ops.fail_on_fives, range(1000), max_failures=2))
    assert "failed 3 times" in str(error)


def test_a_share_of_failures() -> None:
    (error,) = failure_of(region(ops.fail_on_fives, range(2000), max_failures=Fraction(1, 10)))
    assert "%" in str(error)
    with (
        region(ops.fail_on_fives, range(500), max_failures=Fraction(1, 4)).build(num_threads=1).auto_stop() as pipeline
    ):
        assert len(list(pipeline)) == 400


def test_a_run_of_which_all_items_failed() -> None:
    (error,) = failure_of(region(ops.fail_on_fives, [5, 10, 15]))
    assert "all 3 items failed" in str(error)
    assert "LookupError" in str(error)


def test_an_exception_that_cannot_be_unpickled() -> None:
    (error,) = failure_of(region(ops.raise_stubborn, [1, 2], max_failures=0))
    assert "Stubborn: 1 and 1" in str(error.__cause__) or "Stubborn: 2 and 2" in str(error.__cause__)


def test_retries_in_a_worker() -> None:
    with region(ops.FailTwice(), range(5), ONE, retries=2, retry_delay=0).build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline) == list(range(5))
        assert pipeline.failures() == []
        assert pipeline.statistics().stages[1].num_retried == 10


def test_attempts_are_told() -> None:
    builder = region(ops.fail_on_fives, range(1, 9), retries=2, retry_delay=0)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        list(pipeline)
        (failed,) = pipeline.failures()
    assert failed.attempts == 3


def test_timeouts_in_a_worker() -> None:
    builder = region(ops.long_nap, [1, 2], timeout=0.1, on_timeout="drop", concurrency=2)
    (error,) = failure_of(builder)
    assert "all 2 items failed" in str(error)
    assert "took more than 0.1 seconds" in str(error)


def test_an_aggregator_that_fails() -> None:
    builder = PipelineBuilder().add_source(range(9)).to(ONE).aggregate(ops.BadAggregator()).to(MAIN_PROCESS).add_sink()
    (error,) = failure_of(builder)
    assert isinstance(error, ArithmeticError)
    assert "bad_aggregator" in str(error.__cause__).lower() or "accumulate" in str(error.__cause__)


def test_system_exit_in_an_op() -> None:
    (error,) = failure_of(region(ops.system_exit))
    assert "SystemExit" in str(error)


def test_an_initializer_that_fails() -> None:
    workers = ProcessPoolExecutorConfig(1, initializer=ops.refuse_to_begin)
    (error,) = failure_of(region(ops.same, workers=workers))
    assert isinstance(error, PermissionError)


def test_items_that_cannot_be_pickled() -> None:
    builder = PipelineBuilder().add_source(range(9)).pipe(ops.lock_of_threes, name="make").to(TWO).pipe(ops.same)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline) == [1, 2, 4, 5, 7, 8]
        failures = pipeline.failures()
    assert sorted(failure.positions for failure in failures) == [(0,), (3,), (6,)]
    assert all("could not be pickled" in failure.error for failure in failures)
    assert all("lock" in failure.error and "region(same)" in failure.error for failure in failures)
    assert len({failure.stage for failure in failures}) == 1


def test_results_that_cannot_be_pickled() -> None:
    with region(ops.lock_of_threes, range(9)).build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline) == [1, 2, 4, 5, 7, 8]
        failures = pipeline.failures()
    assert sorted(failure.positions for failure in failures) == [(0,), (3,), (6,)]
    assert all("could not be pickled to leave the worker" in failure.error for failure in failures)


def test_results_that_cannot_be_unpickled() -> None:
    with region(ops.unreadable_fours, range(9)).build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline) == [1, 2, 3, 5, 6, 7]
        failures = pipeline.failures()
    assert sorted(failure.positions for failure in failures) == [(0,), (4,), (8,)]
    assert all("4 cannot be read" in it.error or "cannot be read" in it.error for it in failures)


def test_items_that_cannot_be_unpickled() -> None:
    builder = PipelineBuilder().add_source(range(9)).pipe(ops.unreadable_fours).to(TWO).pipe(ops.same).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline) == [1, 2, 3, 5, 6, 7]
        assert sorted(failure.positions for failure in pipeline.failures()) == [(0,), (4,), (8,)]
        assert pipeline.statistics().in_flight == 0


@pytest.mark.parametrize("bad", [[0, 1], [0, 2], list(range(1, 30, 2)), list(range(40))])
def test_items_that_cannot_be_unpickled_keep_no_place_in_the_worker(bad: list[int]) -> None:
    items = [ops.Unreadable(x) if x in bad else x for x in range(40)]
    builder = PipelineBuilder().add_source(items).to(ONE).pipe(ops.same).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        good = [x for x in range(40) if x not in bad]
        with nullcontext() if good else pytest.raises(PipelineFailure):
            assert list(pipeline.get_iterator(timeout=60)) == good
        assert sorted(failure.positions for failure in pipeline.failures()) == [(x,) for x in bad]


def test_an_op_that_cannot_be_pickled() -> None:
    pipeline = region(lambda x: x, name="inline").build(num_threads=1)
    with pytest.raises(TypeError, match="Stage 'inline': the op cannot be sent to the workers of region"):
        pipeline.start()
    pipeline.stop()


def test_an_unpicklable_factory_of_hooks() -> None:
    pipeline = region(ops.same).build(num_threads=1, task_hook_factory=lambda _: [])
    with pytest.raises(TypeError, match="factory of hooks"):
        pipeline.start()


def test_failures_upstream_let_the_region_finish() -> None:
    def source() -> Any:
        yield from range(20)
        raise OSError("the disk is gone")

    items: list[int] = []
    builder = PipelineBuilder().add_source(source()).to(TWO).pipe(ops.same).to(MAIN_PROCESS).add_sink()
    with pytest.raises(PipelineFailure) as caught, builder.build(num_threads=1).auto_stop() as pipeline:
        items.extend(pipeline)
    assert sorted(items) == list(range(20))
    assert isinstance(caught.value.exceptions[0], OSError)

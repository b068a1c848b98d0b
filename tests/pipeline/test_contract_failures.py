"""Test how a failed pipeline reports it: the exception, where and how often it is raised, and its message."""

from __future__ import annotations

import copy
import logging
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import build, fails_at, source, wait_until

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, StageInfo, build_pipeline
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
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def numbers_then_failure(size: int = 3) -> Iterator[int]:
    yield from range(size)
    raise OSError("the disk is on fire")


def failure_of(pipeline: Pipeline[Any]) -> PipelineFailure:
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=20))
    pipeline.stop()
    return caught.value


class TestMessages:
    def test_a_count(self) -> None:
        pipeline = build(range(100), fails_at(3, 5, 7), name="decode", concurrency=4, max_failures=2)
        (error,) = failure_of(pipeline).exceptions
        assert type(error) is RuntimeError
        (note,) = error.__notes__
        where = note.removeprefix("Pipeline stage: ").partition(",")[0]
        number, _, stage = where.partition(":")
        assert number.isdigit()
        assert stage == "1:decode[4]"
        assert str(error) == f"The pipeline stage ({where}) failed 3 times, which exceeds the threshold (2)."
        assert isinstance(error.__cause__, ValueError)
        # Any of the three may be the one that exceeds the limit.
        assert str(error.__cause__) in ("3 is bad", "5 is bad", "7 is bad")

    def test_a_share(self) -> None:
        builder = source(range(300)).pipe(fails_at(*range(0, 300, 2)), name="op").add_sink(300)
        pipeline = builder.build(num_threads=1, max_failures=Fraction(1, 4))
        (error,) = failure_of(pipeline).exceptions
        expected = "failed 50 times out of 100 invocations (50.0%), which exceeds the threshold (25.0%)."
        # It may be the failure of the 99th or of the 101st item that exceeds the limit.
        assert str(error).endswith(expected) or "failed 51 times out of 101 invocations (50.5%)" in str(error)

    def test_a_share_that_is_met_exactly_is_borne(self) -> None:
        builder = source(range(300)).pipe(fails_at(*range(1, 300, 2)), name="op").add_sink(300)
        with builder.build(num_threads=1, max_failures=Fraction(1, 2)).auto_stop() as pipeline:
            assert len(list(pipeline.get_iterator(timeout=20))) == 150

    def test_the_pipelines_limit_counts_all_stages(self) -> None:
        graph = source(range(100)).pipe(fails_at(1, 2), name="first").pipe(fails_at(5, 6), name="second").add_sink(100)
        with graph.build(num_threads=1, max_failures=4).auto_stop() as pipeline:
            assert len(list(pipeline.get_iterator(timeout=20))) == 96
        (error,) = failure_of(graph.build(num_threads=1, max_failures=3)).exceptions
        assert "second" in str(error)
        assert str(error).endswith("failed 4 times, which exceeds the threshold (3).")

    @pytest.mark.parametrize("limit", [-1, -5])
    def test_a_negative_number_is_no_limit(self, limit: int) -> None:
        for own in (limit, None):
            builder = source(range(200)).pipe(fails_at(*range(199)), max_failures=own).add_sink(3)
            with builder.build(num_threads=1, max_failures=limit).auto_stop() as pipeline:
                assert list(pipeline.get_iterator(timeout=20)) == [199]

    def test_a_stages_own_limit_stands_in_for_the_pipelines(self) -> None:
        builder = source(range(10)).pipe(fails_at(1, 2, 3), max_failures=-1).add_sink(3)
        with builder.build(num_threads=1, max_failures=0).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 4, 5, 6, 7, 8, 9]


class Failing(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        raise KeyError(item)

    def flush(self) -> Any:
        raise AssertionError("Nothing was gathered.")


class TestStageNumbers:
    """Stages are numbered depth first: a merge before its branches; a fork's router, then its paths and their merge."""

    def graph(self, **ops: Any) -> PipelineConfig[Any]:
        def op(name: str) -> Any:
            return Pipe(ops.get(name, lambda x: x), name=name, max_failures=0)

        first = PipelineConfig(SourceConfig([1]), [op("a")], SinkConfig(2))
        second = PipelineConfig(SourceConfig(ops.get("src[1]", [1])), [op("b")], SinkConfig(2))
        router = ops.get("fork", lambda _: 0)
        paths = [[op("p0"), ops.get("gather", Aggregate(1))], [Disaggregate(), op("p1")]]
        fork = PathVariants(router, paths, name="fork")
        return PipelineConfig(Merge([first, second]), [op("c"), fork, op("d")], SinkConfig(2))

    @pytest.mark.parametrize(
        ("number", "stage", "change"),
        [
            (2, "a", {"a": fails_at(1)}),
            (3, "src[1]", {"src[1]": numbers_then_failure(0)}),
            (4, "b", {"b": fails_at(1)}),
            (5, "c", {"c": fails_at(1)}),
            (6, "fork", {"fork": lambda _: 2}),
            (7, "p0", {"p0": fails_at(1)}),
            (8, "aggregate(op=Failing, drop_last=False)", {"gather": Aggregate(Failing())}),
            (10, "p1", {"p1": fails_at(1), "fork": lambda _: 1, "c": lambda x: [x]}),
            (12, "d", {"d": lambda _: fails_at(1)(1)}),
        ],
    )
    def test_notes_name_the_stage(self, number: int, stage: str, change: dict[str, Any]) -> None:
        for offset in (0, 7):
            config = self.graph(**change)
            if stage == "src[1]" and offset:
                config = self.graph(**{stage: numbers_then_failure(0)})
            failure = failure_of(build_pipeline(config, num_threads=1, stage_id=offset))
            (note,) = failure.exceptions[0].__notes__
            assert f":{number + offset}:{stage}" in note

    def test_pipelines_are_counted(self) -> None:
        def number() -> int:
            pipeline = build(numbers_then_failure(0))
            (note,) = failure_of(pipeline).exceptions[0].__notes__
            return int(note.removeprefix("Pipeline stage: ").removesuffix(":0:src"))

        first = number()
        assert [number(), number()] == [first + 1, first + 2]

    def test_in_words(self) -> None:
        assert str(StageInfo(3, "1", "decode")) == "3:1:decode"
        assert str(StageInfo(3, "1", "decode", 4)) == "3:1:decode[4]"
        assert StageInfo(3, "1", "decode") == StageInfo(3, "1", "decode", None)
        assert len({StageInfo(3, "1", "decode"), StageInfo(3, "1", "decode")}) == 1


class TestReading:
    def test_what_was_finished_comes_first_and_the_failure_stays(self) -> None:
        pipeline = build(numbers_then_failure(), sink=10)
        iterator = pipeline.get_iterator(timeout=20)
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        told = []
        reads: list[Callable[[], Any]] = [
            lambda: next(iterator),
            lambda: next(iterator),
            lambda: pipeline.get_item(timeout=20),
            lambda: pipeline.get_item(timeout=0),
            lambda: next(iter(pipeline)),
        ]
        for read in reads:
            with pytest.raises(PipelineFailure) as caught:
                read()
            told.append([repr(error) for error in caught.value.exceptions])
        assert told == [["OSError('the disk is on fire')"]] * 5
        # The failure was reported, so `stop` does not raise it again.
        pipeline.stop()
        with pytest.raises(PipelineFailure):
            pipeline.get_item()

    @pytest.mark.parametrize("read_after", [False, True])
    def test_stop_tells_at_most_once_what_nobody_was_told(self, *, read_after: bool) -> None:
        pipeline = build(numbers_then_failure(), sink=10)
        pipeline.start()
        assert wait_until(lambda: "failed" in str(pipeline))
        with pytest.raises(PipelineFailure):
            pipeline.stop()
        pipeline.stop()
        if read_after:
            assert [pipeline.get_item() for _ in range(3)] == [0, 1, 2]
            with pytest.raises(PipelineFailure):
                pipeline.get_item()
        pipeline.stop()

    def test_auto_stop_tells_it_too(self) -> None:
        pipeline = build(numbers_then_failure(), sink=10)
        with pytest.raises(PipelineFailure), pipeline.auto_stop():
            assert wait_until(lambda: "failed" in str(pipeline))

    def test_auto_stop_lets_what_the_loop_raised_through(self) -> None:
        pipeline = build(numbers_then_failure(), sink=10)
        with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
            list(pipeline.get_iterator(timeout=20))
        assert caught.value.__context__ is None or not isinstance(caught.value.__context__, PipelineFailure)

    def test_an_end_stays_an_end(self) -> None:
        pipeline = build([1])
        with pipeline.auto_stop():
            iterator = iter(pipeline)
            assert list(iterator) == [1]
            assert list(iterator) == []
            for timeout in (None, 0, 5):
                with pytest.raises(EOFError, match="no more items"):
                    pipeline.get_item(timeout=timeout)
        with pytest.raises(EOFError):
            pipeline.get_item()

    def test_the_end_of_an_epoch_is_told_once(self) -> None:
        with build_continuous([1, 2]).auto_stop() as pipeline:
            for _ in range(3):
                assert [pipeline.get_item(timeout=20), pipeline.get_item(timeout=20)] == [1, 2]
                with pytest.raises(EOFError, match="epoch has ended"):
                    pipeline.get_item(timeout=20)
            iterator = pipeline.get_iterator(timeout=20)
            assert list(iterator) == [1, 2]
            assert list(iterator) == []
            assert pipeline.get_item(timeout=20) == 1

    def test_a_timeout_does_not_end_an_iterator(self) -> None:
        opened: list[int] = []
        pipeline = build([1, 2], lambda x: x if wait_until(lambda: opened, 20) else None)
        with pipeline.auto_stop():
            iterator = pipeline.get_iterator(timeout=0.01)
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    next(iterator)
            opened.append(1)
            assert list(pipeline.get_iterator(timeout=20)) == [1, 2]


def build_continuous(items: Any) -> Pipeline[Any]:
    return PipelineBuilder[Any, Any]().add_source(items, continuous=True).add_sink(2).build(num_threads=1)


class TestPipelineFailure:
    def test_except_star(self) -> None:
        seen: list[str] = []
        try:
            list(build(numbers_then_failure()).get_iterator(timeout=20))
        except* OSError as group:
            seen += map(str, group.exceptions)
        assert seen == ["the disk is on fire"]

    def test_it_is_an_exception_group(self) -> None:
        failure = PipelineFailure([("b", ValueError(2)), ("a", KeyError(1)), ("c", KeyboardInterrupt())])
        assert isinstance(failure, ExceptionGroup)
        assert [type(error) for error in failure.exceptions] == [KeyError, ValueError, RuntimeError]
        assert str(failure) == "pipeline stages failed (3 sub-exceptions)"
        assert failure.message == "pipeline stages failed"
        assert isinstance(failure.exceptions[2].__cause__, KeyboardInterrupt)
        matching, rest = failure.split(KeyError)
        assert isinstance(matching, PipelineFailure)
        assert isinstance(rest, PipelineFailure)
        assert len(rest.exceptions) == 2
        with pytest.raises(ValueError, match="non-empty"):
            PipelineFailure([])

    @pytest.mark.parametrize("copied", [lambda failure: pickle.loads(pickle.dumps(failure)), copy.copy, copy.deepcopy])  # noqa: S301
    def test_it_can_be_copied(self, copied: Any) -> None:
        pipeline = build(range(10), fails_at(3), max_failures=0, name="decode")
        failure = failure_of(pipeline)
        failure.add_note("in epoch 7")
        again = copied(failure)
        assert type(again) is PipelineFailure
        assert str(again) == str(failure)
        assert again.__notes__ == ["in epoch 7"]
        assert [repr(error) for error in again.exceptions] == [repr(error) for error in failure.exceptions]
        assert again.exceptions[0].__notes__ == failure.exceptions[0].__notes__

    def test_several_failed_stages_are_sorted_by_name(self) -> None:
        first, second = (
            PipelineConfig(SourceConfig(numbers_then_failure()), [Pipe(str, name=name)], SinkConfig(1)) for name in "ba"
        )
        failure = failure_of(build_pipeline(PipelineConfig(Merge([first, second]), [], SinkConfig(9)), num_threads=1))
        notes = [error.__notes__[0] for error in failure.exceptions]
        assert notes == sorted(notes, key=lambda note: note.rpartition(":")[2])


def test_upstream_of_a_failed_stage_is_dropped_and_downstream_finishes() -> None:
    done: list[int] = []

    def slow(x: int) -> int:
        wait_until(lambda: "failed" in str(pipeline), 0.1)
        done.append(x)
        return x

    builder = source(range(1000)).pipe(fails_at(3), max_failures=0).pipe(slow).add_sink(10)
    pipeline = builder.build(num_threads=3)
    got: list[int] = []
    with pytest.raises(PipelineFailure):
        got.extend(pipeline.get_iterator(timeout=20))
    pipeline.stop()
    assert got == done == [0, 1, 2]
    assert pipeline.statistics().stages[0].num_emitted < 20


def test_state_and_declaration_in_words() -> None:
    pipeline = build(range(100), abs, name="measure")
    words = []
    words.append(str(pipeline).splitlines()[0])
    pipeline.start()
    words.append(str(pipeline).splitlines()[0])
    pipeline.stop()
    words.append(str(pipeline).splitlines()[0])
    assert [word.partition("(")[2] for word in words] == ["built)", "running)", "stopped)"]
    assert "  measure(concurrency=1, op=abs)" in str(pipeline).splitlines()
    with build([1]).auto_stop() as finished:
        assert list(finished) == [1]
        assert wait_until(lambda: "(finished)" in str(finished))


def test_start_takes_what_the_reference_takes() -> None:
    pipeline = build([1])
    with pytest.warns(UserWarning, match="`daemon` has no effect") as caught:
        pipeline.start(timeout=0, daemon=True)
    assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="already started"):
        pipeline.start()
    assert pipeline.get_item(timeout=10) == 1
    pipeline.stop()
    with pytest.raises(RuntimeError, match="already started"):
        pipeline.start()
    never = build([1])
    never.stop()
    never.stop(timeout=0)
    never.start()
    assert never.get_item(timeout=10) == 1
    never.stop()

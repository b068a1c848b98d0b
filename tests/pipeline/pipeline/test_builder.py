"""Test declarations of pipelines: accepted arguments, error messages, and descriptions."""

from __future__ import annotations

import dataclasses
import functools
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import PipelineBuilder, is_eof
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Collate,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


async def coroutine(x: int) -> int:
    return x


def declared(x: int) -> int:
    return x


HERE = __file__


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (
            lambda b: b.add_source(3),
            ValueError,
            "`source` must be an iterable .*, not text, got 3",
        ),
        (lambda b: b.add_source("photos"), ValueError, r"not text, got 'photos' .*Pass `\[item\]` .*rglob"),
        (lambda b: b.add_source(Path("photos")), ValueError, r"not text, got PosixPath.*Pass `\[item\]` .*rglob"),
        (lambda b: b.add_source([]).add_source([]), ValueError, "already has a source"),
        (lambda b: b.pipe(3), TypeError, "`op` must be callable or have `__getitem__`, not text, got 3"),
        (lambda b: b.pipe(len, concurrency=0), ValueError, "`concurrency` must be an int of at least 1, got 0"),
        (lambda b: b.pipe(len, concurrency=1.5), TypeError, "`concurrency` must be an int of at least 1, got 1.5"),
        (lambda b: b.pipe(len, concurrency=True), TypeError, "`concurrency` must be an int"),
        (lambda b: b.pipe(len, output_order="random"), ValueError, r"`output_order` must be one of .*got 'random'"),
        (lambda b: b.pipe(len, executor=4), TypeError, "`executor` must be .*Executor or None, got 4"),
        (lambda b: b.aggregate(0), ValueError, "`input` must be an int of at least 1 or an Aggregator, got 0"),
        (lambda b: b.aggregate(bool(1)), TypeError, "`input` must be an int of at least 1 or an Aggregator, got True"),
        (lambda b: b.aggregate("3"), TypeError, "`input` must be an int of at least 1 or an Aggregator, got '3'"),
        (lambda b: b.add_sink(0), ValueError, "`buffer_size` must be an int of at least 1, got 0"),
        (lambda b: b.add_sink("3"), ValueError, "`buffer_size` must be an int of at least 1, got '3'"),
        (lambda b: b.add_sink(1).add_sink(1), ValueError, "already has a sink"),
        (lambda b: b.add_sink(1).build(num_threads=1), RuntimeError, "no source"),
        (lambda b: b.add_source([]).build(num_threads=1), RuntimeError, "no sink"),
        (lambda b: b.add_source([]).add_sink(1).build(num_threads=0), ValueError, "`num_threads` must be .* got 0"),
    ],
)
def test_mistakes_are_named_with_the_users_line(declare: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        declare(PipelineBuilder[Any, Any]())
    assert f"({HERE}:" in str(caught.value)


def test_an_async_op_takes_no_executor() -> None:
    message = r"`executor` must be None for an async op, .* stage 'coroutine' is async"
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=message):
        PipelineBuilder[Any, Any]().add_source([]).pipe(coroutine, executor=executor)


def test_names() -> None:
    class Op:
        def __call__(self, x: int) -> int:
            return x

    assert Pipe(len).name == "len"
    assert Pipe(functools.partial(functools.partial(max, 1), 2)).name == "max"
    assert Pipe(Op()).name == "Op"
    assert Pipe({1: 2}).name == "__getitem__"
    assert Pipe(len, name="length").name == "length"


def test_a_callable_wins_over_getitem() -> None:
    class Both:
        def __call__(self, x: int) -> str:
            return "called"

        def __getitem__(self, x: int) -> str:
            return "subscripted"

    builder = PipelineBuilder[Any, Any]().add_source([0]).pipe(Both()).add_sink(1)
    with builder.build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline) == ["called"]


def test_the_declaration_reads_like_the_pipeline() -> None:
    config = (
        PipelineBuilder[Any, Any]()
        .add_source([1])
        .pipe(declared, concurrency=3, output_order="input", name="decode")
        .aggregate(4, drop_last=True)
        .disaggregate()
        .add_sink(7)
        .get_config()
    )
    assert isinstance(config, PipelineConfig)
    lines = repr(config).splitlines()
    assert lines[1].startswith("  source(list at 0x")
    assert lines[2].startswith("  decode(concurrency=3, output_order='input', op=declared at ")
    assert lines[3:] == ["  aggregate(op=collate(4), drop_last=True)", "  disaggregate", "  sink(buffer_size=7)"]


def test_a_declaration_can_be_built_twice() -> None:
    builder = PipelineBuilder[Any, Any]().add_source(range(5)).aggregate(2).add_sink(3)
    for _ in range(2):
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline) == [[0, 1], [2, 3], [4]]


def test_collate_on_its_own() -> None:
    op: Aggregator[int, list[int]] = Collate(2)
    assert op.accumulate(1) is None
    assert op.accumulate(2) == [1, 2]
    assert op.flush() is None
    assert op.accumulate(3) is None
    assert op.flush() == [3]
    assert repr(op) == "collate(2)"


def test_unknown_arguments() -> None:
    builder = PipelineBuilder[Any, Any]().add_source([]).add_sink(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        builder.build(num_threads=1, nonsense=1)  # type: ignore[call-arg]
    assert builder.build(num_threads=1, use_thread_output_queue=True, stage_id=0) is not None


def numbers() -> Iterator[int]:
    yield 1


def test_the_whole_graph_in_words() -> None:
    """Descriptions show nested merges and forks, executors, lambdas and policies, but never data."""
    with ThreadPoolExecutor(1) as executor:
        leaf = PipelineConfig(
            SourceConfig(numbers(), continuous=True),
            [Pipe(lambda x: x, name="decode", executor=executor, concurrency=2, max_failures=Fraction(1, 10))],
            SinkConfig(1),
        )
    inner = PipelineConfig(Merge([leaf, leaf]), [Aggregate(4, drop_last=True)], SinkConfig(1))
    fork = PathVariants(len, [[Disaggregate()], [PathVariants(declared, [[Pipe(coroutine, retries=2, timeout=1.5)]])]])
    outer = PipelineConfig(
        Merge([inner, PipelineConfig(SourceConfig([10**9]), [], SinkConfig(2))]), [fork], SinkConfig(7)
    )
    lines = [
        "PipelineConfig",
        "  merge",
        "    PipelineConfig",
        "      merge",
        *[
            "        PipelineConfig",
            "          source(numbers at FILE:LINE, continuous=True)",
            (
                "          decode(concurrency=2, executor=ThreadPoolExecutor, max_failures=1/10, "
                "op=test_the_whole_graph_in_words.<locals>.<lambda> at FILE:LINE)"
            ),
            "          sink(buffer_size=1)",
        ]
        * 2,
        "      aggregate(op=collate(4), drop_last=True)",
        "      sink(buffer_size=1)",
        "    PipelineConfig",
        "      source(list at ADDRESS)",
        "      sink(buffer_size=2)",
        "  path_variants(router=len)",
        "    path 0",
        "      disaggregate",
        "    path 1",
        "      path_variants(router=declared at FILE:LINE)",
        "        path 0",
        "          coroutine(concurrency=1, retries=2, timeout=1.5, on_timeout='report', op=coroutine at FILE:LINE)",
        "  sink(buffer_size=7)",
    ]
    text = re.sub(rf"{re.escape(HERE)}:\d+", "FILE:LINE", repr(outer))
    assert re.sub("0x[0-9a-f]+", "ADDRESS", text).splitlines() == lines
    assert str(outer) == repr(outer)


def test_records_are_frozen_compared_and_hashed_by_content() -> None:
    def make(size: int) -> PipelineConfig[Any]:
        return PipelineConfig(SourceConfig((1, 2)), [Pipe(len), Disaggregate()], SinkConfig(size))

    assert make(3) == make(3)
    assert make(3) != make(4)
    assert len({make(3), make(3), make(4)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        make(3).sink = SinkConfig(4)  # type: ignore[misc]
    assert dataclasses.replace(make(3), sink=SinkConfig(4)) == make(4)
    with pytest.raises(ValueError, match="`concurrency` must be an int of at least 1, got 0"):
        dataclasses.replace(Pipe(len), concurrency=0)


def test_what_is_given_is_not_kept_where_it_may_change() -> None:
    stages: list[Any] = [Pipe(abs)]
    config: PipelineConfig[Any] = PipelineConfig(SourceConfig([-1]), stages, SinkConfig(1))
    fork = PathVariants(len, [stages])
    stages.append(Pipe(str))
    assert (len(config.pipes), len(fork.paths[0])) == (1, 1)
    # The stages may come from a generator.
    assert PipelineConfig(SourceConfig([-1]), (Pipe(op) for op in (abs, str)), SinkConfig(1)).pipes == tuple(stages)  # type: ignore[arg-type]


class TestMerge:
    def test_builders_and_declarations(self) -> None:
        upper = PipelineBuilder[Any, Any]().add_source([*"ab"]).pipe(str.upper)
        declared = PipelineConfig(SourceConfig([*"cd"]), [], SinkConfig(1))
        merged = PipelineBuilder[Any, Any]().merge([upper, declared]).pipe(lambda x: x + x).add_sink(3)
        with merged.build(num_threads=2).auto_stop() as pipeline:
            assert sorted(pipeline) == ["AA", "BB", "cc", "dd"]

    def test_merges_of_merges(self) -> None:
        def branch(letters: str) -> PipelineBuilder[Any, Any]:
            return PipelineBuilder[Any, Any]().add_source([*letters]).add_sink(7)

        inner = PipelineBuilder[Any, Any]().merge([branch("a"), branch("b")]).aggregate(2)
        with PipelineBuilder[Any, Any]().merge([inner, branch("c")]).add_sink().build(num_threads=1).auto_stop() as got:
            assert sorted(map(sorted, got)) == [["a", "b"], ["c"]]

    def test_an_op_of_the_users(self) -> None:
        async def backwards(_: Any, inputs: Any, output: Any) -> None:
            for queue in reversed(inputs):
                while not is_eof(item := await queue.get()):
                    await output.put(item)

        branches = [PipelineBuilder[Any, Any]().add_source([*letters]) for letters in ("ab", "cd")]
        with (
            PipelineBuilder[Any, Any]().merge(branches, op=backwards).add_sink().build(num_threads=1).auto_stop() as got
        ):
            assert list(got) == ["c", "d", "a", "b"]

    def test_mistakes(self) -> None:
        branch = PipelineBuilder[Any, Any]().add_source(["a"])
        with pytest.raises(ValueError, match="already has a source"):
            PipelineBuilder[Any, Any]().add_source(["b"]).merge([branch])
        with pytest.raises(ValueError, match="already has a source"):
            PipelineBuilder[Any, Any]().merge([branch]).add_source(["b"])
        with pytest.raises(RuntimeError, match="to be merged has no source"):
            PipelineBuilder[Any, Any]().merge([PipelineBuilder()])
        with pytest.raises(ValueError, match="at least one PipelineConfig"):
            PipelineBuilder[Any, Any]().merge([])
        wrong: Any
        for wrong in ("ab", 3, [branch, 3]):
            with pytest.raises(TypeError, match="pipeline_configs"):
                PipelineBuilder[Any, Any]().merge(wrong)

"""Declaring pipelines: what is accepted, what is refused and how, and how it reads."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Aggregator, Collate, Pipe, PipelineConfig


async def coroutine(x: int) -> int:
    return x


def declared(x: int) -> int:
    return x


HERE = __file__


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (lambda b: b.add_source(3), ValueError, "`source` must be an iterable or an async iterable, got 3"),
        (lambda b: b.add_source([]).add_source([]), ValueError, "already has a source"),
        (lambda b: b.pipe(3), TypeError, "`op` must be callable or have `__getitem__`, got 3"),
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


@pytest.mark.parametrize(
    "argument",
    [
        {"report_stats_interval": 5},
        {"queue_class": object},
        {"task_hook_factory": lambda _: []},
    ],
)
def test_what_is_not_served_yet_is_said(argument: dict[str, Any]) -> None:
    builder = PipelineBuilder[Any, Any]().add_source([]).add_sink(1)
    (name,) = argument
    with pytest.raises(NotImplementedError, match=f"`{name}` is not served yet"):
        builder.build(num_threads=1, **argument)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        builder.build(num_threads=1, nonsense=1)  # type: ignore[call-arg]
    assert builder.build(num_threads=1, use_thread_output_queue=True, stage_id=0) is not None

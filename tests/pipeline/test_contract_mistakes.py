"""Test every argument of every public callable with values that it does not take.

The error names the argument, shows the value, says what is accepted, and gives the line in the user's file. No thread
has been started by then.
"""

from __future__ import annotations

import decimal
import itertools
import threading
import traceback
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pipeline.support import build, fails_at, slow_first, source

from spdl.pipeline import PipelineBuilder, build_pipeline, cache_iterator
from spdl.pipeline.defs import (
    Aggregate,
    AggregateConfig,
    Collate,
    DisaggregateConfig,
    Merge,
    MergeConfig,
    PathVariants,
    PathVariantsConfig,
    Pipe,
    PipeConfig,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

BUILDER = PipelineBuilder[Any, Any]().add_source([1]).pipe(len, name="first").add_sink(1)
CONFIG = BUILDER.get_config()
PATHS = [[Pipe(len)]]


class Dataset:
    """A map-style data set, as torch calls it."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        raise AssertionError("A wrong argument is not used.")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def generator() -> Any:
    yield 1


async def coroutine(x: int) -> int:
    return x


NO_INTS: list[Any] = [1.0, "1", [1], True, None, object(), 1j, decimal.Decimal(1), np.array([1, 2]), np.bool_(True)]  # noqa: FBT003
TOO_SMALL: list[Any] = [0, -1, -(10**30), np.int64(0)]
NO_FLAGS: list[Any] = ["False", None, 2, 1.0, [], np.array([True, False])]
NO_STRINGS: list[Any] = [3, b"name", ["name"], object()]
NO_NUMBERS: list[Any] = ["1", [1], True, object(), 1j, timedelta(seconds=1), np.array([1.0, 2.0])]

Call = Callable[[Any], object]

# The argument, the call, the values refused by a TypeError, and those refused by a ValueError.
CASES: list[tuple[str, Call, list[Any], list[Any]]] = [
    (
        "source",
        lambda value: PipelineBuilder[Any, Any]().add_source(value),
        [],
        [
            3,
            None,
            "photos",
            b"a",
            bytearray(2),
            Path(),
            generator,
            Dataset(),
            Dataset,
            list,
            coroutine,
            BUILDER,
            Unprintable(),
        ],
    ),
    ("source", SourceConfig, [], [3, None, list]),
    ("continuous", lambda value: PipelineBuilder[Any, Any]().add_source([], continuous=value), NO_FLAGS, []),
    (
        "dedicated_thread",
        lambda value: PipelineBuilder[Any, Any]().add_source([], dedicated_thread=value),
        NO_FLAGS,
        [],
    ),
    ("op", lambda value: source([]).pipe(value), [3, None, {1, 2}, object(), BUILDER, generator()], []),
    ("op", Pipe, [3, None], []),
    ("op", lambda value: PipeConfig("name", value), [3, None], []),
    ("concurrency", lambda value: source([]).pipe(len, concurrency=value), NO_INTS, TOO_SMALL),
    ("concurrency", lambda value: PipeConfig("name", len, value), NO_INTS, TOO_SMALL),
    ("executor", lambda value: source([]).pipe(len, executor=value), [3, "thread", threading.Thread, object()], []),
    ("name", lambda value: source([]).pipe(len, name=value), NO_STRINGS, []),
    ("name", lambda value: PipeConfig(value, len), [*NO_STRINGS, None], []),
    (
        "output_order",
        lambda value: source([]).pipe(len, output_order=value),
        [],
        ["random", "INPUT", "", None, 3, True],
    ),
    (
        "max_failures",
        lambda value: source([]).pipe(len, max_failures=value),
        [0.5, 1.0, "1", True, nan, [1]],
        [Fraction(0), Fraction(3, 2), Fraction(-1, 2)],
    ),
    ("retries", lambda value: source([]).pipe(len, retries=value), NO_INTS, [-1, -(10**30)]),
    (
        "retry_delay",
        lambda value: source([]).pipe(len, retry_delay=value),
        [*NO_NUMBERS, None],
        [-1, nan, inf, 10**400],
    ),
    ("on_failure", lambda value: source([]).pipe(len, on_failure=value), [3, "log", [print]], []),
    ("timeout", lambda value: source([]).pipe(len, timeout=value), NO_NUMBERS, [0, 0.0, -1, nan, inf, -inf]),
    ("on_timeout", lambda value: source([]).pipe(len, on_timeout=value), [], ["kill", None, True, 3]),
    ("policy", lambda value: PipeConfig("name", len, policy=value), [3, None], []),
    ("input", lambda value: source([]).aggregate(value), [1.0, "3", [3], True, None, list, Collate], TOO_SMALL),
    ("input", Aggregate, ["3"], [0]),
    ("drop_last", lambda value: source([]).aggregate(2, drop_last=value), NO_FLAGS, []),
    ("n", Collate, NO_INTS, TOO_SMALL),
    ("op", lambda value: AggregateConfig("name", value), [3, len, None, Collate], []),
    ("name", lambda value: AggregateConfig(value, Collate(2)), NO_STRINGS, []),
    ("drop_last", lambda value: AggregateConfig("name", Collate(2), value), NO_FLAGS, []),
    ("name", DisaggregateConfig, NO_STRINGS, []),
    ("router", lambda value: source([]).path_variants(value, PATHS), [], [3, None, "0", [0]]),
    ("paths", lambda value: source([]).path_variants(len, value), [3, None, "ab", len, PATHS[0][0]], [[], (), {}]),
    ("paths[0]", lambda value: source([]).path_variants(len, [value]), [3, None, "ab", PATHS[0][0]], [[], ()]),
    (
        "paths[0][1]",
        lambda value: source([]).path_variants(len, [[Pipe(len), value]]),
        [],
        [len, None, SinkConfig(1), SourceConfig([]), CONFIG],
    ),
    ("name", lambda value: source([]).path_variants(len, PATHS, value), NO_STRINGS, []),
    ("batched", lambda value: source([]).path_variants(len, PATHS, batched=value), NO_FLAGS, []),
    ("router", lambda value: PathVariants(value, PATHS), [], [3]),
    ("name", lambda value: PathVariantsConfig(value, len, ((Pipe(len),),)), [*NO_STRINGS, None], []),
    ("buffer_size", lambda value: source([]).add_sink(value), [], [*NO_INTS, *TOO_SMALL]),
    ("buffer_size", SinkConfig, [], ["3", 0]),
    ("pipeline_configs", Merge, [3, None, "ab", CONFIG], [[], ()]),
    ("pipeline_configs[1]", lambda value: Merge([CONFIG, value]), [3, None, BUILDER, [CONFIG], Pipe(len)], []),
    ("pipeline_configs", MergeConfig, [3], [()]),
    ("src", lambda value: PipelineConfig(value, [], SinkConfig(1)), [3, None, [1], CONFIG, BUILDER], []),
    ("pipes", lambda value: PipelineConfig(SourceConfig([]), value, SinkConfig(1)), [3, None, "ab", Pipe(len)], []),
    ("pipes[0]", lambda value: PipelineConfig(SourceConfig([]), [value], SinkConfig(1)), [3, len, [Pipe(len)]], []),
    ("sink", lambda value: PipelineConfig(SourceConfig([]), [], value), [3, None], []),
    ("pipeline_cfg", lambda value: build_pipeline(value, num_threads=1), [3, None, BUILDER, [CONFIG]], []),
    ("num_threads", lambda value: BUILDER.build(num_threads=value), [v for v in NO_INTS if v is not None], TOO_SMALL),
    ("num_threads", lambda value: build_pipeline(CONFIG, num_threads=value), [1.5], [0]),
    (
        "max_failures",
        lambda value: BUILDER.build(num_threads=1, max_failures=value),
        [0.5, "1", None, True],
        [Fraction(2)],
    ),
    (
        "report_stats_interval",
        lambda value: BUILDER.build(num_threads=1, report_stats_interval=value),
        NO_NUMBERS,
        [nan],
    ),
    ("queue_class", lambda value: BUILDER.build(num_threads=1, queue_class=value), [3, "queue", []], []),
    ("task_hook_factory", lambda value: BUILDER.build(num_threads=1, task_hook_factory=value), [3, "hook", []], []),
    (
        "background_tasks",
        lambda value: build_pipeline(CONFIG, num_threads=1, background_tasks=value),
        [3, "task", object, len, [3], {len}],
        [],
    ),
    ("stage_id", lambda value: BUILDER.build(num_threads=1, stage_id=value), NO_INTS, [-1]),
    (
        "use_thread_output_queue",
        lambda value: BUILDER.build(num_threads=1, use_thread_output_queue=value),
        NO_FLAGS,
        [],
    ),
    ("timeout", lambda value: build([]).start(timeout=value), NO_NUMBERS, [nan]),
    ("timeout", lambda value: build([]).stop(timeout=value), NO_NUMBERS, [nan]),
    ("timeout", lambda value: build([]).auto_stop(timeout=value), NO_NUMBERS, [nan]),
    ("timeout", lambda value: build([]).get_item(timeout=value), NO_NUMBERS, [nan]),
    ("timeout", lambda value: build([]).get_iterator(timeout=value), NO_NUMBERS, [nan]),
    ("stage", lambda value: build([], len).set_concurrency(value, 1), [3, None, len], ["missing", "", "sink"]),
    ("concurrency", lambda value: build([], len).set_concurrency("len", value), NO_INTS, TOO_SMALL),
    ("src", lambda value: cache_iterator(value, 1), [3, None], []),
    ("num_caches", lambda value: cache_iterator([], value), NO_INTS, TOO_SMALL),
    ("return_caches_after", lambda value: cache_iterator([], 2, return_caches_after=value), [2.0, "2", True], [1, -1]),
    ("stop_after", lambda value: cache_iterator([], 2, stop_after=value), [2.0, "2", True], [1, -1]),
    ("delete_src", lambda value: cache_iterator([], 2, delete_src=value), NO_FLAGS, []),
]


def check(argument: str, call: Call, value: Any, kind: type[Exception]) -> str:
    threads = set(threading.enumerate())
    with pytest.raises(kind) as caught:
        call(value)
    assert set(threading.enumerate()) == threads
    message = str(caught.value)
    assert f"`{argument}` must be " in message
    assert f"{__file__}:{lines_here(caught.value)[-1]})" in message
    if not isinstance(value, Unprintable):
        # A long repr is shortened in the middle.
        assert f"got {repr(value)[:15]}" in message
    return message


def lines_here(error: Exception) -> list[int]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.lineno for frame in frames if frame.filename == __file__ and frame.lineno]


@pytest.mark.parametrize(("argument", "call", "wrong_types", "wrong_values"), CASES)
def test_mistakes(argument: str, call: Call, wrong_types: list[Any], wrong_values: list[Any]) -> None:
    assert wrong_types or wrong_values
    for value in wrong_types:
        check(argument, call, value, TypeError)
    for value in wrong_values:
        check(argument, call, value, ValueError)


def test_an_argument_given_twice_or_unknown() -> None:
    with pytest.raises(ValueError, match=r"already has a source, .*\(.*:\d+\)"):
        source([]).add_source([])
    with pytest.raises(ValueError, match=r"already has a sink, sink\(buffer_size=3\) \(.*:\d+\)"):
        source([]).add_sink().add_sink()
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'deamon' \(.*:\d+\)"):
        build([]).start(deamon=True)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (generator, "If it is a function that makes one, call it."),
        (Dataset, "Make an instance of it."),
        (Dataset(), "add `range(len(dataset))` as the source"),
    ],
)
def test_a_source_that_is_none_comes_with_a_remedy(value: Any, remedy: str) -> None:
    assert remedy in check("source", lambda source: PipelineBuilder[Any, Any]().add_source(source), value, ValueError)


def test_results_given_as_ops_come_with_a_remedy() -> None:
    started = coroutine(1)
    for value in (started, generator()):
        message = check("op", lambda op: source([]).pipe(op), value, TypeError)
        assert message.endswith("Pass the function itself, not what it returned.")
    started.close()
    assert check("op", lambda op: source([]).pipe(op), None, TypeError).endswith("not what it returned.")


@pytest.mark.parametrize("text", ["resize", b"resize"])
def test_text_is_no_op_although_letters_can_be_looked_up_in_it(text: Any) -> None:
    assert "not text" in check("op", lambda op: source([]).pipe(op), text, TypeError)


class Flavour(Enum):
    SWEET = 1
    SOUR = 2


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (("a", "b"), ["a", "b"]),
        (memoryview(b"a"), [97]),
        ({1: 2}, [1]),
        (Flavour, [*Flavour]),
        (np.arange(2), [0, 1]),
        (range(1), [0]),
    ],
)
def test_whatever_can_be_iterated_is_a_source(items: Any, expected: list[Any]) -> None:
    with build(items).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=10)) == expected


@pytest.mark.filterwarnings("ignore:The pipeline has been read to its end before")
def test_numbers_of_numpy_and_others_are_numbers() -> None:
    two: Any = np.int64(2)
    half: Any = np.float32(0.5)
    thirty: Any = np.float32(30)
    yes: Any = np.bool_(True)  # noqa: FBT003
    stage = Pipe(len, concurrency=two, max_failures=two, retries=two, retry_delay=half, timeout=half)
    for value in (stage.concurrency, stage.policy.max_failures, stage.policy.retries):
        assert type(value) is int
        assert value == 2
    for seconds in (stage.policy.retry_delay, stage.policy.timeout):
        assert type(seconds) is float
        assert seconds == 0.5
    assert type(SinkConfig(two).buffer_size) is int
    assert Aggregate(two, drop_last=yes).name == "aggregate(op=collate(2), drop_last=True)"
    one: Any = 1
    assert SourceConfig([], continuous=one).continuous is True
    pipeline = build([1], num_threads=two)
    ten: Any
    with pipeline.auto_stop(timeout=thirty):
        for ten in (np.float64(10), np.int64(10), Fraction(10), decimal.Decimal(10), 10):
            assert list(pipeline.get_iterator(timeout=ten)) in ([1], [])
            with pytest.raises(EOFError):
                pipeline.get_item(timeout=ten)


def test_huge_numbers() -> None:
    # From Python 3.14 on, reprlib has words for it.
    shown = "(one of type int|<int instance with roughly 5001 digits)"
    with pytest.raises(ValueError, match=f"`concurrency` must be an int of at least 1, got {shown}"):
        source([]).pipe(len, concurrency=-(10**5000))
    graph = source([0, 1]).pipe(slow_first, concurrency=10**30, retries=10**30, max_failures=10**30, timeout=1e18)
    pipeline = graph.aggregate(10**30).add_sink(10**30).build(num_threads=2)
    with pipeline.auto_stop(timeout=10**5000):
        assert sorted(pipeline.get_item(timeout=10**5000)) == [0, 1]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_very_many_retries_and_a_very_long_delay(*, asynchronous: bool) -> None:
    """A delay doubled so often exceeds a float, and a long one exceeds the time that a thread can wait."""
    tries = itertools.count(1)

    def op(x: int) -> int:
        if x == 0 and next(tries) < 1100:
            raise ValueError(x)
        return x

    async def op_async(x: int) -> int:
        return op(x)

    function: Any = op_async if asynchronous else op
    with build([0], function, retries=2000, retry_delay=0).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=20)) == [0]
    assert pipeline.statistics().stages[1].num_retried == 1099
    pipeline = build([0, 1], fails_at(0), concurrency=2, retries=1, retry_delay=1e300)
    with pipeline.auto_stop():
        assert pipeline.get_item(timeout=10) == 1
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0.05)


@pytest.mark.parametrize("timeout", [0, -1, -inf, -(10**5000)], ids=["0", "-1", "-inf", "huge"])
def test_a_negative_timeout_is_none_left(timeout: float) -> None:
    gate, began = threading.Event(), threading.Event()

    def op(_: int) -> bool:
        began.set()
        return gate.wait(10)

    pipeline = build([1], op)
    with pipeline.auto_stop():
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=timeout)
        # Otherwise there may be nothing to wait for.
        assert began.wait(10)
        with pytest.raises(TimeoutError):
            next(pipeline.get_iterator(timeout=timeout))
        with pytest.raises(TimeoutError):
            pipeline.stop(timeout=timeout)
        gate.set()


def test_a_failed_build_shows_the_pipeline() -> None:
    branches = [PipelineConfig(SourceConfig([1], continuous=flag), [], SinkConfig(1)) for flag in (True, False)]
    with pytest.raises(ValueError, match="continuous sources only or none") as caught:
        build_pipeline(PipelineConfig(Merge(branches), [Pipe(len, name="measure")], SinkConfig(1)), num_threads=1)
    (note,) = caught.value.__notes__
    assert "  measure(concurrency=1, op=len)" in note.splitlines()

"""Test ops in a user's ProcessPoolExecutor."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import threading
import time
import weakref
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)


class Counting(ProcessPoolExecutor):
    """An executor that counts the calls submitted to it."""

    submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)


class CodedError(Exception):
    """An exception that can be pickled only because it has a `__reduce__`."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"code {code} at {path}")
        self.code, self.path = code, path

    def __reduce__(self) -> tuple[Any, ...]:
        return CodedError, (self.code, self.path)


class UnpicklableError(Exception):
    """An exception with its own `__init__`: as with most of these, unpickling calls it with too few arguments."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"code {code} at {path}")


class Sealed:
    """An object that cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed")


class Interrupting:
    """An object whose pickling is interrupted, on its way to a process or on its way back."""

    def __init__(self, *, there: bool) -> None:
        self.there = there

    def __reduce__(self) -> tuple[Any, ...]:
        if self.there:
            raise KeyboardInterrupt("on the way")
        return _Interrupted, ()


class Trap:
    """An object that can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _snap, ()


def _snap() -> NoReturn:
    raise ValueError("snap")


class _Interrupted:
    """An object whose unpickling is interrupted, in the process or when it comes back."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _interrupt, ()


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt("on the way")


def same(x: Any) -> Any:
    return x


def length(x: Any) -> int:
    return len(x)


def short_or_long(x: int) -> int:
    time.sleep(0.02 if x % 50 == 0 else 0.0)
    return x


def raise_on_one(make: Callable[[], BaseException], x: int) -> int:
    if x == 1:
        raise make()
    return x


def coded() -> BaseException:
    return CodedError(7, "here")


def unpicklable() -> BaseException:
    return UnpicklableError(7, "here")


def sealed_on_one(x: int) -> Any:
    return Sealed() if x == 1 else x


def trap_on_one(x: int) -> Any:
    return Trap() if x == 1 else x


async def answer(x: int) -> int:
    return x


def coroutine_on_one(x: int) -> Any:
    return answer(x) if x == 1 else x


def upto(x: int) -> Iterator[int]:
    yield from range(x)


def returns_upto(x: int) -> Iterator[int]:
    return upto(x)


def die_on_one(x: int) -> int:
    if x == 1:
        os._exit(1)
    return x


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        # Start both processes now, since they outlive the tests that use them.
        for started in [executor.submit(time_taking, 0.5) for _ in range(2)]:
            started.result()
        yield executor


def failures_of(
    op: Callable[[Any], Any], pool: ProcessPoolExecutor, items: Any = range(4), **options: Any
) -> tuple[list[Any], Any]:
    """Return the results, and the only failure."""
    stage = source(items).pipe(op, executor=pool, concurrency=2, output_order="input", **options)
    with stage.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=60))
    (failed,) = pipeline.failures()
    assert failed.positions == (1,)
    return got, failed


class TestFailures:
    @pytest.mark.parametrize(
        ("make", "shown"),
        [(functools.partial(ValueError, "bad"), "ValueError: bad"), (coded, "CodedError: code 7 at here")],
    )
    def test_type_message_and_traceback_of_the_worker(
        self, make: Callable[[], BaseException], shown: str, pool: ProcessPoolExecutor
    ) -> None:
        got, failed = failures_of(functools.partial(raise_on_one, make), pool)
        assert got == [0, 2, 3]
        assert failed.error.endswith(shown)
        # The traceback shows the line in the worker that raised.
        assert "raise make()" in failed.traceback

    def test_the_exception_itself_reaches_the_user(self, pool: ProcessPoolExecutor) -> None:
        op = functools.partial(raise_on_one, coded)
        pipeline = source(range(9)).pipe(op, executor=pool, max_failures=0).add_sink(1).build(num_threads=1)
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=60))
        cause = caught.value.exceptions[0].__cause__
        assert isinstance(cause, CodedError)
        assert (cause.code, cause.path) == (7, "here")
        assert "raise make()" in str(cause.__cause__)
        pipeline.stop()

    def test_an_exception_that_cannot_be_made_again_is_described(self, pool: ProcessPoolExecutor) -> None:
        """The pool itself would break if it had to unpickle the exception."""
        got, failed = failures_of(functools.partial(raise_on_one, unpicklable), pool)
        assert got == [0, 2, 3]
        assert "UnpicklableError: code 7 at here" in failed.error
        assert "raise make()" in failed.traceback

    def test_stop_iteration_is_a_failure_like_others(self, pool: ProcessPoolExecutor) -> None:
        got, failed = failures_of(functools.partial(raise_on_one, StopIteration), pool)
        assert (got, failed.error) == ([0, 2, 3], "StopIteration")

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_is_no_exception_fails_the_pipeline(
        self, error: type[BaseException], pool: ProcessPoolExecutor
    ) -> None:
        op = functools.partial(raise_on_one, error)
        pipeline = source(range(9)).pipe(op, executor=pool).add_sink(1).build(num_threads=1)
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=60))
        assert isinstance(caught.value.exceptions[0].__cause__, error)
        pipeline.stop()

    @pytest.mark.parametrize(
        ("op", "items", "message"),
        [
            (same, [0, Sealed(), 2], "sealed"),
            (same, [0, Trap(), 2], "snap"),
            (sealed_on_one, range(3), "sealed"),
            (trap_on_one, range(3), "snap"),
            (coroutine_on_one, range(3), "cannot leave the process"),
        ],
        ids=["item to send", "item to receive", "result to send", "result to receive", "coroutine"],
    )
    def test_what_cannot_cross_fails_alone(
        self, op: Callable[[Any], Any], items: Any, message: str, pool: ProcessPoolExecutor
    ) -> None:
        got, failed = failures_of(op, pool, items)
        assert got == [0, 2]
        assert message in failed.error

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda x: [[x]],
            lambda x: ({"key": [x]}, b"0" * 100_000),
            lambda x: {"key": x},
            lambda x: [*range(100), x],
            lambda x: np.array([x], dtype=object),
            lambda x: [np.array([(1, x)], dtype=[("number", int), ("object", object)])],
        ],
        ids=["list", "tuple", "dict", "long list", "array", "record"],
    )
    @pytest.mark.parametrize("bad", [Sealed, Trap])
    def test_neither_does_what_holds_such(
        self, wrap: Callable[[Any], Any], bad: Any, pool: ProcessPoolExecutor
    ) -> None:
        got, failed = failures_of(length, pool, [wrap(0), wrap(bad()), wrap(2)])
        assert got == [len(wrap(0))] * 2
        assert ("sealed" if bad is Sealed else "snap") in failed.error

    def test_values_there_and_back(self, pool: ProcessPoolExecutor) -> None:
        arrays: list[Any] = [
            np.arange(12.0).reshape(3, 4).T,
            np.zeros(0),
            np.array(5),
            np.array(["a", "bc"]),
            np.arange(99)[::3],
        ]
        records = np.array([(1, 2.5)], dtype=[("a", "<i2"), ("b", ">f4")])
        values: list[Any] = [
            None,
            1,
            2.5,
            True,
            3j,
            "text",
            b"bytes",
            bytearray(b"more"),
            [1, [2, (3, {"a": 4})]],
            {5: {6}},
            (),
        ]
        items = [[value] for value in [*values, *arrays, records, {"image": arrays[0], "label": 7}]]
        results = run(source(items).pipe(same, executor=pool, output_order="input"))
        for (sent,), (got,) in zip(items, results, strict=True):
            assert type(got) is type(sent)
            np.testing.assert_equal(got, sent)
            if isinstance(got, np.ndarray):
                assert got.dtype == sent.dtype
                assert got.flags.writeable

    @pytest.mark.parametrize("there", [True, False])
    def test_an_interrupt_on_the_way_is_the_stages(self, pool: ProcessPoolExecutor, *, there: bool) -> None:
        items = [0, Interrupting(there=there), 2]
        pipeline = source(items).pipe(same, executor=pool, name="pooled").add_sink(3).build(num_threads=1)
        pipeline.start()
        with pytest.raises(PipelineFailure) as caught:
            list(pipeline.get_iterator(timeout=60))
        (failure,) = caught.value.exceptions
        assert isinstance(failure.__cause__, KeyboardInterrupt)
        assert failure.__notes__[-1].endswith(":1:pooled, source item 1")
        pipeline.stop()

    def test_items_that_cannot_be_sent_hold_nothing_up(self, pool: ProcessPoolExecutor) -> None:
        # More items than hand-overs may be under way.
        items = [*(Sealed() for _ in range(20)), *range(9)]
        stage = source(items).pipe(same, executor=pool, concurrency=2, output_order="input")
        with stage.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == list(range(9))
        assert len(pipeline.failures()) == 20

    def test_an_op_that_cannot_be_sent_is_told_at_the_start(self, pool: ProcessPoolExecutor) -> None:
        pipeline = source(range(3)).pipe(lambda x: x, name="mine", executor=pool).add_sink(1).build(num_threads=1)
        with pytest.raises(TypeError, match=r"Stage .*mine.*: the op cannot be sent .*top level of a module"):
            pipeline.start()

    def test_a_process_that_dies_fails_the_pipeline(self) -> None:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
            pipeline = source(range(10)).pipe(die_on_one, executor=executor).add_sink(1).build(num_threads=1)
            with pytest.raises(PipelineFailure) as caught:
                list(pipeline.get_iterator(timeout=60))
            assert type(caught.value.exceptions[0]).__name__ == "BrokenProcessPool"
            pipeline.stop()


class TestHandOvers:
    def test_whatever_the_duration_nothing_is_lost(self, pool: ProcessPoolExecutor) -> None:
        stage = source(range(300)).pipe(short_or_long, executor=pool, concurrency=16)
        assert sorted(run(stage)) == list(range(300))

    def test_no_item_waits_for_more(self, pool: ProcessPoolExecutor) -> None:
        more = threading.Event()

        def slow_source() -> Iterator[int]:
            yield 0
            more.wait(timeout=60)
            yield 1

        builder = source(slow_source()).pipe(same, executor=pool, concurrency=8).add_sink(1)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert pipeline.get_item(timeout=60) == 0
            more.set()
            assert pipeline.get_item(timeout=60) == 1

    @pytest.mark.parametrize("op", [upto, returns_upto])
    def test_generators_come_back_whole(self, op: Callable[[int], Any], pool: ProcessPoolExecutor) -> None:
        stage = source(range(5)).pipe(op, executor=pool, concurrency=3, output_order="input")
        assert run(stage) == [y for x in range(5) for y in range(x)]

    def test_retries_and_drops(self, pool: ProcessPoolExecutor) -> None:
        op = functools.partial(raise_on_one, ValueError)
        _, failed = failures_of(op, pool, retries=2, retry_delay=0.001)
        assert failed.attempts == 3
        assert run(source([1, None, 2]).pipe(same, executor=pool, output_order="input")) == [1, 2]

    def test_a_straggler_is_given_up_and_the_others_go_on(self, pool: ProcessPoolExecutor) -> None:
        stage = source([0.0, 1.5, 0.0, 0.0]).pipe(
            time_taking, executor=pool, concurrency=8, timeout=0.5, on_timeout="drop", output_order="input"
        )
        got: list[float] = []
        with stage.add_sink(9).build(num_threads=1).auto_stop() as pipeline:
            with suppress(PipelineFailure):
                got += pipeline.get_iterator(timeout=60)
            failed = {position for each in pipeline.failures() for position in each.positions}
        # On a busy machine, others may be late as well; if all are, the pipeline fails.
        assert 1 in failed
        assert got == [0.0] * (4 - len(failed))

    def test_epochs_pass_through(self, pool: ProcessPoolExecutor) -> None:
        builder = source([1, 2, 3], continuous=True).pipe(upto, executor=pool, concurrency=4).add_sink(3)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            for _ in range(3):
                assert sorted(pipeline) == [0, 0, 0, 1, 1, 2]


def time_taking(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Thing:
    """An item that can be referred to weakly."""


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def test_a_call_that_is_cancelled_keeps_no_item(tmp_path: Path) -> None:
    known: list[weakref.ref[Thing]] = []
    proceed = threading.Event()

    def things() -> Iterator[Thing]:
        assert proceed.wait(20)
        for _ in range(3):
            thing = Thing()
            known.append(weakref.ref(thing))
            yield thing
            del thing

    with Counting(1, multiprocessing.get_context("forkserver")) as pool:
        pipeline = source(things()).pipe(id, executor=pool).add_sink(1).build(num_threads=1)
        pipeline.start()
        # The pool takes some calls ahead and keeps those behind, cancelled or not, until it comes to them.
        others = [pool.submit(wait_for, tmp_path / "go on") for _ in range(6)]
        submitted = pool.submitted
        proceed.set()
        assert wait_until(lambda: pool.submitted > submitted, 20)
        pipeline.stop()
        del pipeline
        gc.collect()
        assert not others[-1].done()
        assert [thing() for thing in known] == [None] * len(known)
        for other in others:
            other.cancel()
        (tmp_path / "go on").touch()

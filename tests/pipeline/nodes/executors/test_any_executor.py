"""Test ops in executors that only have the interface of `concurrent.futures.Executor`."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.hooks.kinds import Bystander
from tests.pipeline.nodes.executors.straggler import drop_a_straggler
from tests.pipeline.support import run, source, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import Pipeline, TaskHook


class Wrapped(Executor):
    """An executor that is no ThreadPoolExecutor."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="wrapped")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(fn, *args, **kwargs)

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()


class Immediate(Executor):
    """An executor that runs calls at once, in the thread that submits them."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - that is what an executor does.
            future.set_exception(error)
        return future


def halve(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2


def steps(x: int) -> Iterator[tuple[int, str]]:
    for step in range(3):
        if (x, step) == (2, 1):
            raise OSError("broken off")
        yield (10 * x + step, threading.current_thread().name)


@pytest.mark.parametrize("make", [lambda: Wrapped(3), Immediate], ids=["threads", "at once"])
class TestAnyExecutor:
    @pytest.mark.parametrize("order", ["completion", "input"])
    def test_results_and_failures(self, make: Callable[[], Executor], order: Any) -> None:
        with make() as executor:
            stage = source(range(40)).pipe(halve, executor=executor, concurrency=4, output_order=order)
            with stage.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
                got = list(pipeline.get_iterator(timeout=20))
        assert (got if order == "input" else sorted(got)) == list(range(20))
        assert sorted(item.positions[0] for item in pipeline.failures()) == list(range(1, 40, 2))

    def test_a_generator_that_breaks_off(self, make: Callable[[], Executor]) -> None:
        with make() as executor:
            stage = source(range(4)).pipe(steps, executor=executor, concurrency=2, output_order="input")
            with stage.add_sink(2).build(num_threads=2).auto_stop() as pipeline:
                got = [value for value, _ in pipeline.get_iterator(timeout=20)]
        assert got == [0, 1, 2, 10, 11, 12, 20, 30, 31, 32]
        assert [item.error for item in pipeline.failures()] == ["OSError: broken off"]

    def test_retries(self, make: Callable[[], Executor]) -> None:
        seen: list[int] = []

        def op(x: int) -> int:
            seen.append(x)
            if seen.count(x) < 3:
                raise ValueError
            return x

        with make() as executor:
            assert run(source(range(5)).pipe(op, executor=executor, retries=2, retry_delay=0.001)) == list(range(5))
        assert sorted(seen) == sorted([*range(5)] * 3)


class Never(Executor):
    """An executor that never begins a call."""

    submitted = 0

    def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return Future()


@pytest.mark.parametrize("hooks", [[], [Bystander()]], ids=["bare", "hooked"])
def test_stop_does_not_wait_for_what_has_not_begun(hooks: list[TaskHook]) -> None:
    executor = Never()
    builder = source(range(9)).pipe(halve, executor=executor, concurrency=3).add_sink(1)
    with builder.build(num_threads=1, task_hook_factory=lambda _: hooks).auto_stop(timeout=5):
        assert wait_until(lambda: executor.submitted == 3)


@pytest.mark.parametrize("make", [lambda: Wrapped(1), lambda: ThreadPoolExecutor(1)], ids=["any", "thread pool"])
@pytest.mark.parametrize("hooks", [[], [Bystander()]], ids=["bare", "hooked"])
class TestFromWithinAnOp:
    def test_stop_does_not_wait_for_that_op(self, make: Callable[[], Executor], hooks: list[TaskHook]) -> None:
        pipelines: list[Pipeline[Any]] = []
        returned = []

        def op(x: int) -> int:
            pipelines[0].stop(timeout=10)
            returned.append(x)
            return x

        with make() as executor:
            builder = source(range(9)).pipe(op, executor=executor).add_sink(1)
            pipelines.append(builder.build(num_threads=1, task_hook_factory=lambda _: hooks))
            assert len(list(pipelines[0])) <= 1
            pipelines[0].stop()
        assert returned == [0]

    def test_reading_what_is_not_there_is_refused(self, make: Callable[[], Executor], hooks: list[TaskHook]) -> None:
        pipelines: list[Pipeline[Any]] = []

        def op(x: int) -> int:
            if x == 0:
                pipelines[0].get_item(timeout=10)
            return x

        with make() as executor:
            builder = source(range(4)).pipe(op, executor=executor, output_order="input").add_sink(9)
            pipelines.append(builder.build(num_threads=1, task_hook_factory=lambda _: hooks))
            with pipelines[0].auto_stop() as pipeline:
                assert list(pipeline.get_iterator(timeout=20)) == [1, 2, 3]
        (failure,) = pipelines[0].failures()
        assert failure.error.startswith("RuntimeError: ")
        assert "op" in failure.error


class Elsewhere(Wrapped):
    """An executor that sends its calls as pickles, and keeps these."""

    def __init__(self) -> None:
        super().__init__(2)
        self.sent: list[bytes] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_kwargs: Any) -> Future[Any]:
        self.sent.append(pickle.dumps(fn))
        return super().submit(pickle.loads(self.sent[-1]), *args)  # noqa: S301 - from the line above.


def test_what_is_sent_elsewhere_is_the_op_alone() -> None:
    with Elsewhere() as executor:
        assert run(source(range(0, 20, 2)).pipe(halve, executor=executor, output_order="input")) == list(range(10))
    # The package may be missing where the pickle is loaded.
    assert not any(b"spdl" in sent for sent in executor.sent)


def test_its_calls_are_named_as_the_op() -> None:
    names = set()

    class Naming(Wrapped):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            names.add(fn.__qualname__)
            return super().submit(fn, *args, **kwargs)

    with Naming(1) as executor:
        assert run(source([2]).pipe(halve, executor=executor)) == [1]
    assert names == {"halve"}


def test_what_waits_in_the_executor_is_not_busy() -> None:
    def op(x: int) -> int:
        time.sleep(0.02)
        return x

    with Wrapped(1) as executor:
        builder = source(range(16)).pipe(op, executor=executor, concurrency=8).add_sink(16)
        with builder.build(num_threads=1).auto_stop() as pipeline:
            assert sorted(pipeline) == list(range(16))
            stage = pipeline.statistics().stages[1]
    # The executor has one thread, so ops never overlap.
    assert 16 * 0.02 <= stage.busy_seconds <= stage.elapsed


def test_every_step_runs_in_the_executor() -> None:
    with Wrapped(2) as executor:
        names = {name for _, name in run(source([0, 1]).pipe(steps, executor=executor))}
    assert names
    assert {name.split("_")[0] for name in names} == {"wrapped"}


def test_an_op_that_takes_too_long_is_dropped() -> None:
    with Wrapped(2) as executor:
        drop_a_straggler(executor)

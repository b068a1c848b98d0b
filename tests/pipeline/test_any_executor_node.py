"""Ops in executors of which nothing is known but the interface of `concurrent.futures.Executor`."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import run, source, wait_until

from spdl.pipeline import TaskHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Wrapped(Executor):
    """Somebody's own executor, which is no ThreadPoolExecutor."""

    def __init__(self, num_threads: int) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="wrapped")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(fn, *args, **kwargs)

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()


class Immediate(Executor):
    """Runs what is submitted at once, in the caller's thread."""

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
    """Begins nothing of what is submitted."""

    submitted = 0

    def submit(self, _fn: Callable[..., Any], /, *_args: Any, **_kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return Future()


class Bystander(TaskHook):
    """Has the stage's calls made by the event loop."""

    @asynccontextmanager
    async def task_hook(self, _input_item: Any = None) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize("hooks", [[], [Bystander()]], ids=["bare", "hooked"])
def test_stop_does_not_wait_for_what_has_not_begun(hooks: list[TaskHook]) -> None:
    executor = Never()
    builder = source(range(9)).pipe(halve, executor=executor, concurrency=3).add_sink(1)
    with builder.build(num_threads=1, task_hook_factory=lambda _: hooks).auto_stop(timeout=5):
        assert wait_until(lambda: executor.submitted == 3)


def test_every_step_runs_in_the_executor() -> None:
    with Wrapped(2) as executor:
        names = {name for _, name in run(source([0, 1]).pipe(steps, executor=executor))}
    assert names
    assert {name.split("_")[0] for name in names} == {"wrapped"}


def test_an_op_that_takes_too_long_is_dropped() -> None:
    release = threading.Event()

    def op(x: int) -> int:
        if x == 1:
            release.wait(timeout=20)
        return x

    with Wrapped(2) as executor:
        stage = source(range(6)).pipe(
            op, executor=executor, concurrency=2, timeout=0.1, on_timeout="drop", output_order="input"
        )
        with stage.add_sink(9).build(num_threads=1).auto_stop() as pipeline:
            assert list(pipeline.get_iterator(timeout=20)) == [0, 2, 3, 4, 5]
            release.set()
            assert [item.positions for item in pipeline.failures()] == [(1,)]

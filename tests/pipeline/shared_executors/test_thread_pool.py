"""Test threads that take the most urgent call first."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.support import let_go, wait_until

from spdl.pipeline import PriorityThreadPoolExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pool() -> Iterator[PriorityThreadPoolExecutor]:
    with PriorityThreadPoolExecutor(1) as pool:
        yield pool


class Held:
    """A block that keeps the only worker busy, so that calls submitted meanwhile wait."""

    def __init__(self, pool: PriorityThreadPoolExecutor) -> None:
        self._go = threading.Event()
        began = threading.Event()

        def hold() -> None:
            began.set()
            self._go.wait(20)

        self.future = pool.get_executor(priority=0).submit(hold)
        assert began.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()


def test_later_entrypoints_go_first_and_each_in_its_own_order(pool: PriorityThreadPoolExecutor) -> None:
    stages = [pool.get_executor() for _ in range(3)]
    begun: list[tuple[int, int]] = []
    with Held(pool):
        futures = [stages[stage].submit(begun.append, (stage, item)) for item in range(3) for stage in (1, 0, 2)]
    wait(futures, 20)
    assert begun == [(stage, item) for stage in (2, 1, 0) for item in range(3)]


def test_priorities_that_are_given_and_those_that_are_not(pool: PriorityThreadPoolExecutor) -> None:
    # Entrypoints without a priority are numbered among themselves: they get 1, 2 and 3.
    given = {"first": None, "nine": 9, "second": None, "two and a half": 2.5, "third": None, "two": 2, "below": -1}
    entrypoints = {name: pool.get_executor(priority=priority) for name, priority in given.items()}
    begun: list[str] = []
    with Held(pool):
        futures = [entrypoint.submit(begun.append, name) for name, entrypoint in entrypoints.items()]
    wait(futures, 20)
    assert begun == ["nine", "third", "two and a half", "second", "two", "first", "below"]


@settings(max_examples=30, deadline=None)
@given(priorities=st.lists(st.floats(-3, 3) | st.integers(-3, 3), min_size=1, max_size=5), data=st.data())
def test_calls_begin_by_priority_and_then_by_age(priorities: list[float], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(priorities) - 1), max_size=30))
    with PriorityThreadPoolExecutor(1) as pool:
        entrypoints = [pool.get_executor(priority=priority) for priority in priorities]
        begun: list[int] = []
        with Held(pool):
            futures = [entrypoints[index].submit(begun.append, number) for number, index in enumerate(chosen)]
        wait(futures, 20)
    # Python's sort is stable, so equal priorities keep their order.
    assert begun == sorted(range(len(chosen)), key=lambda number: -priorities[chosen[number]])


def test_a_call_that_a_result_asks_for_goes_before_those_that_wait(pool: PriorityThreadPoolExecutor) -> None:
    """The callbacks of a result run before the next call is chosen."""
    early, late = pool.get_executor(), pool.get_executor()
    begun: list[str] = []
    futures: list[Future[None]] = []
    with Held(pool):
        first = early.submit(begun.append, "early")
        first.add_done_callback(lambda _: futures.append(late.submit(begun.append, "late")))
        futures.append(early.submit(begun.append, "early"))
    wait(futures, 20)
    assert wait_until(lambda: len(begun) == 3)
    assert begun == ["early", "late", "early"]


def test_all_workers_are_used() -> None:
    everyone = threading.Barrier(4)
    with PriorityThreadPoolExecutor(4) as pool:
        executors = [pool.get_executor(), pool.get_executor()]
        futures = [executors[index % 2].submit(everyone.wait, 20) for index in range(40)]
        assert sorted(future.result() for future in futures) == sorted(10 * [0, 1, 2, 3])


def test_never_more_run_than_there_are_workers() -> None:
    running = most = 0
    lock = threading.Lock()
    everyone = threading.Barrier(3, timeout=20)
    calls = itertools.count()

    def op() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            first = next(calls) < 3
        # Two threads could do all of it while the third one gets no core.
        if first:
            everyone.wait()
        time.sleep(0.001)
        with lock:
            running -= 1

    with PriorityThreadPoolExecutor(3) as pool:
        executors = [pool.get_executor() for _ in range(3)]
        wait([executor.submit(op) for _ in range(30) for executor in executors], 20)
    assert most == 3


def test_many_threads_submit_and_cancel() -> None:
    """This stresses the heap and the count of free workers."""
    done: list[int] = []
    futures: list[Future[None]] = []
    with PriorityThreadPoolExecutor(3) as pool:

        def submit(number: int) -> None:
            executor = pool.get_executor(priority=number % 3)
            for item in range(500):
                future = executor.submit(done.append, 1000 * number + item)
                futures.append(future)
                if item % 7 == 0:
                    future.cancel()

        threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        finished = [future for future in as_completed(futures, 20) if not future.cancelled()]
        assert len(futures) == 4000
        assert len(done) == len(set(done)) == len(finished)
        assert len(finished) >= 4000 - 8 * 72


def test_results_and_exceptions_are_the_calls_own(pool: PriorityThreadPoolExecutor) -> None:
    executor = pool.get_executor()
    assert executor.submit(divmod, 7, 3).result(20) == (2, 1)
    assert executor.submit(int, "11", base=2).result(20) == 3
    assert isinstance(executor.submit(divmod, 1, 0).exception(20), ZeroDivisionError)
    assert list(executor.map(abs, [-1, 2, -3], timeout=20)) == [1, 2, 3]

    def leave() -> None:
        raise SystemExit(3)

    assert isinstance(executor.submit(leave).exception(20), SystemExit)
    assert executor.submit(int).result(20) == 0


def test_a_call_may_raise_that_a_pool_of_its_own_is_broken(pool: PriorityThreadPoolExecutor) -> None:
    def op() -> None:
        raise BrokenExecutor("another one")

    executor = pool.get_executor()
    assert isinstance(executor.submit(op).exception(20), BrokenExecutor)
    assert executor.submit(int).result(20) == 0


def test_what_has_not_begun_can_be_cancelled(pool: PriorityThreadPoolExecutor) -> None:
    executor = pool.get_executor()
    begun: list[int] = []
    with Held(pool) as held:
        futures = [executor.submit(begun.append, number) for number in range(4)]
        assert futures[1].cancel()
        assert futures[2].cancel()
        assert not held.future.cancel()
    assert not wait(futures, 20).not_done
    assert begun == [0, 3]


def test_shutting_down_waits_for_all_that_was_submitted() -> None:
    pool = PriorityThreadPoolExecutor(1)
    executor = pool.get_executor()
    futures = [executor.submit(time.sleep, 0.01) for _ in range(5)]
    pool.shutdown()
    assert all(future.done() for future in futures)
    assert not any(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate())
    pool.shutdown()


def test_shutting_down_without_waiting_drops_nothing() -> None:
    pool = PriorityThreadPoolExecutor(1)
    executor = pool.get_executor()
    with Held(pool):
        futures = [executor.submit(int, str(number)) for number in range(5)]
        # If it waited, it would do so for ever.
        pool.shutdown(wait=False)
        assert "shut down" in repr(pool)
    # The check for leaks sees whether the threads have ended.
    assert [future.result(20) for future in futures] == list(range(5))


def test_shutting_down_may_cancel_what_has_not_begun() -> None:
    pool = PriorityThreadPoolExecutor(1)
    executor = pool.get_executor()
    with Held(pool) as held:
        futures = [executor.submit(int) for _ in range(3)]
        pool.shutdown(wait=False, cancel_futures=True)
        # `wait` returns, since it is notified of cancelled futures, too.
        assert not wait(futures, 20).not_done
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)
    assert held.future.result(20) is None


def test_nothing_can_be_submitted_afterwards(pool: PriorityThreadPoolExecutor) -> None:
    executor = pool.get_executor()
    pool.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(int)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.get_executor().submit(int)


def test_an_entrypoint_does_not_shut_down_the_pool(pool: PriorityThreadPoolExecutor) -> None:
    with pool.get_executor() as executor:
        executor.submit(int).result(20)
    assert executor.submit(int, "3").result(20) == 3


def test_an_initializer_that_fails_breaks_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    def initializer(_: object) -> None:
        raise OSError("no such device")

    with PriorityThreadPoolExecutor(1, initializer=initializer, initargs=(1,)) as pool:
        executor = pool.get_executor()
        futures = []
        for _ in range(3):
            try:
                futures.append(executor.submit(int))
            except BrokenExecutor:
                break
        assert futures
        for future in futures:
            assert isinstance(future.exception(20), BrokenExecutor)
        with pytest.raises(BrokenExecutor, match="initializer failed"):
            executor.submit(int)
        assert "broken" in repr(pool)


def test_threads_are_named_and_initialized() -> None:
    local = threading.local()

    def initializer(value: int) -> None:
        local.value = value

    def read() -> tuple[str, int]:
        return threading.current_thread().name, local.value

    with PriorityThreadPoolExecutor(2, "mine", initializer, (7,)) as pool:
        name, value = pool.get_executor().submit(read).result(20)
    assert name.startswith("mine")
    assert value == 7


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_workers": 0}, ValueError, "`max_workers` must be an int of at least 1, got 0"),
        ({"max_workers": -1}, ValueError, "got -1"),
        ({"max_workers": 1.5}, TypeError, "got 1.5"),
        ({"max_workers": True}, TypeError, "got True"),
        ({"initializer": 3}, TypeError, "`initializer` must be a callable or None, got 3"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PriorityThreadPoolExecutor(**arguments)


@pytest.mark.parametrize(
    ("priority", "error"), [("high", TypeError), (True, TypeError), ([1], TypeError), (float("nan"), ValueError)]
)
def test_wrong_priorities(pool: PriorityThreadPoolExecutor, priority: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`priority` must be a number or None"):
        pool.get_executor(priority=priority)


def test_a_pool_that_is_forgotten_ends_its_threads() -> None:
    pool = PriorityThreadPoolExecutor(1)
    executor = pool.get_executor()
    future = executor.submit(threading.current_thread)
    thread, gone = future.result(20), weakref.ref(pool)
    del pool, executor, future
    gc.collect()
    assert gone() is None
    thread.join(20)
    assert not thread.is_alive()


def test_results_are_not_kept_alive() -> None:
    class Large:
        pass

    with PriorityThreadPoolExecutor(1) as pool:
        executor = pool.get_executor()
        future = executor.submit(Large)
        gone = weakref.ref(future.result(20))
        del future

        def is_gone() -> bool:
            let_go()
            return gone() is None

        # The worker drops its last call when it waits for the next one.
        assert wait_until(is_gone)


def test_a_finalizer_may_submit(pool: PriorityThreadPoolExecutor) -> None:
    """The collector may run inside the pool's own critical sections."""
    executor = pool.get_executor()
    futures: list[Future[int]] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            futures.append(executor.submit(int))

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            Cycle()
            futures.append(executor.submit(int))
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(futures) == 100
    assert [future.result(20) for future in futures] == 100 * [0]


def test_what_was_submitted_is_done_before_the_interpreter_exits() -> None:
    code = """if True:
        import time
        from spdl.pipeline import PriorityThreadPoolExecutor
        executor = PriorityThreadPoolExecutor(1).get_executor()
        for number in range(5):
            executor.submit(lambda number=number: (time.sleep(0.02), print(number)))
    """
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)
    assert run.stdout.split() == ["0", "1", "2", "3", "4"]
    assert run.stderr == ""


def test_a_call_that_submits_for_ever_does_not_hold_up_the_exit() -> None:
    code = """if True:
        from spdl.pipeline import PriorityThreadPoolExecutor
        executor = PriorityThreadPoolExecutor(1).get_executor()
        def again():
            try:
                executor.submit(again)
            except RuntimeError as error:
                print(error)
        again()
    """
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)
    assert run.stdout == "cannot schedule new futures after interpreter shutdown\n"


def test_a_pool_of_the_standard_library_has_the_same_interface(pool: PriorityThreadPoolExecutor) -> None:
    executor = pool.get_executor()
    # From Python 3.14 on, a pool shows its own kind two more.
    names = {name for name in dir(ThreadPoolExecutor) if not name.startswith("_")} - {"BROKEN", "prepare_context"}
    assert {name for name in dir(executor) if not name.startswith("_")} == names
    # Calls are submitted through entrypoints only, so the pool has no `submit`.
    assert {name for name in dir(pool) if not name.startswith("_")} == {"get_executor", "shutdown"}

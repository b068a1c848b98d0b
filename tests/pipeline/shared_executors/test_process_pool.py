"""Test processes that take the most urgent call first, and entrypoints in other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import (
    PriorityExecutorEntrypoint,
    PriorityInterpreterPoolExecutor,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(f"{text} ")


def exists(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.001)


def fail(_: object) -> None:
    raise OSError("no such device")


KEPT: list[object] = []


def keep_and_use(executors: Sequence[PriorityExecutorEntrypoint]) -> list[int]:
    KEPT.append(executors)
    return processes_behind(executors)


def processes_behind(executors: Sequence[PriorityExecutorEntrypoint]) -> list[int]:
    return [executor.submit(os.getpid).result(20) for executor in executors]


def test_the_most_urgent_call_goes_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with PriorityProcessPoolExecutor(1) as pool:
        early, late = pool.get_executor(), pool.get_executor()
        early.submit(exists, tmp_path / "go")
        futures = [early.submit(write, log, f"early{item}") for item in range(5)]
        futures += [late.submit(write, log, f"late{item}") for item in range(5)]
        (tmp_path / "go").touch()
        wait(futures, 20)
    # No call waits ahead of a more urgent one, not even in the queue to the processes.
    assert log.read_text().split() == [*(f"late{item}" for item in range(5)), *(f"early{item}" for item in range(5))]


def test_all_processes_are_used(tmp_path: Path) -> None:
    with PriorityProcessPoolExecutor(2) as pool:
        executors = [pool.get_executor(), pool.get_executor()]
        # The first call returns only when the second one has run.
        first = executors[0].submit(exists, tmp_path / "there")
        second = executors[1].submit(write, tmp_path / "there", "")
        assert not wait([first, second], 20).not_done


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_start_methods(method: str) -> None:
    with PriorityProcessPoolExecutor(1, mp_context=method) as pool:
        assert pool.get_executor().submit(os.getpid).result(30) != os.getpid()
    with PriorityProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert pool.get_executor().submit(multiprocessing.get_start_method).result(30)


def test_a_process_that_dies_breaks_the_pool(tmp_path: Path) -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        executor, other = pool.get_executor(), pool.get_executor()
        pid = executor.submit(os.getpid).result(20)
        running = executor.submit(exists, tmp_path / "never")
        waiting = [other.submit(os.getpid), executor.submit(os.getpid)]
        os.kill(pid, signal.SIGKILL)
        # No future waits for ever, and each has its own exception.
        futures: list[Future[Any]] = [running, *waiting]
        errors = [future.exception(20) for future in futures]
        assert all(isinstance(error, BrokenExecutor) for error in errors)
        assert len(set(map(id, errors))) == 3
        with pytest.raises(BrokenExecutor, match="terminated abruptly"):
            executor.submit(os.getpid)
        assert "broken" in repr(pool)


def test_a_process_that_dies_idle_breaks_the_pool() -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        executor = pool.get_executor()
        os.kill(executor.submit(os.getpid).result(20), signal.SIGKILL)

        def ask() -> None:
            for _ in range(1000):
                executor.submit(os.getpid).result(20)
                time.sleep(0.01)

        with pytest.raises(BrokenExecutor):
            ask()


def test_an_initializer_that_fails_breaks_the_pool() -> None:
    with PriorityProcessPoolExecutor(1, initializer=fail, initargs=(1,)) as pool:
        assert isinstance(pool.get_executor().submit(os.getpid).exception(20), BrokenExecutor)


def test_what_cannot_be_pickled_is_the_calls_failure() -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        executor = pool.get_executor()
        assert executor.submit(lambda: 1).exception(20) is not None
        assert executor.submit(os.getpid).result(20) != os.getpid()


def test_processes_are_replaced_after_so_many_calls() -> None:
    with PriorityProcessPoolExecutor(1, mp_context="spawn", max_tasks_per_child=1) as pool:
        executor = pool.get_executor()
        assert len(set(processes_behind([executor, executor]))) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_workers": 0}, ValueError),
        ({"max_workers": "2"}, TypeError),
        ({"initializer": 3}, TypeError),
        ({"mp_context": "thread"}, ValueError),
        ({"num_workers": 3}, TypeError),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        PriorityProcessPoolExecutor(**arguments)


def test_entrypoints_are_connected_again_in_the_same_process() -> None:
    with PriorityProcessPoolExecutor(1) as pool:
        executors = [pool.get_executor(), pool.get_executor(priority=5)]
        copies: list[PriorityExecutorEntrypoint] = pickle.loads(pickle.dumps(executors))  # noqa: S301 - made here.
        assert len(set(processes_behind([*executors, *copies]))) == 1
        assert list(map(repr, copies)) == list(map(repr, executors))
        assert pickle.loads(pickle.dumps(pool)) is pool  # noqa: S301 - made here.


@pytest.mark.parametrize("kind", [PriorityProcessPoolExecutor, PriorityThreadPoolExecutor])
@pytest.mark.parametrize("pickled", ["before", "after"])
def test_a_copy_of_a_pool_that_was_shut_down_is_open(kind: Any, pickled: str) -> None:
    pool = kind(1)
    executors = [pool.get_executor(), pool.get_executor(priority=5)]
    content = pickle.dumps((pool, executors))
    pool.shutdown()
    if pickled == "after":
        content = pickle.dumps((pool, executors))
    copy, copies = pickle.loads(content)  # noqa: S301 - made here.
    with copy:
        assert copy is not pool
        # All copies share one pool, whose entrypoints have the priorities of the originals.
        assert len(set(processes_behind([*copies, copy.get_executor()]))) == 1
        assert pickle.loads(content)[0] is copy  # noqa: S301 - made here.
        assert [repr(each).partition(" to ")[0] for each in copies] == [
            repr(each).partition(" to ")[0] for each in executors
        ]
        with pytest.raises(RuntimeError, match="after shutdown"):
            executors[0].submit(os.getpid)
    again: list[PriorityExecutorEntrypoint] = pickle.loads(content)[1]  # noqa: S301 - made here.
    assert len(set(processes_behind(again))) == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", [PriorityProcessPoolExecutor, PriorityThreadPoolExecutor])
def test_a_pool_that_was_shut_down_works_in_another_process(kind: Any, method: str) -> None:
    with kind(1) as pool:
        executors = [pool.get_executor()]
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as elsewhere:
        assert elsewhere.submit(processes_behind, executors).result(30)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", [PriorityProcessPoolExecutor, PriorityThreadPoolExecutor])
def test_entrypoints_of_a_pool_share_one_in_another_process(kind: Any, method: str) -> None:
    """That holds for a forked process, too, although its copy of the pool has no threads."""
    with kind(1) as pool, ProcessPoolExecutor(1, multiprocessing.get_context(method)) as elsewhere:
        executors = [pool.get_executor(), pool.get_executor()]
        here = processes_behind(executors)
        child = elsewhere.submit(os.getpid).result(30)
        there = elsewhere.submit(processes_behind, executors).result(30)
        assert len(set(there)) == 1
        assert there != here
        if kind is PriorityThreadPoolExecutor:
            assert there == [child, child]
        if method == "fork":
            # Each call uses the same pool again.
            assert elsewhere.submit(processes_behind, executors).result(30) == there


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("use", [keep_and_use, processes_behind])
def test_a_process_ends_the_pool_that_was_made_there(use: Any, method: str) -> None:
    """Nothing hangs at the exit, where multiprocessing waits for the pool's processes, and these wait for work."""
    with PriorityProcessPoolExecutor(1) as pool:
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=use, args=([pool.get_executor()],))
        process.start()
        process.join(30)
        assert process.exitcode == 0


def test_an_entrypoint_works_in_a_forked_child() -> None:
    with PriorityThreadPoolExecutor(1) as pool:
        executor = pool.get_executor()
        executor.submit(os.getpid).result(20)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, str(executor.submit(os.getpid).result(20)).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            assert pipe.read() == str(child)
        assert executor.submit(os.getpid).result(20) == os.getpid()


def test_what_was_submitted_is_done_before_the_interpreter_exits(tmp_path: Path) -> None:
    code = """if True:
        import sys, time, pathlib
        from spdl.pipeline import PriorityProcessPoolExecutor
        def touch(path):
            time.sleep(0.02)
            path.touch()
        executor = PriorityProcessPoolExecutor(1, mp_context="fork").get_executor()
        for number in range(5):
            executor.submit(touch, pathlib.Path(sys.argv[1]) / str(number))
    """
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, timeout=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]


def test_shutting_down_without_waiting_ends_the_processes() -> None:
    pool = PriorityProcessPoolExecutor(1)
    executor = pool.get_executor()
    futures: list[Future[int]] = [executor.submit(os.getpid) for _ in range(3)]
    pool.shutdown(wait=False)
    # The check for leaks sees whether the processes have ended.
    assert len({future.result(20) for future in futures}) == 1


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it works there")
def test_interpreters_need_a_later_python() -> None:
    with pytest.raises(RuntimeError, match=r"requires Python 3\.14 or later\. Current version: 3\.1"):
        PriorityInterpreterPoolExecutor(1)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="it has no interpreters for it")
def test_interpreters() -> None:
    with PriorityInterpreterPoolExecutor(1) as pool:
        early, late = pool.get_executor(), pool.get_executor()
        assert early.submit(divmod, 7, 3).result(20) == late.submit(divmod, 7, 3).result(20) == (2, 1)

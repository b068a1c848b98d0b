"""Executors whose threads and processes are fibers."""

from __future__ import annotations

import pickle
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.simulation import scheduler
from tests.simulation.scheduler import Fiber, step
from tests.simulation.world import Thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ProcessPool", "ThreadPool"]


class _Future(Future[Any]):
    """A future whose reader waits in simulated time."""

    def result(self, timeout: float | None = None) -> Any:
        world = scheduler.active
        while not self.done():
            world.block("time", 0.001)
        return super().result(timeout)


class _Pool:
    """Some fibers that make calls in the order of their submission."""

    def __init__(self, max_workers: int, *, pickles: bool) -> None:
        self._calls: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._idle: list[Fiber] = []
        self._count = 0
        self._closed = False
        self._limit = max_workers
        self._pickles = pickles
        # The number of the call for which it has no thread, and how many were submitted.
        self.fails_at = -1
        self._submitted = 0
        # How many are there, and were at most.
        self._there = self.most_calls = 0

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        step()
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = _Future()
        self._submitted += 1
        if self._submitted - 1 == self.fails_at:
            future.set_exception(RuntimeError("can't start new thread"))
            return future
        self._there += 1
        self.most_calls = max(self.most_calls, self._there)
        self._calls.append((future, function, args))
        if self._idle:
            scheduler.active.wake(self._idle.pop())
        elif self._count < self._limit:
            self._count += 1
            Thread(target=self._work, name=f"pool_{self._count}", daemon=True).start()
        step()
        return future

    def _work(self) -> None:
        world = scheduler.active
        while True:
            while self._calls:
                future, function, args = self._calls.popleft()
                step()
                if future.set_running_or_notify_cancel():
                    self._call(future, function, args)
                else:
                    self._there -= 1
                del future, function, args
            if self._closed:
                return
            fiber = world.current
            assert fiber is not None
            self._idle.append(fiber)
            world.block("a call")

    def _call(self, future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        # Ops whose copies are in other processes cannot say by themselves that they are called.
        scheduler.active.progressed()
        fiber = scheduler.active.current
        assert fiber is not None
        try:
            if self._pickles:
                function, args = pickle.loads(pickle.dumps((function, args)))  # noqa: S301 - as a pool of processes.
            fiber.elsewhere = self._pickles
            try:
                result = function(*args)
            finally:
                fiber.elsewhere = False
            if self._pickles:
                result = pickle.loads(pickle.dumps(result))  # noqa: S301 - as above.
        except BaseException as error:  # noqa: BLE001 - as executors do.
            self._there -= 1
            future.set_exception(error)
        else:
            self._there -= 1
            future.set_result(result)

    def close(self, *, cancel_futures: bool = False) -> None:
        """Let the fibers end once no call is left."""
        self._closed = True
        for future, _, _ in list(self._calls) if cancel_futures else []:
            future.cancel()
        idle, self._idle = self._idle, []
        for fiber in idle:
            scheduler.active.wake(fiber)


class ThreadPool(ThreadPoolExecutor):
    """Looks like a `ThreadPoolExecutor`; its threads are fibers."""

    def __init__(self, max_workers: int, *, fails_at: int = -1) -> None:
        super().__init__(max_workers)
        self._pool = _Pool(max_workers, pickles=False)
        self._pool.fails_at = fails_at

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        return self._pool.submit(function, *args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        self._pool.close(cancel_futures=cancel_futures)


class ProcessPool(ProcessPoolExecutor):
    """Looks like a `ProcessPoolExecutor`; its processes are fibers, to which calls and results come pickled."""

    def __init__(self, max_workers: int) -> None:
        # Without the queues and pipes of the real one.
        self._max_workers = self.workers = max_workers
        self._pool = _Pool(max_workers, pickles=True)

    @property
    def most_calls(self) -> int:
        """How many calls were there at most that have not ended."""
        return self._pool.most_calls

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:  # type: ignore[override]
        return self._pool.submit(function, *args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        self._pool.close(cancel_futures=cancel_futures)

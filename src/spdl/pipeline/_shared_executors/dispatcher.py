"""Decides which call of a priority pool runs next."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import threading
import weakref
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._processes import WORKERS, before_children_are_awaited
from spdl.pipeline._world import Condition, RLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Dispatcher"]


class _Call(NamedTuple):
    """A submitted call. Tuples sort by their first fields: the greatest priority first, then the oldest call."""

    negated_priority: float
    number: int
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Dispatcher:
    """Keeps the waiting calls, and submits the most urgent one whenever a worker is free.

    The workers belong to an executor of the standard library, which handles their start, end and failures. The executor
    never gets more calls than it has workers. A call that waited there would be ordered by its age alone.

    Args:
        make_executor: Makes the executor. Called again in a forked child.
        max_workers: How many workers the executor has.
    """

    def __init__(self, make_executor: Callable[[], Executor], max_workers: int) -> None:
        self._make_executor = make_executor
        self.max_workers = max_workers
        self.closed = False
        self._numbers = itertools.count()
        self._reset()
        _DISPATCHERS.add(self)
        self._executor: Executor | None = None
        # Opened at once, so that wrong arguments show here and not at the first call.
        self._open()

    def _reset(self) -> None:
        # Reentrant: a finalizer or a signal handler may submit a call while its thread holds the lock.
        self._lock = RLock()
        self._idle = Condition(self._lock)
        self._waiting: list[_Call] = []
        self._handed_over = 0
        # How many threads wait in `shutdown`.
        self._joining = 0
        self.broken: BrokenExecutor | None = None

    def _open(self) -> Executor:
        with self._lock:
            if self._executor is None:
                self._executor = self._make_executor()
                self._finalizer = weakref.finalize(self, _end, self._executor)
                self._finalizer.atexit = False
                _finish_before(type(self._executor))
            return self._executor

    def submit(
        self, priority: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Future[Any]:
        """Submit a call; see `PriorityExecutorEntrypoint.submit`."""
        future: Future[Any] = Future()
        call = _Call(-priority, next(self._numbers), future, function, args, kwargs)
        with self._lock:
            if self.broken is not None:
                raise _copy(self.broken)
            if self.closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if _exiting:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            heapq.heappush(self._waiting, call)
        self._hand_over()
        return future

    def _hand_over(self) -> None:
        """Submit the most urgent call to the executor if a worker is free.

        A submission adds one call and a result frees one worker, so one hand-over for each is enough.
        """
        while (call := self._take()) is not None:
            if not call.future.set_running_or_notify_cancel():
                self._release()
                continue
            before_children_are_awaited(_shut_down_all, WORKERS)
            try:
                result = self._open().submit(call.function, *call.args, **call.kwargs)
            except BaseException as error:  # noqa: BLE001 - it is broken, or the interpreter exits: the future says so.
                if isinstance(error, BrokenExecutor):
                    self._break(error)
                call.future.set_exception(error)
                self._release()
                continue
            # If the result is there already, this hands over the next call.
            result.add_done_callback(partial(self._landed, call.future))
            return

    def _take(self) -> _Call | None:
        with self._lock:
            if self._handed_over >= self.max_workers or not self._waiting:
                return None
            self._handed_over += 1
            return heapq.heappop(self._waiting)

    def _landed(self, future: Future[Any], result: Future[Any]) -> None:
        """Pass an outcome on, then hand over the next call. The caller may have submitted a more urgent one by then."""
        error = CancelledError() if result.cancelled() else result.exception()
        if error is None:
            future.set_result(result.result())
        else:
            # The call may have raised this because of a pool of its own, so ask the executor whether it is broken.
            if isinstance(error, BrokenExecutor) and getattr(self._executor, "_broken", True):
                self._break(error)
            future.set_exception(error)
        self._release()
        self._hand_over()

    def _break(self, error: BrokenExecutor) -> None:
        """Fail all waiting calls. The executor holds its own lock now, so nothing may be called on it."""
        with self._lock:
            self.broken = error
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(_copy(error))

    def _release(self) -> None:
        """Count one more free worker."""
        with self._lock:
            self._handed_over -= 1
            idle = not (self._waiting or self._handed_over)
            if idle:
                self._idle.notify_all()
            ended = idle and self.closed and not self._joining and self.broken is None
        if ended and self._executor is not None:
            self._executor.shutdown(wait=False)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Accept no more calls, and end the workers; see `PriorityPool.shutdown`."""
        with self._lock:
            self.closed = True
            cancelled: list[_Call] = []
            if cancel_futures:
                cancelled, self._waiting = self._waiting, []
            idle = not (self._waiting or self._handed_over)
            self._joining += 1 if wait else 0
        for call in cancelled:
            call.future.cancel()
            call.future.set_running_or_notify_cancel()
        if wait:
            try:
                self.wait_until_idle()
            finally:
                with self._lock:
                    self._joining -= 1
        if (wait or idle) and self._executor is not None:
            self._executor.shutdown(wait=wait)

    def wait_until_idle(self) -> None:
        """Wait until all submitted calls have ended."""
        with self._idle:
            self._idle.wait_for(lambda: not (self._waiting or self._handed_over))

    def abandon(self) -> None:
        """Start afresh in a forked child: the workers, and the results of their calls, stay in the parent."""
        # The executor is not shut down: that would take a lock that a thread of the parent may have held.
        self._finalizer.detach()
        _LEFT_BEHIND.append(self._executor)
        self._executor = None
        self._reset()


def _copy(error: BrokenExecutor) -> BrokenExecutor:
    # Each caller gets an exception of its own, since a traceback grows each time its exception is raised.
    return type(error)(*error.args)


_DISPATCHERS: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
# Threads that end the processes of pools that were garbage collected.
_ENDING: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_PRECEDED: set[type[Executor]] = set()
_LEFT_BEHIND: list[Executor | None] = []
_exiting = False


def _end(executor: Executor) -> None:
    """End the workers of a pool that was garbage collected."""
    thread = getattr(executor, "_executor_manager_thread", None)
    if thread is not None:
        _ENDING.add(thread)
    executor.shutdown(wait=False)


def _finish_all() -> None:
    """Wait until all submitted calls have ended. Executors do the same at exit, but only for calls that they hold."""
    global _exiting  # noqa: PLW0603 - state of the process.
    _exiting = True
    for dispatcher in list(_DISPATCHERS):
        dispatcher.wait_until_idle()


def _finish_before(kind: type[Executor]) -> None:
    """Register a hook that finishes all calls before the interpreter exits.

    Hooks of `atexit` run too late: concurrent.futures uses another list of hooks, and accepts no calls after they have
    run. The last hook of that list runs first, so ours must be registered after that of the executor's module.
    """
    if kind not in _PRECEDED:
        _PRECEDED.add(kind)
        # During the exit, nothing can be registered or submitted any more.
        with contextlib.suppress(RuntimeError):
            threading._register_atexit(_finish_all)  # type: ignore[attr-defined] # noqa: SLF001


def _shut_down_all() -> None:
    for dispatcher in list(_DISPATCHERS):
        dispatcher.shutdown(wait=True, cancel_futures=False)
    for thread in list(_ENDING):
        thread.join()


def _abandon_all() -> None:
    for dispatcher in list(_DISPATCHERS):
        dispatcher.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

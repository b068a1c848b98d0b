"""Who is next, and when."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import sys
import threading
import weakref
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Dispatcher"]


class _Call(NamedTuple):
    """What was submitted. Tuples sort by their first fields: the greatest priority first, then the oldest."""

    negated_priority: float
    number: int
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Dispatcher:
    """Keeps the calls that wait, and hands the most urgent one over whenever a worker is free.

    The workers are those of an executor of the standard library, which sees to their start, their end and their faults.
    It never gets more calls than it has workers, so none waits there, where only its age would count.

    Args:
        make_executor: Makes the executor, and another one in a forked child.
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
        # Wrong arguments show here, and not at the first call.
        self._open()

    def _reset(self) -> None:
        # A finalizer or a signal handler may submit a call while its thread is in here.
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._waiting: list[_Call] = []
        self._handed_over = 0
        # Who waits in `shutdown`.
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
        """Have a call made when it is the most urgent one; see `PriorityExecutorEntrypoint.submit`."""
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
        """Give the most urgent call to the executor if a worker is free for it.

        A submission brings one call more, a result one free worker more: one hand-over for each is enough.
        """
        while (call := self._take()) is not None:
            if not call.future.set_running_or_notify_cancel():
                self._release()
                continue
            _finish_before_multiprocessing()
            try:
                result = self._open().submit(call.function, *call.args, **call.kwargs)
            except BaseException as error:  # noqa: BLE001 - it is broken, or the interpreter exits: the caller is told.
                if isinstance(error, BrokenExecutor):
                    self._break(error)
                call.future.set_exception(error)
                self._release()
                continue
            # If it is here already, this takes the next one.
            result.add_done_callback(partial(self._landed, call.future))
            return

    def _take(self) -> _Call | None:
        with self._lock:
            if self._handed_over >= self.max_workers or not self._waiting:
                return None
            self._handed_over += 1
            return heapq.heappop(self._waiting)

    def _landed(self, future: Future[Any], result: Future[Any]) -> None:
        """Pass an outcome on, and then see who is next: whoever waited for it may have had more urgent calls."""
        error = CancelledError() if result.cancelled() else result.exception()
        if error is None:
            future.set_result(result.result())
        else:
            # A call may raise this on account of a pool of its own. An executor that is broken knows.
            if isinstance(error, BrokenExecutor) and getattr(self._executor, "_broken", True):
                self._break(error)
            future.set_exception(error)
        self._release()
        self._hand_over()

    def _break(self, error: BrokenExecutor) -> None:
        """Fail all that waits. The executor holds its own lock now, and must not be asked for anything."""
        with self._lock:
            self.broken = error
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(_copy(error))

    def _release(self) -> None:
        """Count a free worker more."""
        with self._lock:
            self._handed_over -= 1
            idle = not (self._waiting or self._handed_over)
            if idle:
                self._idle.notify_all()
            ended = idle and self.closed and not self._joining and self.broken is None
        if ended and self._executor is not None:
            self._executor.shutdown(wait=False)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Take no more calls, and end the workers; see `PriorityPool.shutdown`."""
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
        """Wait for all that was submitted."""
        with self._idle:
            self._idle.wait_for(lambda: not (self._waiting or self._handed_over))

    def abandon(self) -> None:
        """Begin anew in a forked child: the workers stayed in the parent, and so do the results of what they do."""
        # Ending it would take a lock that a thread of the parent's may have held.
        self._finalizer.detach()
        _LEFT_BEHIND.append(self._executor)
        self._executor = None
        self._reset()


def _copy(error: BrokenExecutor) -> BrokenExecutor:
    # Each caller raises one of its own: a traceback grows wherever its exception is raised again.
    return type(error)(*error.args)


_DISPATCHERS: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
# Threads that end the processes of pools which nobody holds any more.
_ENDING: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_PRECEDED: set[type[Executor]] = set()
_LEFT_BEHIND: list[Executor | None] = []
_exiting = False
_hooked_process = 0


def _end(executor: Executor) -> None:
    """End the workers of a pool that nobody holds any more."""
    thread = getattr(executor, "_executor_manager_thread", None)
    if thread is not None:
        _ENDING.add(thread)
    executor.shutdown(wait=False)


def _finish_all() -> None:
    """Let all that was submitted be done before the executors' threads are ended, as they do for what they hold."""
    global _exiting  # noqa: PLW0603 - it is the process's own.
    _exiting = True
    for dispatcher in list(_DISPATCHERS):
        dispatcher.wait_until_idle()


def _finish_before(kind: type[Executor]) -> None:
    """See to the exit of the interpreter.

    Hooks of `atexit` come too late: concurrent.futures, which has hooks of another list, takes no calls by then. The
    last one of that list is called first, so ours must come after that of the executor's module.
    """
    if kind not in _PRECEDED:
        _PRECEDED.add(kind)
        # During the exit nothing can be registered, or submitted, any more.
        with contextlib.suppress(RuntimeError):
            threading._register_atexit(_finish_all)  # type: ignore[attr-defined] # noqa: SLF001


def _shut_down_all() -> None:
    for dispatcher in list(_DISPATCHERS):
        dispatcher.shutdown(wait=True, cancel_futures=False)
    for thread in list(_ENDING):
        thread.join()


def _finish_before_multiprocessing() -> None:
    """See to the exit of a process that multiprocessing started, which has an order of its own.

    It closes the queues to a pool's processes and then waits for these, before it runs any other hook; they wait for
    the word to end, for ever. Its list of hooks is emptied when such a process begins, so they are set up late.
    """
    global _hooked_process  # noqa: PLW0603 - it is the process's own.
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _hooked_process != os.getpid():
        _hooked_process = os.getpid()
        util.Finalize(None, _shut_down_all, exitpriority=100)


def _abandon_all() -> None:
    for dispatcher in list(_DISPATCHERS):
        dispatcher.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

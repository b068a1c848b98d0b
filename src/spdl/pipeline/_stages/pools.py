"""Pools of threads, processes or interpreters that several stages share, with the most urgent call first."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import platform
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar
from weakref import WeakValueDictionary

from spdl._check import check_flag, check_number, positive, refuse
from spdl._cores import available_cores, default_threads
from spdl._processes import WORKERS, RenewedLock, before_children_are_awaited
from spdl.pipeline._world import Condition, RLock


class _WaitingCall(NamedTuple):
    """A submitted call. Tuples sort by their first fields: the greatest priority first, then the oldest call."""

    negated_priority: float
    number: int
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Dispatcher:
    """Keeps the waiting calls, and submits the most urgent one whenever a worker is free.

    The workers belong to an executor of the standard library, which handles their start, end and failures, and which is
    made again in a forked child. It never gets more calls than it has workers: a call that waited there would be
    ordered by its age alone.
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
        self._waiting: list[_WaitingCall] = []
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
        future: Future[Any] = Future()
        call = _WaitingCall(-priority, next(self._numbers), future, function, args, kwargs)
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

    def _take(self) -> _WaitingCall | None:
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
            # The call itself may have used a pool that broke, so ask the executor whether it is broken.
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
        with self._lock:
            self._handed_over -= 1
            idle = not (self._waiting or self._handed_over)
            if idle:
                self._idle.notify_all()
            ended = idle and self.closed and not self._joining and self.broken is None
        if ended and self._executor is not None:
            self._executor.shutdown(wait=False)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        with self._lock:
            self.closed = True
            cancelled: list[_WaitingCall] = []
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
    # Each caller gets its own exception, since a traceback grows each time its exception is raised.
    return type(error)(*error.args)


_DISPATCHERS: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
# Threads that end the processes of pools that were garbage collected.
_ENDING: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_PRECEDED: set[type[Executor]] = set()
_LEFT_BEHIND: list[Executor | None] = []
_exiting = False


def _end(executor: Executor) -> None:
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
    run. The last hook of that list runs first, so ours must be registered after the hook of the executor's module.
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


os.register_at_fork(after_in_child=_abandon_all)


P = ParamSpec("P")
T = TypeVar("T")


class PriorityExecutorEntrypoint(Executor):
    """An executor that submits calls to a priority pool, with its own priority.

    A pool's ``get_executor`` makes it. Give it to a stage like any other executor. Its calls begin in the order of
    their submission, before all waiting calls of entrypoints with a lower priority. A call that has begun is not
    interrupted.

    The workers belong to the pool. ``shutdown`` of an entrypoint does nothing; shut down the pool instead.

    An entrypoint can be pickled and sent to another process. There it belongs to a pool of that process, made with the
    same arguments. All entrypoints that were sent from one pool share one pool there. In the same process a copy
    belongs to the original's pool or, if that was shut down, to a new pool that all copies share. A new pool ends its
    workers when it and its entrypoints are garbage collected, or when the interpreter exits.

    Example:
        >>> from spdl.pipeline import PriorityThreadPoolExecutor
        >>> with PriorityThreadPoolExecutor(max_workers=1) as pool:
        ...     entrypoint = pool.get_executor(priority=1)
        ...     print(entrypoint.submit(pow, 2, 10).result())
        1024
    """

    def __init__(self, owner: PriorityPool, priority: float) -> None:
        self._owner = owner
        self._priority = priority

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a call to the workers of the pool.

        Args:
            fn: The function to call.
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The future of the call's result. It can be cancelled as long as the call has not begun.

        Raises:
            RuntimeError: If the pool was shut down, or the interpreter is exiting.
            concurrent.futures.BrokenExecutor: If the pool has lost a process, or an initializer failed.
        """
        return self._owner._dispatcher.submit(self._priority, fn, args, kwargs)  # noqa: SLF001 - part of the pool.

    @property
    def _max_workers(self) -> int:
        # The name that the standard library's pools use. A pipeline reads the number of processes from it.
        return self._owner._dispatcher.max_workers  # noqa: SLF001 - part of the pool.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of priority {self._priority:g} to {self._owner!r}>"


def executor_type_of(executor: Executor) -> type[Executor]:
    """Return the executor's class, or for an entrypoint the class of the executor that runs its calls."""
    if isinstance(executor, PriorityExecutorEntrypoint):
        return executor._owner._kind  # noqa: SLF001 - part of the pool.
    return type(executor)


class PriorityPool:
    """A pool whose workers are shared by entrypoints of different priorities. It can be pickled."""

    def __init__(self, kind: type[Executor], arguments: dict[str, Any], default_workers: int) -> None:
        initializer, max_workers = arguments.get("initializer"), arguments["max_workers"]
        if initializer is not None and not callable(initializer):
            refuse(TypeError, "initializer", "a callable or None", initializer)
        workers = default_workers if max_workers is None else positive("max_workers", max_workers)
        # Shared with the pools that stand for this one in other processes.
        self._identity = os.urandom(16)
        _CONNECTED[self._identity] = self
        # The class of the standard library's executor that has the workers.
        self._kind = kind
        # Another process makes its own pool with these.
        self._arguments = arguments
        self._ranks = itertools.count(1)
        self._dispatcher = Dispatcher(partial(kind, **{**arguments, "max_workers": workers}), workers)

    def get_executor(self, *, priority: float | None = None) -> PriorityExecutorEntrypoint:
        """Return a new entrypoint of the pool.

        Args:
            priority: Calls with a greater priority begin first; calls with the same priority begin in the order of
                submission. By default the first entrypoint has priority 1, the second 2, and so on. If stages get
                their entrypoints in order, the stage nearest the sink goes first, so that finished work leaves before
                new work begins.

        Raises:
            TypeError: If the priority is not a number.
            ValueError: If it is NaN.
        """
        rank = next(self._ranks) if priority is None else check_number("priority", priority, "a number or None")
        return PriorityExecutorEntrypoint(self, rank)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the reference's signature.
        """Accept no more calls, and end the workers once all submitted calls are done.

        Args:
            wait: Whether to return only when the workers have ended. Otherwise they end in the background.
            cancel_futures: Whether to cancel the calls that have not begun.

        Raises:
            TypeError: If an argument is neither True nor False.
        """
        wait = check_flag("wait", wait)
        self._dispatcher.shutdown(wait=wait, cancel_futures=check_flag("cancel_futures", cancel_futures))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _connect, (type(self), self._identity, self._arguments)

    def __repr__(self) -> str:
        state = "broken" if self._dispatcher.broken else "shut down" if self._dispatcher.closed else "open"
        return f"<{type(self).__name__} ({state}, max_workers={self._dispatcher.max_workers})>"


_CONNECTED: WeakValueDictionary[bytes, PriorityPool] = WeakValueDictionary()
_connecting = RenewedLock()


def _connect(kind: type[PriorityPool], identity: bytes, arguments: dict[str, Any]) -> PriorityPool:
    """Return this process's pool for a pickled pool. If there is none, or it was shut down, make a new one."""
    with _connecting:
        pool = _CONNECTED.get(identity)
        if pool is None or pool._dispatcher.closed:  # noqa: SLF001
            pool = kind(**arguments)
            pool._identity = identity  # noqa: SLF001
            _CONNECTED[identity] = pool
        return pool


class PriorityThreadPoolExecutor(PriorityPool):
    """A pool of threads that several stages share. The most urgent call begins first.

    The pool itself is not an executor: `get_executor` makes them. The caller owns the pool: a pipeline does not shut it
    down.

    Args:
        max_workers: How many calls run at once. By default 4 more than the cores that this process may use (its
            affinity and its container's quota count), 32 at most.
        thread_name_prefix: The beginning of the threads' names.
        initializer: Called in each thread when it starts. If it raises, the pool is broken.
        initargs: The arguments of the initializer.

    Raises:
        TypeError, ValueError: If ``max_workers`` is not an int of at least 1, or the initializer cannot be called.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, PriorityThreadPoolExecutor
        >>> with PriorityThreadPoolExecutor(4) as pool:
        ...     builder = (
        ...         PipelineBuilder()
        ...         .add_source(range(3))
        ...         .pipe(lambda x: x + 1, executor=pool.get_executor(), concurrency=4)
        ...         .pipe(str, executor=pool.get_executor(), concurrency=4)  # Goes first.
        ...         .add_sink()
        ...     )
        ...     with builder.build(num_threads=1).auto_stop() as pipeline:
        ...         print(sorted(pipeline))
        ['1', '2', '3']
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        # That of concurrent.futures, but counting only the cores that this process may use.
        default = default_threads(available_cores())
        arguments = {
            "max_workers": max_workers,
            "thread_name_prefix": thread_name_prefix,
            "initializer": initializer,
            "initargs": initargs,
        }
        super().__init__(ThreadPoolExecutor, arguments, default)


class PriorityProcessPoolExecutor(PriorityPool):
    """A pool of processes that several stages share. The most urgent call begins first.

    The pool itself is not an executor: `get_executor` makes them. The caller owns the pool: a pipeline does not shut it
    down. A process gets its next call only when it has returned the result of the last one. This costs some 100
    microseconds for each call, but no urgent call waits for one of lower priority that has not begun.

    Args:
        max_workers: How many processes there are. By default as many as cores that this process may use (its affinity
            and its container's quota count).
        **kwargs: ``mp_context``, ``initializer``, ``initargs`` and ``max_tasks_per_child``, as for
            `concurrent.futures.ProcessPoolExecutor`. ``mp_context`` may also be a name: ``mp_context="spawn"``.

    Raises:
        TypeError, ValueError: If ``max_workers`` is not an int of at least 1, or if `ProcessPoolExecutor` refuses
            another argument.

    Example:
        >>> import math
        >>> from spdl.pipeline import PriorityProcessPoolExecutor
        >>> with PriorityProcessPoolExecutor(2) as pool:
        ...     early, late = pool.get_executor(), pool.get_executor()
        ...     print(sorted(early.map(math.sqrt, [4, 9])), late.submit(math.sqrt, 16).result())
        [2.0, 3.0] 4.0
    """

    def __init__(self, max_workers: int | None = None, **kwargs: Any) -> None:
        # Imported here because pools of threads need neither.
        import multiprocessing  # noqa: PLC0415
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

        if isinstance(kwargs.get("mp_context"), str):
            kwargs["mp_context"] = multiprocessing.get_context(kwargs["mp_context"])
        super().__init__(ProcessPoolExecutor, {"max_workers": max_workers, **kwargs}, math.ceil(available_cores()))


class PriorityInterpreterPoolExecutor(PriorityPool):
    """A pool of interpreters that several stages share. The most urgent call begins first.

    It works like `PriorityThreadPoolExecutor`, except that calls are pickled, and that each thread runs them in an
    interpreter with its own GIL. It requires Python 3.14 or later.

    Args:
        max_workers: How many interpreters there are. By default as many as cores that this process may use.
        thread_name_prefix: The beginning of the threads' names.
        initializer: Called in each interpreter when it starts. If it raises, the pool is broken.
        initargs: The arguments of the initializer.

    Raises:
        RuntimeError: If this Python has no `concurrent.futures.InterpreterPoolExecutor`.
        TypeError, ValueError: If ``max_workers`` is not an int of at least 1, or the initializer cannot be called.

    Example:
        >>> import sys
        >>> from spdl.pipeline import PriorityInterpreterPoolExecutor
        >>> if sys.version_info >= (3, 14):
        ...     with PriorityInterpreterPoolExecutor(max_workers=1) as pool:
        ...         assert pool.get_executor(priority=1).submit(pow, 2, 10).result() == 1024
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        if sys.version_info < (3, 14):
            raise RuntimeError(
                f"{type(self).__name__} requires Python 3.14 or later. Current version: {platform.python_version()}. "
                "In earlier versions, PriorityProcessPoolExecutor runs calls with several GILs."
            )
        from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # noqa: PLC0415 - Python 3.14 only.

        arguments = {
            "max_workers": max_workers,
            "thread_name_prefix": thread_name_prefix,
            "initializer": initializer,
            "initargs": initargs,
        }
        super().__init__(InterpreterPoolExecutor, arguments, math.ceil(available_cores()))

"""Iterables and pipelines that run in another process or interpreter."""

from __future__ import annotations

import multiprocessing
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from spdl._check import check_flag, check_instance, check_int, check_str, check_timeout, refuse
from spdl._locate import callers_line
from spdl.pipeline._builder import PipelineBuilder
from spdl.pipeline._declare.interfaces import BackgroundTaskFactory
from spdl.pipeline._declare.records import MaxFailures, PipelineConfig
from spdl.pipeline._elsewhere.arena import Arena
from spdl.pipeline._elsewhere.lane import LaneEnds, Message, NotReadable, PeerGone
from spdl.pipeline._elsewhere.pipeline_runner import PipelineRunner, RandomStates
from spdl.pipeline._elsewhere.serve import (
    UNBOUNDED,
    MessageKind,
    ParentOrder,
    Payload,
    WorkerError,
    WorkerTimeoutError,
    items_per_report,
    kind_of,
    number_of,
    serve,
)
from spdl.pipeline._elsewhere.worker_process import (
    GRACE,
    IterableWorker,
    RunningInterpreter,
    RunningProcess,
    interpreter_maker,
)
from spdl.pipeline._stages.process_work import pack

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl.pipeline._graph import QueueClass, TaskHookFactory

Initializer = Callable[[], object]


def check_common(
    fn: Any, buffer_size: Any, initializer: Any, timeout: Any
) -> tuple[int, list[Initializer], float | None]:
    """Return the last three arguments, checked: without a bound, and as a list, and None for any timeout."""
    if not callable(fn):
        remedy = "Wrap it: `lambda: iterable`, or a functools.partial." if isinstance(fn, Iterable) else ""
        refuse(TypeError, "fn", "callable without arguments", fn, remedy)
    accepted = "an int of at least 1, or -1 for no bound"
    buffer_size = check_int("buffer_size", buffer_size, least=-1, accepted=accepted)
    if buffer_size == 0:
        refuse(ValueError, "buffer_size", accepted, buffer_size)
    initializers = check_initializers(initializer)
    timeout = check_timeout("timeout", timeout)
    return buffer_size if buffer_size > 0 else UNBOUNDED, initializers, None if timeout == inf else timeout


def check_initializers(initializer: Any) -> list[Initializer]:
    if initializer is None:
        return []
    if callable(initializer):
        return [initializer]
    accepted = "callable without arguments, a sequence of such callables, or None"
    if isinstance(initializer, str | bytes) or not isinstance(initializer, Sequence):
        refuse(TypeError, "initializer", accepted, initializer)
    for index, each in enumerate(initializer):
        if not callable(each):
            refuse(TypeError, f"initializer[{index}]", "callable without arguments", each)
    return list(initializer)


T = TypeVar("T")

_NOT_BEGUN = (
    "It had not begun to work; stderr may say why. Processes that are not forked import the main module, so code that "
    "starts processes belongs under `if __name__ == '__main__':` there."
)

# Seconds that a worker that was silent for too long has to end.
_GRACE_AFTER_SILENCE = 0.5


class SubprocessIterable(Generic[T]):
    """An iterable whose items are made in a worker process. Each ``iter()`` begins a new pass there.

    `iterate_in_subprocess` and `run_pipeline_in_subprocess` return it. Only one pass is under way at a time. A new pass
    ends the one before, whose iterator then raises.

    The worker ends when this object is garbage collected or closed, when the interpreter exits, and after any error.
    """

    def __init__(self, worker: IterableWorker, buffer_size: int, timeout: float | None) -> None:
        self._worker = worker
        self._timeout = timeout
        self._items_per_report = items_per_report(buffer_size)
        # Only one thread at a time talks to the worker.
        self._lock = Lock()
        # How many passes were begun. Each message carries the number of its pass.
        self._number = 0
        # The latest pass that came to its end.
        self._complete = 0
        # How many items were taken since the last report to the worker.
        self._taken = 0
        # Why there is no worker any more.
        self._over = ""
        weakref.finalize(self, worker.close).atexit = False
        with self._lock:
            message = self._receive("start")
            if kind_of(message.number) == MessageKind.ERROR:
                self._raise_error(message)
            self._worker.inbox.load(message)

    def __iter__(self) -> SubprocessIterator[T]:
        self._check_owner()
        with self._lock:
            self._check()
            self._number += 1
            self._taken = 0
            self._worker.order(ParentOrder.ITERATE)
            return SubprocessIterator(self, self._number)

    def close(self) -> None:
        """End the worker process. Items under way are lost. Your code that runs there has 3 seconds to end."""
        self._over = self._over or "it was closed"
        self._worker.end()
        # This has woken a thread that waited for an item, so the lock is soon free.
        with self._lock:
            self._worker.close()

    def _check_owner(self) -> None:
        # Checked before taking the lock, which another thread may have held at the fork.
        if not self._worker.is_ours():
            raise RuntimeError(
                "The worker process belongs to the process that this one was forked from. Start one here, or do not "
                "share it."
            )

    def _check(self) -> None:
        if self._over:
            raise RuntimeError(f"The worker process is shutdown. Cannot iterate again: {self._over}.")

    def next_of(self, number: int) -> T:
        inbox = self._worker.inbox
        self._check_owner()
        with self._lock:
            # Another thread may have taken the last item.
            if number == self._complete:
                raise StopIteration
            self._check()
            if number != self._number:
                raise RuntimeError(
                    "A later pass over the same worker process has ended this one: only one is under way at a time. "
                    "Start another worker process for the other loop."
                )
            while True:
                message = self._receive("produce")
                kind = kind_of(message.number)
                if message.number != number_of(number, kind) and kind != MessageKind.ERROR:
                    # It belongs to a loop that the parent has left.
                    inbox.load(message)
                    continue
                if kind == MessageKind.ITEM:
                    return self._load(message)
                if kind == MessageKind.END:
                    inbox.load(message)
                    self._complete = number
                    raise StopIteration
                self._raise_error(message)

    def _load(self, message: Message) -> T:
        try:
            item: T = self._content_of(message)
        except Exception as error:
            error.add_note("The worker subprocess was ended. Failed to unpickle an item that it had sent.")
            self._end(f"an item could not be unpickled: {error}")
            raise
        finally:
            if not self._over:
                self._took()
        return item

    def _content_of(self, message: Message) -> Any:
        (content,) = self._worker.inbox.load(message)
        if isinstance(content, NotReadable):
            raise content.error
        return content

    def _took(self) -> None:
        self._taken += 1
        if self._taken == self._items_per_report:
            self._taken = 0
            self._worker.order(ParentOrder.TAKEN)

    def stop(self, number: int) -> None:
        """End the pass if it is still under way, because the loop over it was left."""
        # Called by a finaliser, which may interrupt any code, so it must not wait. A new pass ends this one anyway.
        if self._lock.acquire(blocking=False):
            try:
                under_way = number == self._number != self._complete
                if under_way and not self._over and self._worker.is_ours():
                    self._worker.order(ParentOrder.STOP)
            finally:
                self._lock.release()

    def _receive(self, what: str) -> Message:
        try:
            return self._worker.inbox.receive(self._timeout)
        except TimeoutError:
            message = f"The worker subprocess did not produce any data for {self._timeout:g} seconds."
            self._end(message[:-1], _GRACE_AFTER_SILENCE)
            raise WorkerTimeoutError(
                f"{message} It was ended. Give a longer `timeout` if it needs that long to {what}."
            ) from None
        except PeerGone:
            if self._over:
                self._check()
            self._end("it exited unexpectedly")
            hint = ""
            if what == "start":
                hint = f" {_NOT_BEGUN}"
            raise RuntimeError(f"The worker subprocess exited unexpectedly ({self._worker.ended_how}).{hint}") from None

    def _raise_error(self, message: Message) -> NoReturn:
        error: WorkerError = self._content_of(message)
        self._end(f"{error.what}: {error.raised.description}")
        raise error.unpack()

    def _end(self, why: str, grace: float = GRACE) -> None:
        self._over = self._over or why
        self._worker.close(grace)


class SubprocessIterator(Generic[T]):
    """One pass over a `SubprocessIterable`."""

    def __init__(self, iterable: SubprocessIterable[T], number: int) -> None:
        self._iterable = iterable
        self._number = number
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        try:
            return self._iterable.next_of(self._number)
        except StopIteration:
            self._ended = True
            raise

    def __del__(self) -> None:
        if not self._ended:
            self._iterable.stop(self._number)


def iterate_in_subprocess(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Initializer | Sequence[Initializer] | None = None,
    mp_context: str | None = None,
    timeout: float | None = None,
    daemon: bool = False,
    arena: Arena | None = None,
) -> SubprocessIterable[T]:
    """Make an iterable in another process, and iterate it from here.

    The process is started at once. This function returns when ``fn`` has returned there. Each ``for`` then calls
    ``iter()`` there. If you leave a loop early or begin another one, the pass that was under way ends.

    The content of arrays, tensors and buffers travels through memory that both processes share. It is copied into that
    memory there, and nowhere else: what you get are views of it. They are yours alone, to keep and to change, and stay
    valid for as long as anything refers to them, even when the worker has ended. Then the memory is used for other
    items. A process that you fork sees what becomes of it, so hand it copies. An array that was read-only stays
    read-only.

    Args:
        fn: Makes the iterable, in the worker process. It is called once. If the iterable can be iterated only once,
            like a generator, iterating again raises.
        buffer_size: How many items may be on their way to you. One more may be ready in the worker. ``-1`` sets no
            bound: the worker runs ahead until some 30,000 items are on their way, which is as many as the connection
            takes with any ``buffer_size``. All of them take memory.
        initializer: A callable without arguments, or a sequence of them. They are called in order in the worker
            process, before ``fn``.
        mp_context: How the process is started: ``"fork"``, ``"spawn"`` or ``"forkserver"``. The default is
            `multiprocessing`'s. With ``fork``, ``fn`` and the initializers may be anything, but locks that other
            threads hold stay locked there, and torch, if it is loaded, computes with one thread there, since its pool
            of threads is not forked. With the others, ``fn`` and the initializers are pickled.
        timeout: Seconds that the worker may be silent: while it starts, while ``fn`` and the initializers run, and
            before each item that you wait for. None, or infinity, waits as long as it takes.
        daemon: Whether the process is a daemon in the sense of `multiprocessing`, which may not have children. The
            process ends with this one in any case, even if this one is killed.
        arena: A `SharedMemoryRingBuffer` or `SharedMemorySegmentPool`, which bounds the memory for arrays. The
            iterable owns it from now on. None takes as much memory as the items need.

    Returns:
        An iterable that owns the worker process. The process ends when the iterable is garbage collected, at its
        ``close()``, when the interpreter exits, and after any error. After that the iterable cannot be iterated.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.
        RuntimeError: If this process is a daemon, which may not have children, or if the worker process exits. The
            latter is raised here or while you iterate: by ``next``, within a moment, after the items that were sent.
        TimeoutError: If the worker was silent for too long. This error is also a RuntimeError.
        Exception: If an initializer, ``fn`` or the iterable raises there. The exception has the same type if it can be
            pickled, and is a RuntimeError otherwise. Its cause is the traceback of the worker, and a note says what
            the worker was doing. Errors in pickling an item there or unpickling it here are raised in the same way.

    Example:
        >>> from spdl.pipeline import iterate_in_subprocess
        >>> items = iterate_in_subprocess(lambda: range(3), mp_context="fork")
        >>> list(items), list(items)
        ([0, 1, 2], [0, 1, 2])
        >>> items.close()
    """
    buffer_size, initializers, timeout = check_common(fn, buffer_size, initializer, timeout)
    methods = multiprocessing.get_all_start_methods()
    if mp_context is not None and check_str("mp_context", mp_context) not in methods:
        refuse(ValueError, "mp_context", f"one of {methods}, or None", mp_context)
    daemon = check_flag("daemon", daemon)
    ledger = None
    if arena is not None:
        check_instance("arena", arena, Arena, "a SharedMemoryRingBuffer, a SharedMemorySegmentPool, or None")
        ledger = arena.take_over()
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            f"This process, {multiprocessing.current_process().name!r}, is a daemon, which may not have children "
            f"({callers_line()}). Start it with daemon=False, or iterate here, without another process."
        )
    payload = Payload((fn, initializers))
    context = multiprocessing.get_context(mp_context)

    def start(orders: Connection, lane: LaneEnds) -> RunningProcess:
        bound = None if ledger is None else ledger.bound
        work = partial(serve, forked=context.get_start_method() == "fork")
        arguments = (payload, orders, lane, buffer_size, bound)
        return RunningProcess(context, work, arguments, "spdl_subprocess", (orders.close, lane.close), daemon=daemon)

    try:
        worker = IterableWorker(start, buffer_size, ledger)
    except (ConnectionError, EOFError) as error:
        # From Python 3.14 on, the fork server ends if it cannot import the main module.
        raise RuntimeError(
            f"The worker subprocess exited unexpectedly: its fork server has ended. {_NOT_BEGUN}"
        ) from error
    except Exception as error:
        error.add_note(
            "The worker process could not be started. Unless it is forked, `fn` and the initializers are pickled: use "
            "functions that are defined at the top level of a module, or a functools.partial of such a function."
        )
        raise
    return SubprocessIterable(worker, buffer_size, timeout)


def run_pipeline_in_subprocess(
    config_or_builder: PipelineConfig[T] | PipelineBuilder[Any, T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: QueueClass | None = None,
    task_hook_factory: TaskHookFactory | None = None,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    **kwargs: Any,
) -> SubprocessIterable[T]:
    """Run a pipeline in its own process, which has its own GIL, and iterate it from here.

    Each ``for`` builds and runs a new pipeline in the same process. With a continuous source, the pipeline is built
    once and works ahead between passes, and each ``for`` is one epoch. If you leave a loop early, that epoch is
    abandoned, and the next one begins with a new pipeline.

    The process begins with this process's current state of the random generators of `random`, of numpy's functions and
    of torch on the CPU, if these libraries have been imported. The state does not change here.

    Stages' thread and process pools of the standard library are recreated there with the same arguments. Other
    executors are sent unchanged; unless the process is forked, they must be picklable. The defaults of
    `spdl.pipeline.config` apply there only if the process is forked. Otherwise an initializer can set them.

    In diagnostic mode (see `spdl.pipeline.config.is_diagnostic_mode_enabled`) the pipeline is profiled there when you
    first read, and this process ends by `SystemExit` with the status 0, as it would if the pipeline ran here.

    Args:
        config_or_builder: The declaration that `PipelineBuilder.get_config` returns. A builder works too, with a
            UserWarning. Unless the process is forked, the declaration is pickled, with the source and the ops.
        num_threads, max_failures, report_stats_interval, queue_class: As for `build_pipeline`, which is called there.
        task_hook_factory, background_tasks, use_thread_output_queue: As for `build_pipeline`.
        **kwargs: Passed to `iterate_in_subprocess`: ``buffer_size``, ``initializer``, ``mp_context``, ``timeout``,
            ``daemon``, ``arena``.

    Returns:
        An iterable that owns the worker process, as `iterate_in_subprocess` returns it.

    Raises:
        TypeError, ValueError: If an argument is not as described; if a stage's pool has been used, or is a process pool
            and ``daemon`` is true.
        PipelineFailure: While you iterate, if the pipeline there failed. As after any error, the process ends.
        Exception: Anything else that `iterate_in_subprocess` raises.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
        >>> config = PipelineBuilder().add_source(range(3)).pipe(float).add_sink().get_config()
        >>> items = run_pipeline_in_subprocess(config, num_threads=1, mp_context="fork")
        >>> list(items), list(items)
        ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
        >>> items.close()
    """
    config = config_or_builder
    if isinstance(config, PipelineBuilder):
        message = "Pass the result of the builder's `get_config()` to run_pipeline_in_subprocess, not the builder."
        warnings.warn(message, UserWarning, stacklevel=2)
        config = config.get_config()
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config_or_builder", "a PipelineConfig", config)
    initializers = check_initializers(kwargs.pop("initializer", None))
    kwargs["daemon"] = check_flag("daemon", kwargs.get("daemon", False))
    runner = PipelineRunner(
        config,
        daemon=kwargs["daemon"],
        num_threads=num_threads,
        max_failures=max_failures,
        report_stats_interval=report_stats_interval,
        queue_class=queue_class,
        task_hook_factory=task_hook_factory,
        background_tasks=background_tasks,
        use_thread_output_queue=use_thread_output_queue,
    )
    return iterate_in_subprocess(runner, initializer=[RandomStates().restore, *initializers], **kwargs)


def iterate_in_subinterpreter(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Initializer | Sequence[Initializer] | None = None,
    timeout: float | None = None,
) -> SubprocessIterable[T]:
    """Make an iterable in another interpreter of this process, which has its own GIL, and iterate it from here.

    It works like `iterate_in_subprocess`, in a thread of this process instead of another process. It cannot be killed:
    while code there does not return, the process does not end. Modules are imported again there, and what an
    initializer sets in one, ``fn`` and the iterable find. Many that have native parts cannot be imported, numpy,
    PyTorch and the native part of `spdl.io` among them; the error names them. A memoryview of booleans, integers or
    floats arrives as a numpy array.

    It requires Python 3.14 or later.

    Args:
        fn: Makes the iterable. It is pickled, so it must be importable by its name, and not be of the main module.
        buffer_size, initializer, timeout: As for `iterate_in_subprocess`.

    Returns:
        An iterable that owns the interpreter, as `iterate_in_subprocess` returns it.

    Raises:
        RuntimeError: If this Python is older than 3.14.
        TypeError, ValueError: If an argument is not as described; the message names it.
        Exception: Anything else that `iterate_in_subprocess` raises.

    Example:
        >>> import sys
        >>> from spdl.pipeline import iterate_in_subinterpreter
        >>> if sys.version_info >= (3, 14):
        ...     items = iterate_in_subinterpreter(list)
        ...     items.close()
    """
    make = interpreter_maker("iterate_in_subinterpreter")
    buffer_size, initializers, timeout = check_common(fn, buffer_size, initializer, timeout)
    payload = pack((fn, initializers))

    def start(orders: Connection, lane: LaneEnds) -> RunningInterpreter:
        variables = {
            "payload": payload,
            "orders": orders.fileno(),
            "lane": lane.numbers(),
            "buffer_size": buffer_size,
        }
        return RunningInterpreter(make, _PROGRAM, variables, (orders.close, lane.close))

    return SubprocessIterable(IterableWorker(start, buffer_size), buffer_size, timeout)


_PROGRAM = """
from spdl.pipeline._elsewhere.serve import serve_interpreter
serve_interpreter(payload, orders, lane, buffer_size)
"""


def run_pipeline_in_subinterpreter(
    config: PipelineConfig[T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: QueueClass | None = None,
    task_hook_factory: TaskHookFactory | None = None,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    **kwargs: Any,
) -> SubprocessIterable[T]:
    """Run a pipeline in another interpreter of this process, which has its own GIL, and iterate it from here.

    It works like `run_pipeline_in_subprocess`, and has the limits of `iterate_in_subinterpreter`. Of random generators,
    only the state of `random` is carried over.

    Args:
        config: The declaration. It is pickled, with the source and the ops.
        num_threads, max_failures, report_stats_interval, queue_class: As for `build_pipeline`, which is called there.
        task_hook_factory, background_tasks, use_thread_output_queue: As for `build_pipeline`.
        **kwargs: Passed to `iterate_in_subinterpreter`: ``buffer_size``, ``initializer``, ``timeout``.

    Returns:
        An iterable that owns the interpreter, as `iterate_in_subinterpreter` returns it.

    Raises:
        RuntimeError: If this Python is older than 3.14.
        Exception: Anything else that `run_pipeline_in_subprocess` raises.

    Example:
        >>> import sys
        >>> from spdl.pipeline import PipelineBuilder, run_pipeline_in_subinterpreter
        >>> config = PipelineBuilder().add_source(range(3)).pipe(float).add_sink().get_config()
        >>> if sys.version_info >= (3, 14):
        ...     items = run_pipeline_in_subinterpreter(config, num_threads=1)
        ...     items.close()
    """
    interpreter_maker("run_pipeline_in_subinterpreter")
    if not isinstance(config, PipelineConfig):
        refuse(TypeError, "config", "a PipelineConfig", config)
    initializers = check_initializers(kwargs.pop("initializer", None))
    runner = PipelineRunner(
        config,
        daemon=False,
        num_threads=num_threads,
        max_failures=max_failures,
        report_stats_interval=report_stats_interval,
        queue_class=queue_class,
        task_hook_factory=task_hook_factory,
        background_tasks=background_tasks,
        use_thread_output_queue=use_thread_output_queue,
    )
    initializers = [RandomStates(only_python=True).restore, *initializers]
    return iterate_in_subinterpreter(runner, initializer=initializers, **kwargs)

"""Iterates an object in a worker process."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, TypeVar

from spdl._check import check_flag, check_instance, check_str, refuse
from spdl._locate import callers_line
from spdl.pipeline._transport.arena import Arena

from .checks import check_common
from .iterable import SubprocessIterable
from .payload import Payload
from .worker_process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .checks import Initializer

__all__ = ["iterate_in_subprocess"]

T = TypeVar("T")


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
        mp_context: How the process is started: ``"fork"``, ``"spawn"`` or ``"forkserver"``. The default is that of
            `multiprocessing`. With ``fork``, ``fn`` and the initializers may be anything, but locks that other threads
            hold are copied as they are, and torch, if it is loaded, computes with one thread there, since its pool of
            threads is not forked. With the others, ``fn`` and the initializers are pickled.
        timeout: Seconds that the worker may be silent: while it starts, while ``fn`` and the initializers run, and
            before each item that you wait for. None, or infinity, waits as long as it takes.
        daemon: Whether the process is a daemon in the sense of `multiprocessing`, which may not have children. The
            process ends with this one in any case, even if this one is killed.
        arena: A `SharedMemoryRingBuffer` or `SharedMemorySegmentPool`, which bounds the memory for large content. The
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
    if arena is not None:
        check_instance("arena", arena, Arena, "a SharedMemoryRingBuffer, a SharedMemorySegmentPool, or None")
        arena.take_over()
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            f"This process, {multiprocessing.current_process().name!r}, is a daemon, which may not have children "
            f"({callers_line()}). Start it with daemon=False, or iterate here, without another process."
        )
    payload = Payload((fn, initializers))
    try:
        worker = WorkerProcess(multiprocessing.get_context(mp_context), payload, buffer_size, arena, daemon=daemon)
    except Exception as error:
        if arena is not None:
            arena.close()
        error.add_note(
            "The worker process could not be started. Unless it is forked, `fn` and the initializers are pickled: use "
            "functions that are defined at the top level of a module, or a functools.partial of such a function."
        )
        raise
    iterable: SubprocessIterable[T] = SubprocessIterable(worker, buffer_size, timeout)
    iterable.await_ready()
    return iterable

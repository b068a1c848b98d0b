"""Iterating something in a worker process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, TypeVar

from spdl._check import check_flag, check_str, check_timeout, positive, refuse, show
from spdl._locate import callers_line

from .iterable import SubprocessIterable
from .payload import Payload
from .worker_process import WorkerProcess

__all__ = ["check_initializers", "iterate_in_subprocess"]

T = TypeVar("T")

Initializer = Callable[[], object]


def iterate_in_subprocess(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Initializer | Sequence[Initializer] | None = None,
    mp_context: str | None = None,
    timeout: float | None = None,
    daemon: bool = False,
    arena: None = None,
) -> SubprocessIterable[T]:
    """Have another process make an iterable, and iterate it from here.

    The process is started at once, and this returns when ``fn`` has returned there. Each ``for`` then calls ``iter()``
    there; leaving a loop early, or beginning another one, ends the pass that was under way.

    The content of arrays, tensors and large bytes travels through memory that both processes share: it is copied into
    that there and out of it here, and not otherwise, so an item is yours alone. An array that was not writable is not
    writable.

    Args:
        fn: Makes the iterable, in the worker process. It is called once. If it returns what can be iterated only once,
            as a generator can, iterating again raises.
        buffer_size: How many items may be on their way to you (of very many, some 30,000); one more may be ready in
            the worker.
        initializer: Called in the worker process before ``fn``, without arguments; or several, called in order.
        mp_context: How the process is started: ``"fork"``, ``"spawn"`` or ``"forkserver"``. The default is that of
            `multiprocessing`. With ``fork``, ``fn`` and the initializers may be anything, but locks that other threads
            hold are copied as they stand, and torch, if it is loaded, computes with one thread there, since its pool
            of threads is not forked. With the others they are pickled.
        timeout: Seconds that the worker may be silent: while it starts, while ``fn`` and initializers run, and before
            each item that you wait for. None, or infinity, waits as long as it takes.
        daemon: Whether the process is one in the sense of `multiprocessing`, which may not have children. It ends with
            this process in any case, even if that is killed.
        arena: Part of the contract and not served yet.

    Returns:
        An iterable. It owns the worker process, which ends when it is garbage collected, at its ``close()``, when the
        interpreter exits, and after any error; it cannot be iterated any more then.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.
        NotImplementedError: If an arena is given.
        RuntimeError: If this process is a daemonic one, which may not have children; if the worker process exits. The
            latter is raised here, or where you iterate: by ``next`` within a moment, after the items that were sent.
        TimeoutError: If the worker was silent for too long; it is a RuntimeError, too.
        Exception: What an initializer, ``fn`` or the iterable raises there is raised here, of the same type if it can
            be pickled (a RuntimeError otherwise), with the traceback of the worker as its cause and a note on what
            it was doing. So is what an item raises when it is pickled there or unpickled here.

    Example:
        >>> from spdl.pipeline import iterate_in_subprocess
        >>> items = iterate_in_subprocess(lambda: range(3), mp_context="fork")
        >>> list(items), list(items)
        ([0, 1, 2], [0, 1, 2])
        >>> items.close()
    """
    if not callable(fn):
        remedy = "Wrap it: `lambda: iterable`, or a functools.partial." if isinstance(fn, Iterable) else ""
        refuse(TypeError, "fn", "callable without arguments", fn, remedy)
    buffer_size = positive("buffer_size", buffer_size)
    initializers = check_initializers(initializer)
    methods = multiprocessing.get_all_start_methods()
    if mp_context is not None and check_str("mp_context", mp_context) not in methods:
        refuse(ValueError, "mp_context", f"one of {methods}, or None", mp_context)
    timeout = check_timeout("timeout", timeout)
    if timeout == inf:
        timeout = None
    daemon = check_flag("daemon", daemon)
    if arena is not None:
        raise NotImplementedError(f"`arena` is not served yet, got {show(arena)} ({callers_line()}). Leave it out.")
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            f"This process, {multiprocessing.current_process().name!r}, is a daemonic one, which may not have "
            f"children ({callers_line()}). Start it with daemon=False, or iterate here, without another process."
        )
    payload = Payload((fn, initializers))
    try:
        worker = WorkerProcess(multiprocessing.get_context(mp_context), payload, buffer_size, daemon=daemon)
    except Exception as error:
        error.add_note(
            "The worker process could not be started. Unless it is forked, `fn` and the initializers are pickled: use "
            "functions that are defined at the top level of a module, or a functools.partial of one."
        )
        raise
    iterable: SubprocessIterable[T] = SubprocessIterable(worker, buffer_size, timeout)
    iterable.await_ready()
    return iterable


def check_initializers(initializer: Any) -> list[Initializer]:
    """Return the initializers as a list.

    Raises:
        TypeError: If one cannot be called.
    """
    if initializer is None:
        return []
    if callable(initializer):
        return [initializer]
    accepted = "callable without arguments, a sequence of such, or None"
    if isinstance(initializer, str | bytes) or not isinstance(initializer, Sequence):
        refuse(TypeError, "initializer", accepted, initializer)
    for index, each in enumerate(initializer):
        if not callable(each):
            refuse(TypeError, f"initializer[{index}]", "callable without arguments", each)
    return list(initializer)

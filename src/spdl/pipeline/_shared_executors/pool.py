"""The base class of the priority pools."""

from __future__ import annotations

import itertools
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from spdl._check import check_flag, check_number, positive, refuse

from .dispatcher import Dispatcher
from .entrypoint import PriorityExecutorEntrypoint

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from types import TracebackType

__all__ = ["PriorityPool", "check_initializer", "check_workers"]


class PriorityPool:
    """A pool whose workers are shared by entrypoints of different priorities. It can be pickled."""

    def __init__(self, kind: type[Executor], max_workers: int, arguments: dict[str, Any]) -> None:
        # Shared with the pools that stand for this one in other processes.
        self._identity = os.urandom(16)
        _CONNECTED[self._identity] = self
        # The class of the standard library's executor that has the workers.
        self._kind = kind
        # Another process makes a pool of its own with these.
        self._arguments = arguments
        self._ranks = itertools.count(1)
        self._dispatcher = Dispatcher(partial(kind, **{**arguments, "max_workers": max_workers}), max_workers)

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


def check_initializer(initializer: object) -> None:
    """Raise TypeError if ``initializer`` is neither callable nor None."""
    if initializer is not None and not callable(initializer):
        refuse(TypeError, "initializer", "a callable or None", initializer)


def check_workers(max_workers: int | None, default: int) -> int:
    """Return the number of workers, or ``default`` if ``max_workers`` is None."""
    return default if max_workers is None else positive("max_workers", max_workers)


_CONNECTED: WeakValueDictionary[bytes, PriorityPool] = WeakValueDictionary()
_connecting = threading.Lock()


def _connect(kind: type[PriorityPool], identity: bytes, arguments: dict[str, Any]) -> PriorityPool:
    """Return this process's pool for a pickled pool. If there is none, or it was shut down, make a new one."""
    with _connecting:
        pool = _CONNECTED.get(identity)
        if pool is None or pool._dispatcher.closed:  # noqa: SLF001
            pool = kind(**arguments)
            pool._identity = identity  # noqa: SLF001
            _CONNECTED[identity] = pool
        return pool


def _renew_lock() -> None:
    global _connecting  # noqa: PLW0603 - a thread of the parent may have held it.
    _connecting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

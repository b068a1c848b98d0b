"""What the priority pools have in common."""

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
    """Hands out entrypoints, ends the workers, and finds its like in other processes."""

    def __init__(self, kind: type[Executor], max_workers: int, arguments: dict[str, Any]) -> None:
        # What it has in common with those that stand for it in other processes.
        self._identity = os.urandom(16)
        _CONNECTED[self._identity] = self
        # Which executor of the standard library has the workers.
        self._kind = kind
        # Another process makes a pool of its own of these.
        self._arguments = arguments
        self._ranks = itertools.count(1)
        self._dispatcher = Dispatcher(partial(kind, **{**arguments, "max_workers": max_workers}), max_workers)

    def get_executor(self, *, priority: float | None = None) -> PriorityExecutorEntrypoint:
        """Return a new way into the pool.

        Args:
            priority: A call of a greater one begins first; calls of the same one begin in the order of submission. By
                default the first entrypoint has 1, the second 2, and so on: if stages get theirs in their order, the
                one nearest the sink goes first, so that finished work leaves before new work is begun.

        Raises:
            TypeError: If it is no number.
            ValueError: If it is NaN.
        """
        rank = next(self._ranks) if priority is None else check_number("priority", priority, "a number or None")
        return PriorityExecutorEntrypoint(self, rank)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as the reference has it.
        """Take no more calls, and end the workers once those that were submitted are done.

        Args:
            wait: Return only then. Otherwise the workers end on their own.
            cancel_futures: Cancel the calls that have not begun.

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
    """Raise TypeError if it can be no initializer."""
    if initializer is not None and not callable(initializer):
        refuse(TypeError, "initializer", "a callable or None", initializer)


def check_workers(max_workers: int | None, default: int) -> int:
    """Return how many workers there are to be."""
    return default if max_workers is None else positive("max_workers", max_workers)


_CONNECTED: WeakValueDictionary[bytes, PriorityPool] = WeakValueDictionary()
_connecting = threading.Lock()


def _connect(kind: type[PriorityPool], identity: bytes, arguments: dict[str, Any]) -> PriorityPool:
    """The pool of this process that stands for one that was pickled, here or elsewhere."""
    with _connecting:
        pool = _CONNECTED.get(identity)
        if pool is None:
            pool = kind(**arguments)
            pool._identity = identity  # noqa: SLF001
            _CONNECTED[identity] = pool
        return pool


def _renew_lock() -> None:
    global _connecting  # noqa: PLW0603 - a thread of the parent's may have held it.
    _connecting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

"""Executors that share the workers of one pool, each with its own priority."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pool import PriorityPool

__all__ = ["PriorityExecutorEntrypoint", "executor_type_of"]

P = ParamSpec("P")
T = TypeVar("T")


class PriorityExecutorEntrypoint(Executor):
    """An executor that submits calls to a priority pool, with a priority of its own.

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

"""An executor whose calls compete with those of other entrypoints for the workers of one pool."""

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
    """One way into a priority pool, with a priority of its own. Made by a pool's ``get_executor``.

    It is an executor like any other: give it to a stage. Calls submitted to it begin in the order of their submission,
    before all that wait at entrypoints of lower priority. A call that has begun is not interrupted.

    The workers are the pool's: ``shutdown`` of an entrypoint does nothing, shut down the pool instead.

    An entrypoint can be sent to another process. There it belongs to a pool of that process's own, made like the
    original, and all that were sent from one pool share one there.

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
        """Have a call made by a worker of the pool.

        Args:
            fn: What is called.
            *args: What it is called with.
            **kwargs: Likewise.

        Returns:
            The future of what the call returns. It can be cancelled as long as the call has not begun.

        Raises:
            RuntimeError: If the pool was shut down, or the interpreter exits.
            concurrent.futures.BrokenExecutor: If the pool has lost a process, or an initializer failed.
        """
        return self._owner._dispatcher.submit(self._priority, fn, args, kwargs)  # noqa: SLF001 - it is a part of the pool.

    @property
    def _max_workers(self) -> int:
        # As the standard library's pools call it; a pipeline asks how many processes there are.
        return self._owner._dispatcher.max_workers  # noqa: SLF001 - as above.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of priority {self._priority:g} to {self._owner!r}>"


def executor_type_of(executor: Executor) -> type[Executor]:
    """The executor's class or, of an entrypoint, that of what runs its calls."""
    if isinstance(executor, PriorityExecutorEntrypoint):
        return executor._owner._kind  # noqa: SLF001 - as above.
    return type(executor)

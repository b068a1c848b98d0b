"""A priority pool of interpreters."""

from __future__ import annotations

import math
import platform
import sys
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores

from .pool import PriorityPool, check_initializer, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PriorityInterpreterPoolExecutor"]


class PriorityInterpreterPoolExecutor(PriorityPool):
    """A pool of interpreters that several stages share. The most urgent call begins first.

    It works like `PriorityThreadPoolExecutor`, except that calls are pickled, and that each thread runs them in an
    interpreter with a GIL of its own. It requires Python 3.14 or later.

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

        check_initializer(initializer)
        arguments = {
            "max_workers": max_workers,
            "thread_name_prefix": thread_name_prefix,
            "initializer": initializer,
            "initargs": initargs,
        }
        super().__init__(InterpreterPoolExecutor, check_workers(max_workers, math.ceil(available_cores())), arguments)

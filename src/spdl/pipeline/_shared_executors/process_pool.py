"""A priority pool of processes."""

from __future__ import annotations

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from spdl._cores import available_cores

from .pool import PriorityPool, check_initializer, check_workers

__all__ = ["PriorityProcessPoolExecutor"]


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
        check_initializer(kwargs.get("initializer"))
        workers = check_workers(max_workers, math.ceil(available_cores()))
        if isinstance(kwargs.get("mp_context"), str):
            kwargs["mp_context"] = multiprocessing.get_context(kwargs["mp_context"])
        super().__init__(ProcessPoolExecutor, workers, {"max_workers": max_workers, **kwargs})

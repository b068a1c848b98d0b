"""A priority pool of threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores

from .pool import PriorityPool, check_initializer, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PriorityThreadPoolExecutor"]

# The default of concurrent.futures, but counting only the cores that this process may use.
_MORE_THAN_CORES = 4
_MOST_THREADS = 32


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
        check_initializer(initializer)
        default = min(_MOST_THREADS, math.ceil(available_cores()) + _MORE_THAN_CORES)
        arguments = {
            "max_workers": max_workers,
            "thread_name_prefix": thread_name_prefix,
            "initializer": initializer,
            "initargs": initargs,
        }
        super().__init__(ThreadPoolExecutor, check_workers(max_workers, default), arguments)

"""Worker threads: a pipeline that loads batches as they are asked for."""

from __future__ import annotations

import atexit
import logging
import weakref
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._at_exit import LOOPS, before_children_are_awaited
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._pipeline.for_loaders import tell_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline
    from spdl.pipeline._metrics.loader_arguments import LoaderArguments

__all__ = ["ThreadWorkers"]

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")

_LG = logging.getLogger("spdl.dataloader")

# A loop that is left waits so long for the items that are being loaded.
_PATIENCE = 5.0


class _RequestQueue(Generic[Request]):
    """The source of the pipeline: it waits for the consumer to ask."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Request | None] = SimpleQueue()

    def put(self, request: Request | None) -> None:
        """Ask for a batch. None ends the source."""
        self._queue.put(request)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Request:
        request = self._queue.get()
        if request is None:
            raise StopIteration
        return request


_LIVE: weakref.WeakSet[ThreadWorkers[Any, Any]] = weakref.WeakSet()


class ThreadWorkers(Generic[Request, Outcome]):
    """Threads that turn requests into outcomes, in the order in which they are done.

    Args:
        load: Makes an outcome of a request, or is a generator function that makes any number. It must not raise.
        num_workers: How many requests to work on at once.
        capacity: How many requests there are at a time, at most.
        arguments: What a user of the loader may change.
    """

    def __init__(
        self, load: Callable[[Request], Any], num_workers: int, capacity: int, arguments: LoaderArguments
    ) -> None:
        self._requests: _RequestQueue[Request] = _RequestQueue()
        self.pipeline: Pipeline[Outcome] = (
            PipelineBuilder()
            .add_source(self._requests)
            .pipe(load, concurrency=num_workers, name="load")
            .add_sink(capacity)
            .build(num_threads=num_workers)
        )
        tell_arguments(self.pipeline, arguments)
        self.pipeline.start()
        _LIVE.add(self)
        before_children_are_awaited(_close_all, LOOPS)

    def ask(self, request: Request) -> None:
        """Have a request worked on. It does not wait."""
        self._requests.put(request)

    def take(self, timeout: float | None) -> Outcome:
        """Wait for an outcome and return it.

        Raises:
            TimeoutError: If there is none in time, in seconds. None waits as long as it takes.
        """
        return self.pipeline.get_item(timeout=timeout)

    def close(self) -> None:
        """End the threads. What they have begun is finished first."""
        # The source waits for it.
        self._requests.put(None)
        try:
            self.pipeline.stop(timeout=_PATIENCE)
        except TimeoutError as error:
            _LG.warning("A loop was left, and its worker threads go on until they have loaded their items: %s", error)


def _close_all() -> None:
    for workers in list(_LIVE):
        workers.close()


# It runs before the pipelines are stopped, which would wait for their sources.
atexit.register(_close_all)

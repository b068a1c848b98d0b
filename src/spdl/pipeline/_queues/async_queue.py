"""The base class for users' queues."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline._declare.stage_info import StageInfo

__all__ = ["AsyncQueue"]

T = TypeVar("T")


class AsyncQueue(asyncio.Queue[T]):
    """An `asyncio.Queue` between two stages.

    Pipelines do not need such queues, because their threads carry items from stage to stage. If you must see or delay
    each item, pass a derived class as ``queue_class`` to `PipelineBuilder.build`. One queue is then made for the output
    of each source and stage, and carries it on the event loop thread. That costs some 100 microseconds per item and
    edge.

    A queue must return every object that was put in, once. At the end of each epoch it gets an object for which
    `is_epoch_end` is true, and at the very end one for which `is_eof` is true; these must come out as well. Instead of
    an item it may return another object, such as one that wraps the item.

    A queue that loses an object, or returns the same object again, fails the pipeline with an error that names the
    queue. This happens at the end of the input or, if the end itself is lost, 5 seconds after the last item. A loss
    goes unnoticed if the queue returns another object instead that the pipeline does not recognise: a new object, one
    that was returned more than 1000 items ago, or a list, bytes or a similar object that was not the last item.
    Making a queue never raises.

    Args:
        info: The stage or source that fills the queue.
        buffer_size: How many items may wait in the queue.

    Attributes:
        info: The stage or source that fills the queue.

    Example:
        >>> from spdl.pipeline import AsyncQueue, PipelineBuilder, is_eof
        >>> class Ledger(AsyncQueue):
        ...     passed = {}
        ...
        ...     async def put(self, item):
        ...         if not is_eof(item):
        ...             self.passed.setdefault(self.info.stage_name, []).append(item)
        ...         await super().put(item)
        >>> builder = PipelineBuilder().add_source([1, 2]).pipe(lambda x: 10 * x, name="tens").add_sink()
        >>> with builder.build(num_threads=1, queue_class=Ledger).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [10, 20]
        >>> Ledger.passed
        {'src': [1, 2], 'tens': [10, 20], 'sink': [10, 20]}
    """

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(buffer_size)
        self.info = info

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Wrap the lifespan of the queue: entered before the pipeline works, left when all items have passed."""
        yield

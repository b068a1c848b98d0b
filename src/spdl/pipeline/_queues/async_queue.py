"""The queue that users derive theirs from."""

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

    Pipelines do without: items go from stage to stage in the hands of threads. Give a derived class as ``queue_class``
    to `PipelineBuilder.build` where you must see or delay each item: one queue is then made for what each source and
    stage gives out, and carries it on the event-loop thread. That costs some 100 microseconds per item and edge.

    A queue must give out what was put in, once each. Between epochs it is given something for which `is_epoch_end` is
    true, and last something for which `is_eof` is; these must come out as well. In the place of an item it may give out
    another object, such as one that wraps it. One that loses something, or gives out the same object again, fails the
    pipeline with an error that names it: in the end, or, where the end itself is lost, 5 seconds after the last item.
    What it lost cannot be told if something else was given out in its place that is not known to have been: a new
    object, one that was given out more than 1000 items before, or a list, bytes or the like before the last item.
    Making one never raises.

    Args:
        info: What fills the queue.
        buffer_size: How many items may wait in it.

    Attributes:
        info: As given.

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
        """Wrap the life of the queue: entered before the pipeline works, left when all has passed."""
        yield

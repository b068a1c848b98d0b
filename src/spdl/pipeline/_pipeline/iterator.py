"""The iterator over a pipeline's items."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from spdl.pipeline._engine.interruptible import Interruptible
from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._world import Lock, monotonic, perf_counter

from .in_hand import READS
from .waiting import took

if TYPE_CHECKING:
    from .pipeline import Pipeline

__all__ = ["PipelineIterator", "deadline_of"]

T = TypeVar("T")


def deadline_of(timeout: float | None) -> float:
    """Return the time, as `time.monotonic` tells it, at which a timeout that begins now ends."""
    return inf if timeout is None else monotonic() + timeout


class PipelineIterator(Interruptible, Generic[T]):
    """An iterator over the items of a `Pipeline`. Once ended, it stays ended. Each ``next`` raises a failure again.

    `Pipeline.get_iterator` makes it. With a continuous source, it ends with the epoch.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source("ab").add_sink().build(num_threads=1).auto_stop() as pipeline:
        ...     iterator = pipeline.get_iterator(timeout=10)
        ...     print(next(iterator), next(iterator), next(iterator, "the end"))
        a b the end
    """

    __slots__ = ("_counters", "_deliver", "_ended", "_engine", "_entries", "_gate", "_pipeline", "_pop", "_timeout")

    def __init__(self, pipeline: Pipeline[T], timeout: float | None) -> None:
        self._pipeline = pipeline
        self._timeout = timeout
        self._ended = False
        self._gate = Lock()
        self._engine = pipeline._engine  # noqa: SLF001 - the two classes belong together.
        self._counters = self._engine.sink.counters
        self._entries = self._engine.sink.entries
        self._pop = self._entries.popleft
        self._deliver = self._engine.lineage.deliver_position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        deadline = None
        while not self._ended:
            try:
                root, value = self._pop()
            except IndexError:
                deadline = deadline_of(self._timeout) if deadline is None else deadline
                self._wait(deadline)
                continue
            try:
                # The usual case makes no call of `took`, because it runs for each item in the consumer's thread.
                if root.__class__ is not int or self._engine.sink.full:
                    took(self._engine, root)
                    if root is EPOCH_END:
                        break
                else:
                    self._deliver(root)
                    if not self._entries:
                        self._counters.emptied_at = perf_counter()
                item: T = value
            except BaseException:
                # A Ctrl-C: nobody gets the item, so nobody has received it.
                self._engine.lineage.take_back(root)
                raise
            return item
        self._ended = True
        raise StopIteration

    def _take(self) -> tuple[Any, T]:
        """Return the next item and its root, which counts as received only when that is acknowledged."""
        deadline = None
        while not self._ended:
            try:
                root, value = self._pop()
            except IndexError:
                deadline = deadline_of(self._timeout) if deadline is None else deadline
                self._wait(deadline)
                continue
            if root is EPOCH_END:
                took(self._engine, root)
                break
            return root, value
        self._ended = True
        raise StopIteration

    def _wait(self, deadline: float) -> None:
        # Each wait has its own gate, because threads that share an iterator must not open each other's.
        self._gate = gate = Lock()
        gate.acquire()
        if self._ended:
            return
        try:
            self._pipeline._wait(deadline, gate)  # noqa: SLF001
        except EOFError:
            self._ended = True

    def interrupt(self) -> None:
        """End the iteration, even for a thread that waits in ``next()``. Takes no lock."""
        self._ended = True
        try:
            self._gate.release()
        except RuntimeError:  # No thread waits.
            return


READS.add(PipelineIterator.__next__.__code__)

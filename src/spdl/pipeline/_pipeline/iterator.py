"""The iterator over a pipeline's items."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from spdl.pipeline._engine.interruptible import Interruptible
from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._world import Lock, monotonic, perf_counter

from .in_hand import READS
from .waiting import cut_short, take_back, took

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
        self._gate = Lock()
        self._engine = pipeline._engine  # noqa: SLF001 - the two classes belong together.
        # A Ctrl-C may have cut an earlier read short when it was about to tell that the epoch has ended.
        self._ended = self._engine.ends.in_hand()
        self._counters = self._engine.sink.counters
        self._entries = self._engine.sink.entries
        self._pop = self._entries.popleft
        self._deliver = self._engine.lineage.deliver_position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        deadline = root = None
        # Calling a field is slower: Python 3.11 looks for a method first.
        pop, deliver = self._pop, self._deliver
        try:
            while not self._ended:
                try:
                    root, value = pop()
                except IndexError:
                    deadline = deadline_of(self._timeout) if deadline is None else deadline
                    self._wait(deadline)
                    pop = self._pop
                    continue
                except BaseException:
                    cut_short(self._engine)
                    raise
                # The usual case makes no call of `took`, because it runs for each item in the consumer's thread.
                if root.__class__ is not int or self._engine.sink.full:
                    if root is EPOCH_END:
                        self._end_epoch()
                        break
                    took(self._engine, root)
                else:
                    deliver(root)
                    if not self._entries:
                        self._counters.emptied_at = perf_counter()
                item: T = value
                return item
        except BaseException:
            # A Ctrl-C, most likely.
            take_back(self._engine, root)
            self._ended = self._ended or self._engine.ends.in_hand()
            raise
        self._ended = True
        with self._engine.ends:
            raise StopIteration

    def _take(self) -> tuple[Any, T]:
        """Return the next item and its root, which counts as received only when that is acknowledged."""
        deadline = root = None
        try:
            while not self._ended:
                try:
                    root, value = self._pop()
                except IndexError:
                    deadline = deadline_of(self._timeout) if deadline is None else deadline
                    self._wait(deadline)
                    continue
                except BaseException:
                    cut_short(self._engine)
                    raise
                if root is EPOCH_END:
                    self._end_epoch()
                    break
                return root, value
        except BaseException:
            take_back(self._engine, root)
            self._ended = self._ended or self._engine.ends.in_hand()
            raise
        self._ended = True
        with self._engine.ends:
            raise StopIteration

    def _end_epoch(self) -> None:
        """Acknowledge the end of an epoch that was popped."""
        self._engine.ends.take()
        self._ended = True
        took(self._engine, EPOCH_END)

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
        # Whoever begins or ends to trace the sink gives it others, and leaves nothing in these.
        self._entries = self._engine.sink.entries
        self._pop = self._entries.popleft

    def interrupt(self) -> None:
        """End the iteration, even for a thread that waits in ``next()``. Takes no lock."""
        self._ended = True
        try:
            self._gate.release()
        except RuntimeError:  # No thread waits.
            return


READS.add(PipelineIterator.__next__.__code__)

"""What the user holds of a running pipeline."""

from __future__ import annotations

import sys
import traceback
import weakref
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from . import _lifetime
from ._lineage import Group
from ._statistics import PipelineStatistics, collect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Thread

    from ._engine import Engine

__all__ = ["Pipeline", "PipelineIterator"]

T = TypeVar("T")


class Pipeline(Generic[T]):
    """A pipeline: an iterable of what comes out of its last stage.

    Make it with `PipelineBuilder`. It runs in the background from `start` (or the first read) to `stop`, the end of
    its source, its garbage collection, or the interpreter's exit. Read it from one thread or several: each item goes
    to one reader.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source([1, 2, 3]).pipe(str).add_sink().build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     for item in pipeline:
        ...         print(item)
        1
        2
        3
    """

    def __init__(self, engine: Engine, description: str) -> None:
        self._engine = engine
        self._description = description
        self._started = False
        self._observed = False
        self._starting = Lock()

    def start(self, *, timeout: float | None = None) -> None:  # noqa: ARG002 - starting waits for nothing.
        """Start the threads.

        Args:
            timeout: Accepted for compatibility. Starting does not wait for anything.

        Raises:
            RuntimeError: If it was started before. A pipeline runs once.
        """
        with self._starting:
            if self._started:
                raise RuntimeError("The pipeline was already started. A pipeline runs once: build another one.")
            self._started = True
        _lifetime.watch(self._engine)
        # The threads hold the engine and never the pipeline, so an abandoned pipeline is collected and stops them.
        weakref.finalize(self, self._engine.request_stop).atexit = False
        try:
            self._engine.start()
        except BaseException:
            self._engine.request_stop()
            raise

    def stop(self, *, timeout: float | None = None) -> None:
        """Stop the pipeline and wait for its threads.

        Ops that run are waited for; what they return is discarded. Items that were finished can still be read.
        Calling it again, or before `start`, does nothing. Inside an op of the pipeline it only asks the pipeline to
        stop, since the op cannot wait for itself.

        Args:
            timeout: Seconds to wait for running ops; None waits 10. A source that blocks is not waited for: its
                thread is a daemon and ends when the source returns.

        Raises:
            TimeoutError: If an op still runs then; the message shows where. `stop` may be called again.
            PipelineFailure: If a stage failed and no reader was told; at most once.
        """
        if not self._started:
            return
        engine = self._engine
        if engine.forked:
            return
        if engine.is_mine():
            engine.request_stop()
            return
        alive = _lifetime.end_threads(engine, _lifetime.STOP_SECONDS if timeout is None else max(0.0, timeout))
        if alive:
            raise TimeoutError(_describe_stragglers(engine, alive))
        failure = engine.failure()
        if failure is not None and not self._observed:
            self._observed = True
            raise failure

    @contextmanager
    def auto_stop(self, *, timeout: float | None = None) -> Iterator[Self]:
        """Start the pipeline, and stop it at the end of the ``with`` block.

        Args:
            timeout: Given to `stop`.

        Raises:
            PipelineFailure, TimeoutError: As `stop`. An exception of the block itself takes precedence.
        """
        self.start()
        try:
            yield self
        except BaseException:
            self._observed = True
            self.stop(timeout=timeout)
            raise
        self.stop(timeout=timeout)

    def get_item(self, *, timeout: float | None = None) -> T:
        """Return the next item, and start the pipeline if it was not.

        Args:
            timeout: Seconds to wait; None waits as long as it takes, 0 looks once.

        Raises:
            TimeoutError: If there is none in time.
            EOFError: If there will be none, because the source is exhausted or the pipeline was stopped.
            PipelineFailure: If there will be none because a stage failed. Repeated reads raise it again.
        """
        engine = self._engine
        while True:
            try:
                root, value = engine.sink.entries.popleft()
            except IndexError:
                self._wait(timeout)
                continue
            if isinstance(root, Group):
                with engine.lock:
                    engine.source.lineage.release(root)
            else:
                engine.source.lineage.open.discard(root)
            if engine.sink.full:
                self._tell_room()
            item: T = value
            return item

    def get_iterator(self, *, timeout: float | None = None) -> PipelineIterator[T]:
        """Return an iterator over the items that remain.

        Leaving a loop and iterating anew goes on where the first stopped; nothing is lost.

        Args:
            timeout: Seconds to wait for each item; None waits as long as it takes.
        """
        return PipelineIterator(self, timeout)

    def __iter__(self) -> PipelineIterator[T]:
        return self.get_iterator()

    def statistics(self) -> PipelineStatistics:
        """What each stage has done so far, and which one limits the throughput.

        It takes no lock, so it may be called at any time, from any thread, op or signal handler. Counts that change
        while they are read may differ by the items that were just moving.
        """
        return collect(self._engine)

    def _tell_room(self) -> None:
        engine = self._engine
        if engine.forked:
            return
        with self._inside(), engine.lock:
            engine.room_in_sink()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Mark this thread for the length of a critical section, so that a signal handler's `stop` does not wait."""
        inside = self._engine.inside
        try:
            inside.append(get_ident())
            yield
        finally:
            inside.remove(get_ident())

    def _wait(self, timeout: float | None) -> None:
        """Wait until the sink may hold something. Raises if it will not, or not in time."""
        if not self._started:
            self.start()
        engine = self._engine
        if engine.forked:
            raise RuntimeError(
                "The pipeline was started before this process was forked, and its threads stayed in the parent. "
                "Build a pipeline in the child, or start processes by the 'spawn' or 'forkserver' method."
            )
        gate = Lock()
        gate.acquire()
        with self._inside(), engine.lock:
            if engine.sink.entries:
                return
            if engine.done or engine.stopping:
                self._raise_end()
            engine.sink.readers.append(gate)
        opened = False
        try:
            opened = gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if not opened:
                try:
                    engine.sink.readers.remove(gate)
                except ValueError:
                    # It was opened this very moment: what it announced is for somebody else, or for the next read.
                    engine.sink.wake_reader()
        if not opened and not engine.sink.entries:
            raise TimeoutError(f"No item became available within {timeout} seconds.")

    def _raise_end(self) -> None:
        failure = self._engine.failure()
        if failure is not None:
            self._observed = True
            raise failure
        raise EOFError("The pipeline has no more items.")

    def __repr__(self) -> str:
        engine = self._engine
        state = "built"
        if engine.done:
            state = "failed" if engine.failures else "finished"
        elif engine.stopping:
            state = "stopped"
        elif self._started:
            state = "running"
        return f"<Pipeline {engine.pipeline_id} ({state})\n{self._description}>"


class PipelineIterator(Generic[T]):
    """Iterates a `Pipeline` until its end. Once ended, it stays ended; a failure is raised again at each ``next``."""

    __slots__ = ("_discard", "_ended", "_engine", "_pipeline", "_pop", "_timeout")

    def __init__(self, pipeline: Pipeline[T], timeout: float | None) -> None:
        self._pipeline = pipeline
        self._timeout = timeout
        self._ended = False
        self._engine = pipeline._engine  # noqa: SLF001 - the two are one thing in two classes.
        self._pop = self._engine.sink.entries.popleft
        self._discard = self._engine.source.lineage.open.discard

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        # The usual case of `get_item`, without a call: this is all that an item costs the consumer's thread.
        if not self._engine.sink.full and not self._ended:
            try:
                root, value = self._pop()
            except IndexError:
                pass
            else:
                if root.__class__ is int:
                    self._discard(root)
                else:
                    with self._engine.lock:
                        self._engine.source.lineage.release(root)
                if self._engine.sink.full:
                    self._pipeline._tell_room()  # noqa: SLF001
                item: T = value
                return item
        if self._ended:
            raise StopIteration
        try:
            return self._pipeline.get_item(timeout=self._timeout)
        except EOFError:
            self._ended = True
            raise StopIteration from None


def _describe_stragglers(engine: Engine, threads: list[Thread]) -> str:
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to see what a thread is doing.
    lines = [f"{len(threads)} thread(s) of the pipeline still run; an op that does not return cannot be interrupted."]
    running = [f"{node.name!r} ({node.running})" for node in engine.nodes if node.running]
    if running:
        lines.append(f"Stages with running ops: {', '.join(running)}.")
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            lines.append(f"{thread.name}:\n{''.join(traceback.format_stack(frame)[-3:])}")
    return "\n".join(lines)

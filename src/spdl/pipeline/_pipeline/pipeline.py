"""The pipeline object that users start, read and stop."""

from __future__ import annotations

import warnings
import weakref
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from spdl._check import check_timeout
from spdl._locate import callers_line, warn_caller
from spdl.pipeline._engine import lifetime
from spdl.pipeline._engine.sentinel import EPOCH_END
from spdl.pipeline._engine.start import abort, start
from spdl.pipeline._world import monotonic

from .adjustable import Adjustable
from .in_hand import READS
from .iterator import PipelineIterator, deadline_of
from .resumable import Resumable
from .state import warn_of_nothing
from .waiting import check_usable, cut_short, take_back, took, wait

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from spdl.pipeline._declare.failed_item import FailedItem
    from spdl.pipeline._declare.records import PipelineConfig
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._metrics.statistics import PipelineStatistics
    from spdl.pipeline._world import Lock
    from spdl.tune._tuner import Tuner

__all__ = ["Pipeline"]

T = TypeVar("T")


class Pipeline(Adjustable, Resumable, Generic[T]):
    """A pipeline, and an iterable over the results of its last stage.

    Make it with `PipelineBuilder`. It runs in the background from `start` (or the first read) until `stop`, the end of
    its source, its garbage collection, or the interpreter's exit. One or several threads may read it: each item goes
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

    # Told to what would iterate it again from another position, as a source of another pipeline.
    _runs_once = True

    def __init__(
        self,
        engine: Engine,
        description: str,
        declared: PipelineConfig[T] | None = None,
        tuner: Tuner | None = None,
    ) -> None:
        super().__init__(declared)
        self._engine = engine
        self._tuner = tuner
        self._description = description
        # Imported here because declaring pipelines needs no statistics, and a signal handler must not import.
        from spdl.observe._verdict.counted import sentence  # noqa: PLC0415 - it stands above the pipeline.
        from spdl.pipeline._engine.collect import collect  # noqa: PLC0415

        self._collect = partial(collect, verdict=sentence)
        self._started = False
        self._observed = False
        # A reader has seen the end of the last item's pipeline: there is nothing more to read.
        self._read_to_end = False
        self._claims: dict[str, object] = {}
        # The threads hold the engine, never the pipeline, so an unused pipeline is collected and stops them. Where none
        # runs, what the engine holds, such as an op, may refer to the pipeline: held here, it would never be collected.
        weakref.finalize(self, _forget, weakref.ref(engine)).atexit = False

    def start(self, *, timeout: float | None = None, **kwargs: object) -> None:
        """Start the threads.

        Args:
            timeout: Accepted for compatibility, without effect. Starting waits only until each process pool of the
                stages has answered once.
            **kwargs: Only ``daemon`` is accepted, for compatibility. It causes a warning and has no other effect: all
                threads are daemons, and are stopped before the interpreter exits.

        Raises:
            RuntimeError: If the pipeline was started before. A pipeline runs once.
            TypeError: If the op of a stage cannot be pickled for its process pool.
            TypeError, ValueError: If the timeout is not a number or is NaN, or if another argument is given.
        """
        check_timeout("timeout", timeout)
        if unknown := kwargs.keys() - {"daemon"}:
            raise TypeError(f"start() got an unexpected keyword argument {min(unknown)!r} ({callers_line()}).")
        if kwargs:
            message = "`daemon` has no effect: the pipeline's threads are daemons and are stopped at exit."
            warnings.warn(message, stacklevel=2)
        if not self._start():
            raise RuntimeError("The pipeline was already started. A pipeline runs once: build another one.")

    def _start(self) -> bool:
        """Start the threads unless that was done, and return whether it was not: several readers may come at once."""
        # What one of them puts here, once and for all. A lock that is released would keep a signal handler waiting that
        # comes in between, and a Ctrl-C could come between taking a lock and noting that it was taken.
        claims, claim = self._claims, object()
        try:
            if claims.setdefault("start", claim) is not claim:
                return False
            self._started = True
            self._declared = None
            lifetime.watch(self._engine)
            for source in self._engine.sources:
                source.note_state()
            for node in self._engine.nodes:
                node.note_state()
            start(self._engine)
            if self._tuner is not None:
                self._tuner.begin()
        except BaseException as error:
            if claims.get("start") is claim:
                # The caller sees it now. Others are told at their reads.
                self._observed = True
                abort(self._engine, error)
            raise
        return True

    def stop(self, *, timeout: float | None = None) -> None:
        """Stop the pipeline and wait for its threads.

        It waits for running ops, including those in your executors, and discards their results. Finished items can
        still be read. A call does nothing if the pipeline was stopped already, was not started, or was stopped by the
        interpreter's exit. Inside an op of the pipeline it only asks the pipeline to stop, since the op cannot wait for
        itself.

        Args:
            timeout: Seconds to wait for running ops. None waits 10 seconds, and a negative number counts as 0. It does
                not wait for a source that blocks in ``next()``: the source's thread is a daemon and ends when the
                source returns.

        Raises:
            TypeError, ValueError: If the timeout is not a number, or is NaN.
            TimeoutError: If an op still runs at the timeout; the message shows where. `stop` may be called again.
            PipelineFailure: If a stage failed and no reader has seen the failure. It is raised at most once.
        """
        engine = self._engine
        if engine.exited:
            # A generator that is collected at the very end may call this when the modules' names are gone.
            return
        timeout = check_timeout("timeout", timeout)
        if not self._started or engine.forked:
            return
        if engine.is_mine():
            engine.request_stop()
            return
        seconds = lifetime.STOP_SECONDS if timeout is None else timeout
        deadline = monotonic() + seconds
        alive = lifetime.end_threads(engine, seconds)
        elsewhere = lifetime.await_executors(engine, deadline)
        lifetime.drop_remains(engine)
        engine.reporter.consumer_ended()
        if alive or elsewhere:
            # Imported here because a pipeline that stops in time does not need it.
            from .stragglers import describe_stragglers  # noqa: PLC0415

            raise TimeoutError(describe_stragglers(engine, alive))
        failure = engine.failures.as_exception()
        if failure is not None and not self._observed:
            self._observed = True
            try:
                raise failure
            finally:
                # Its traceback holds this frame, which holds the pipeline.
                del failure

    def auto_stop(self, *, timeout: float | None = None) -> AbstractContextManager[Self]:
        """Start the pipeline, and stop it at the end of the ``with`` block.

        Args:
            timeout: Passed to `stop`.

        Returns:
            A context manager that yields the pipeline itself.

        Raises:
            PipelineFailure, TimeoutError: At the end of the block, as `stop` raises them. An exception of the block
                itself takes precedence; if the pipeline could not be stopped, a note on it says so.
            RuntimeError, TypeError: When the block is entered, as `start` raises them. Note that a read has started the
                pipeline, too.
            TypeError, ValueError: If the timeout is not a number, or is NaN.
        """
        # Checked here, because entering the block runs inside contextlib.
        return self._auto_stop(check_timeout("timeout", timeout))

    @contextmanager
    def _auto_stop(self, timeout: float | None) -> Iterator[Self]:
        self.start()
        try:
            yield self
        except BaseException as error:
            self._observed = True
            try:
                self.stop(timeout=timeout)
            except TimeoutError as late:
                error.add_note(f"The pipeline could not be stopped: {late}")
            raise
        self.stop(timeout=timeout)

    def get_item(self, *, timeout: float | None = None) -> T:
        """Return the next item, and start the pipeline if necessary.

        Args:
            timeout: Seconds to wait. None waits as long as it takes; 0 or less looks once.

        Raises:
            TypeError, ValueError: If the timeout is not a number, or is NaN.
            TimeoutError: If there is no item in time.
            EOFError: If there will be no more items, because the source is exhausted or the pipeline was stopped. With
                a continuous source, also if an epoch has ended; the next read then begins the next epoch.
            PipelineFailure: If there will be no more items because a stage failed. Further reads raise it again.
            RuntimeError: If it would have to wait in a forked child, or inside an op of this pipeline.
        """
        engine = self._engine
        ends, entries = engine.ends, engine.sink.entries
        deadline = inf if timeout is None else deadline_of(check_timeout("timeout", timeout))
        root = None
        try:
            # A Ctrl-C may have cut an earlier read short when it was about to tell that the epoch has ended.
            while not ends.in_hand():
                try:
                    root, value = entries.popleft()
                except IndexError:
                    self._wait(deadline)
                    entries = engine.sink.entries
                    continue
                except BaseException:
                    cut_short(engine)
                    raise
                if root is EPOCH_END:
                    ends.take()
                    took(engine, root)
                    break
                took(engine, root)
                item: T = value
                return item
        except BaseException:
            # A Ctrl-C, most likely.
            take_back(engine, root)
            raise
        with ends:
            raise EOFError("The epoch has ended; the next read begins the next one.")

    def get_iterator(self, *, timeout: float | None = None) -> PipelineIterator[T]:
        """Return an iterator over the remaining items, or with a continuous source over those of one epoch.

        If you leave a loop and iterate again, the new loop goes on where the first stopped. Nothing is lost.

        Args:
            timeout: Seconds to wait for each item. After that ``next`` raises TimeoutError, and may be called again.
                None waits as long as it takes.

        Raises:
            TypeError, ValueError: If the timeout is not a number, or is NaN.

        Warns:
            RuntimeWarning: If the pipeline has been read to its end before. A pipeline runs once.
        """
        timeout = check_timeout("timeout", timeout)
        if self._read_to_end:
            warn_caller(
                "The pipeline has been read to its end before, and a pipeline runs once, so this iteration yields "
                "nothing. For several epochs, pass `continuous=True` to `add_source`, build another pipeline, or use a "
                "`DataLoader`."
            )
        return PipelineIterator(self, timeout)

    def __iter__(self) -> PipelineIterator[T]:
        """Return an iterator over the remaining items, or with a continuous source over those of one epoch."""
        return self.get_iterator()

    def statistics(self) -> PipelineStatistics:
        """Return what each stage has done so far, and which one limits the throughput.

        It takes no lock, so it may be called at any time, from any thread, op or signal handler. Counts that change
        while they are read may differ by the items that are moving at that moment.
        """
        return self._collect(self._engine)

    def failures(self) -> list[FailedItem]:
        """Return the failed items, oldest first: at most the 100 most recent ones.

        The records hold text, no items and no exceptions.
        """
        return self._engine.failures.quarantine.items()

    def report(self, path: str | os.PathLike[str], *, title: str = "SPDL pipeline") -> None:
        """Write what the pipeline has done so far as a page of HTML: `spdl.observe.write_report` of its totals.

        For charts over time, give `spdl.observe.write_report` a `spdl.observe.History` that was kept meanwhile.

        Args:
            path: Where the page goes. An existing file is replaced.
            title: The heading of the page.

        Raises:
            OSError: If the file cannot be written.
            TypeError: If an argument is not as described.
        """
        from spdl.observe._report.write_report import write_report  # noqa: PLC0415 - few ask for one.

        write_report(self, path, title=title)

    def _wait(self, deadline: float, gate: Lock | None = None) -> None:
        """Wait until the sink may hold an entry or the gate is opened. Raise at the end of items or the deadline."""
        try:
            if not self._started:
                self._start()
            check_usable(self._engine, "read")
            if not wait(self._engine, deadline, gate):
                self._raise_end()
        except BaseException as error:
            if type(error.__context__) is IndexError:
                # It waits since it found the sink empty, which is no part of what a Ctrl-C or a timeout shows.
                error.__context__ = None
            raise

    def _raise_end(self) -> None:
        self._engine.reporter.consumer_ended()
        failure = self._engine.failures.as_exception()
        if failure is not None:
            self._observed = True
            try:
                raise failure
            finally:
                # Its traceback holds this frame, which holds the pipeline.
                del failure
        if self._engine.done and not self._read_to_end:
            self._read_to_end = True
            if not (self._engine.has_pulled() or self._engine.stopping):
                warn_of_nothing(self._engine)
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


READS.add(Pipeline.get_item.__code__)


def _forget(engine: weakref.ref[Engine]) -> None:
    # The collector may have taken both at once.
    if (remaining := engine()) is not None:
        lifetime.forget(remaining)

"""The pipeline object that users start, read, adjust and stop, and its state."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from spdl._check import check_str, check_timeout, positive, refuse
from spdl._locate import callers_line, warn_caller
from spdl._sealed import check_state, refuse_state, sealed
from spdl.pipeline._declare.op import FailedItem
from spdl.pipeline._declare.records import SINK, PipelineConfig
from spdl.pipeline._engine import lifetime
from spdl.pipeline._engine.checkpoint import changes_counts, load, load_ranks, stages_of, take
from spdl.pipeline._engine.lifetime import abort, set_concurrency, set_num_threads, set_queue_capacity, start
from spdl.pipeline._iterators import (
    PipelineIterator,
    check_usable,
    hand_over,
    next_entry,
    wait,
    warn_of_nothing,
)
from spdl.pipeline._stages.aggregate import AggregateNode
from spdl.pipeline._state.format import compare_fingerprints, ranks_of
from spdl.pipeline._state.passes import how_to_seek
from spdl.pipeline._world import Lock, get_ident, monotonic

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source
    from spdl.pipeline._report.statistics import PipelineStatistics
    from spdl.tune import TunedSettings, TuningStep
    from spdl.tune._tuner import Tuner


T = TypeVar("T")


class Pipeline(Generic[T]):
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
        self._engine = engine
        # Changes the limits by itself, if that was asked for.
        self._tuner = tuner
        # Until the start: then what is the user's belongs to the stages.
        self._declared = declared
        # A stage that is measured alone is not, and may drop everything.
        self._is_declared = declared is not None
        self._stopped_by: int | None = None
        self._graph = [] if declared is None else stages_of(declared)
        self._sources: list[Any] | None = None
        self._description = description
        # Imported here because declaring pipelines needs no statistics, and a signal handler must not import.
        from spdl.pipeline._engine.describe import collect  # noqa: PLC0415

        self._collect = collect
        self._started = False
        self._observed = False
        # A reader has seen the end of the last item's pipeline: there is nothing more to read.
        self._read_to_end = False
        self._claims: dict[str, object] = {}
        # The threads hold the engine, never the pipeline, so an unused pipeline is collected and stops them. Before
        # they run, an op of the engine may refer to the pipeline: held here, it would never be collected.
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
        # One of them puts a value here, once. A lock that is released would keep a signal handler waiting that comes in
        # between, and a Ctrl-C could come between taking a lock and noting that it was taken.
        claims, claim = self._claims, object()
        try:
            if claims.setdefault("start", claim) is not claim:
                return False
            self._started = True
            self._declared = None
            lifetime.watch(self._engine)
            self._note_states()
            start(self._engine)
            if self._tuner is not None:
                self._tuner.begin()
        except BaseException as error:
            if claims.get("start") is claim:
                # The caller sees the error now, and other readers see it at their reads.
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
        self._stopped_by = get_ident()
        seconds = lifetime.STOP_SECONDS if timeout is None else timeout
        deadline = monotonic() + seconds
        alive = lifetime.end_threads(engine, seconds)
        elsewhere = lifetime.await_executors(engine, deadline)
        lifetime.drop_remains(engine)
        engine.reporter.consumer_ended()
        if alive or elsewhere:
            # Imported here because a pipeline that stops in time does not need it.
            from spdl.pipeline._stages.stragglers import describe_stragglers  # noqa: PLC0415

            raise TimeoutError(describe_stragglers(engine, alive))
        if not self._observed:
            self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the failure of the stages, if one has failed."""
        failure = self._engine.failures.as_exception()
        if failure is not None:
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
        entry = next_entry(engine, self, check_timeout("timeout", timeout))
        if entry is None:
            raise EOFError("The epoch has ended; the next read begins the next one.")
        root, value = entry
        item: T = value
        notes, key = hand_over(engine, root)
        del notes[key]
        return item

    def get_iterator(self, *, timeout: float | None = None) -> PipelineIterator[T]:
        """Return an iterator over the remaining items, which with a continuous source end with the epoch.

        If you leave a loop and iterate again, the new loop continues where the first stopped. Nothing is lost.

        Args:
            timeout: Seconds to wait for each item. After that ``next`` raises TimeoutError, and may be called again.
                None waits as long as it takes.

        Raises:
            TypeError, ValueError: If the timeout is not a number, or is NaN.

        Warns:
            RuntimeWarning: If the pipeline has been read to its end before, or was stopped before its end. A pipeline
                runs once.
        """
        timeout = check_timeout("timeout", timeout)
        # Another thread may stop a pipeline at any time.
        if self._stopped_by == get_ident() and not self._engine.done:
            warn_caller(
                "The pipeline was stopped before its end, so this iteration yields only the "
                f"{len(self._engine.sink.entries)} items that were ready. Iterate within the `with` block of "
                "`auto_stop()`, or before `stop()`."
            )
        elif self._read_to_end:
            warn_caller(
                "The pipeline has been read to its end before, and a pipeline runs once, so this iteration yields "
                "nothing. For several epochs, pass `continuous=True` to `add_source`, build another pipeline, or use a "
                "`DataLoader`."
            )
        return PipelineIterator(self, timeout)

    def __iter__(self) -> PipelineIterator[T]:
        """Return an iterator over the remaining items, which with a continuous source end with the epoch."""
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

        For charts over time, give `spdl.observe.write_report` a `spdl.observe.History` that was kept in the meantime.

        Args:
            path: The path of the page. An existing file is replaced.
            title: The heading of the page.

        Raises:
            OSError: If the file cannot be written.
            TypeError: If an argument is not as described.
        """
        from spdl.observe._report import write_report  # noqa: PLC0415 - few ask for one.

        write_report(self, path, title=title)

    def _wait(self, deadline: float, gate: Lock | None = None) -> bool:
        """Wait until the sink may hold an entry or the gate is opened. Raise at the end of items or the deadline."""
        if not self._started:
            self._start()
        check_usable(self._engine, "read")
        if not wait(self._engine, deadline, gate):
            self._raise_end()
        return True

    def _raise_end(self) -> None:
        self._engine.reporter.consumer_ended()
        self._raise_failure()
        if self._engine.done and not self._read_to_end:
            self._read_to_end = True
            if self._is_declared and not self._engine.stopping:
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

    # ---- limits ----

    def set_concurrency(self, stage: str, concurrency: int) -> None:
        """Change how many items a stage works on at once. The pipeline may be running or not started yet.

        If the new concurrency of a synchronous stage is higher than the pipeline's number of threads, threads are
        added. A stage on your executor still uses the executor's threads or processes. If the new concurrency is lower
        than the number of items that the stage works on now, the stage starts nothing until it is below. In a region,
        each worker gets its share, rounded up, and learns of it with its next items. Once the pipeline has ended or was
        stopped, a call changes nothing.

        Args:
            stage: The stage's name. No other stage may have it: pass ``name`` to `PipelineBuilder.pipe`.
            concurrency: At least 1; in a region, for all workers together.

        Raises:
            ValueError: If no stage or more than one has this name, if the stage always works on one item at a time
                (`aggregate`, `disaggregate`, a fork or a merge), or if ``concurrency`` is less than 1.
            TypeError: If ``stage`` is not a str or ``concurrency`` not an int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        check_str("stage", stage)
        concurrency = positive("concurrency", concurrency)
        engine = self._engine
        found = [node for node in engine.nodes if node.name == stage]
        if len(found) != 1:
            names = sorted({node.name for node in engine.nodes if node.adjustable})
            remedy = f"{len(found)} stages have that name."
            refuse(ValueError, "stage", f"the name of one stage only, among {names}", stage, remedy)
        (node,) = found
        if not node.adjustable:
            remedy = "This stage always works on one item at a time."
            refuse(ValueError, "stage", "the name of a stage made by `pipe`", stage, remedy)
        check_usable(self._engine, "changed")
        with engine.lock:
            set_concurrency(engine, node, concurrency)
            if self._tuner is not None:
                self._tuner.pin_stage(stage)

    def set_num_threads(self, num_threads: int) -> None:
        """Change how many synchronous ops may run at once, while the pipeline runs or before.

        If more ops run than are allowed now, none starts until enough of them have ended. This has no effect once the
        pipeline has ended or was stopped.

        Args:
            num_threads: At least 1.

        Raises:
            ValueError: If ``num_threads`` is less than 1.
            TypeError: If it is not an int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        num_threads = positive("num_threads", num_threads)
        check_usable(self._engine, "changed")
        engine = self._engine
        with engine.lock:
            set_num_threads(engine, num_threads)
            if self._tuner is not None:
                self._tuner.pin_threads()

    def set_queue_capacity(self, stage: str, capacity: int) -> None:
        """Change how many items may wait in front of a stage, while the pipeline runs or before.

        Items that wait already stay if there are more. Finished items that find no place keep their slots in the stage
        before, as always. Once the pipeline has ended or was stopped, this has no effect.

        Args:
            stage: The name of one stage, or ``"sink"`` for the items that wait to be read. For a stage that merges,
                it is the capacity of each branch.
            capacity: At least 1.

        Raises:
            ValueError: If there is no such stage or more than one, or if ``capacity`` is less than 1.
            TypeError: If ``stage`` is not a str or ``capacity`` no int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        check_str("stage", stage)
        capacity = positive("capacity", capacity)
        engine = self._engine
        found = [node for node in engine.nodes if node.name == stage and node.is_stage]
        if stage != SINK and len(found) != 1:
            names = [*sorted({node.name for node in engine.nodes if node.is_stage}), SINK]
            remedy = f"{len(found)} stages have that name."
            refuse(ValueError, "stage", f"the name of one stage only, among {names}", stage, remedy)
        check_usable(self._engine, "changed")
        with engine.lock:
            set_queue_capacity(engine, found[0] if found else None, capacity)
            if self._tuner is not None and not found:
                self._tuner.pin_buffer()

    def tuned(self) -> TunedSettings:
        """Return the settings that the tuner has chosen until now, to be written into the program.

        Once ``settled`` is True, there is nothing more to gain from other settings on this machine. It may be asked for
        at any time, also after the end.

        Raises:
            RuntimeError: If the pipeline was not built with ``autotune=True``.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> builder = PipelineBuilder().add_source(range(4)).pipe(str, concurrency=2).add_sink(3)
            >>> with builder.build(autotune=True).auto_stop() as pipeline:
            ...     items = list(pipeline)
            >>> print(pipeline.tuned())
            pipe(..., name='str', concurrency=2)
            add_sink(3)
            build(num_threads=2)
        """
        return self._asked_to_tune().settings()

    def tuning_log(self) -> list[TuningStep]:
        """Return the changes that the tuner has made, oldest first, each with its reason: at most the last 200.

        Raises:
            RuntimeError: If the pipeline was not built with ``autotune=True``.
        """
        return self._asked_to_tune().log()

    def _asked_to_tune(self) -> Tuner:
        if self._tuner is None:
            raise RuntimeError(f"The pipeline does not tune itself: build it with `autotune=True` ({callers_line()}).")
        return self._tuner

    # ---- the state ----

    def state_dict(self) -> dict[str, Any]:
        """Return which items have been received, so that a pipeline built the same way can continue from there.

        An item counts as received when ``next()`` or `get_item` has returned it. Nothing is kept for this per item: the
        state is made when it is asked for, in some ten microseconds. It may be asked for at any time: between two
        items, from any thread, in an op, in a signal handler, before the start and after the end.

        Returns:
            A dict that `json` can write, usually of less than 1 kB; see `load_state_dict`. The part that the source's
            own ``state_dict()`` returns is a part of it, if the source has one.

        Raises:
            RuntimeError: In a forked child; or if an aggregator has returned a result and may have kept something back
                that the state knows nothing of. The message says what to do.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> def build():
            ...     return PipelineBuilder().add_source(range(6)).pipe(lambda x: 10 * x).add_sink().build(num_threads=1)
            >>> with build().auto_stop() as pipeline:
            ...     print(pipeline.get_item(), pipeline.get_item())
            ...     state = pipeline.state_dict()
            0 10
            >>> resumed = build()
            >>> resumed.load_state_dict(state)
            >>> with resumed.auto_stop():
            ...     print(list(resumed))
            [20, 30, 40, 50]
        """
        engine = self._engine
        if engine.forked:
            raise RuntimeError("The pipeline runs in the parent of this process, which alone knows what was received.")
        fingerprint = self._fingerprint()
        if not self._started:
            self._note_states()
        for node in engine.nodes:
            if (inexact := node.inexact()) is not None:
                raise RuntimeError(f"{inexact} ({callers_line()})")
        with engine.lock:
            taken = take(engine)
        return sealed("pipeline", {"fingerprint": fingerprint, **taken})

    def _note_states(self) -> None:
        parts: list[Source | Node] = [*self._engine.sources, *self._engine.nodes]
        for part in parts:
            part.note_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume at the point where a state was taken. Call it before the pipeline starts.

        The pipeline then delivers the items that had not been received: if the stages keep the order, that very
        sequence. See the page on resuming for what is exact and what is asked of ops and sources.

        Args:
            state: What `state_dict` returned, also if it went through JSON. It must come from a pipeline of the same
                stages and source. Concurrencies, orders, batch sizes and policies may differ.

        Raises:
            TypeError: If the state is not a dict.
            ValueError: If the state is damaged, newer than this version of the package, or of another pipeline or
                source, or if the source is a set. The pipeline is then unchanged.
            RuntimeError: If the pipeline was started already.
        """
        engine = self._engine
        check_state("state", state, "pipeline")
        if self._started or self._claims:
            raise RuntimeError(
                "The pipeline was started already: load the state before the first read. A pipeline runs once, so "
                "build another one for another state."
            )
        ranks = ranks_of("state", state, "pipeline")
        for each in ranks or [state]:
            compare_fingerprints(each.get("fingerprint"), self._fingerprint())
        if any(isinstance(source.iterable, set | frozenset) for source in engine.sources):
            wrong = "which has another order in each process. Pass it sorted, or as the list that it was made of"
            refuse_state("state", f"cannot be loaded: the source is a set, {wrong}")
        try:
            if ranks:
                load_ranks(engine, ranks)
            else:
                load(engine, state, self._changes_counts)
        except ValueError as error:
            refuse_state("state", f"cannot be loaded: {error}")
        for node in engine.nodes:
            node.start_afresh()
        _warn_of_replay(engine)
        _warn_of_dropped(engine)

    def _changes_counts(self) -> str | None:
        assert self._declared is not None
        return changes_counts(self._declared)

    def _fingerprint(self) -> dict[str, Any]:
        """Return what a state is compared by: the stages' names, and what the sources are known by."""
        if self._sources is None:
            # Asks those that are not built-in sequences for their length.
            sources = sorted(self._engine.sources, key=lambda source: source.index)
            self._sources = [source.identity.complete() for source in sources]
        return {"stages": self._graph, "sources": self._sources}


def _forget(engine: weakref.ref[Engine]) -> None:
    # The collector may have taken both at once.
    if (remaining := engine()) is not None:
        lifetime.forget(remaining)


def _warn_of_replay(engine: Engine) -> None:
    """Warn if a source has to be iterated from its beginning to get to where it was."""
    for source in engine.sources:
        if source.must_replay() and how_to_seek(source.iterable) == "replay":
            message = (
                f"The source {type(source.iterable).__name__!r} cannot begin at a position, so it is iterated from the "
                "beginning of the epoch, and the items that were received are thrown away before the first stage. It "
                "must yield the same items in the same order. To begin at once, give it a method "
                "`iterate_from(position)`, or pass a list or another sequence."
            )
            warn_caller(message, UserWarning)


def _warn_of_dropped(engine: Engine) -> None:
    """Warn if a stage may drop other items than in an uncut run."""
    for node in engine.nodes:
        if isinstance(node, AggregateNode) and node.drops_held_back():
            message = (
                f"Stage {node.name!r} holds items back and drops what is left at the end of an epoch. In the epoch "
                "that is resumed it gets fewer items, so it may drop others than the uncut run would have. Without "
                "`drop_last=True` nothing is lost."
            )
            warn_caller(message, UserWarning)

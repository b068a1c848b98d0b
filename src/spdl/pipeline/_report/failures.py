"""Failures: exceptions in words, items that were given up, and the error of a failed pipeline."""

from __future__ import annotations

import contextlib
import logging
import reprlib
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from spdl._check import is_fraction
from spdl.pipeline._declare.defaults import is_compact_log_enabled
from spdl.pipeline._declare.op import FailedItem
from spdl.pipeline._declare.records import MaxFailures, OnFailure
from spdl.pipeline._report.counters import StageCounters

_LOG = logging.getLogger("spdl.pipeline")

# A message may hold the item, and that may be as long as a file.
MESSAGE_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 20_000
# One object that is raised for each item, as a failed future does, gets the frames of all of them.
_FRAMES = 100


def message_of(error: BaseException) -> str:
    try:
        return shorten(str(error), MESSAGE_CHARACTERS)
    except BaseException as broken:  # noqa: BLE001 - what describes the failure must not replace it.
        return f"(its message cannot be read: {type(broken).__name__})"


def type_and_message(error: BaseException) -> str:
    """The exception's last line, or lines, in a traceback."""
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except BaseException:  # noqa: BLE001 - as above; any attribute of an exception may be a property with user code.
        return f"{type(error).__name__}: {message_of(error)}"


def traceback_of(error: BaseException) -> str:
    return _formatted(error) or f"{type_and_message(error)}\n(its traceback cannot be shown)"


def _formatted(error: BaseException) -> str | None:
    try:
        return "".join(traceback.format_exception(type(error), error, _last_frames(error)[0]))
    except BaseException:  # noqa: BLE001 - as above.
        return None


def _last_frames(error: BaseException) -> tuple[TracebackType | None, bool]:
    """Return the end of the exception's traceback, and whether there is more of it."""
    end = first = error.__traceback__
    for _ in range(_FRAMES):
        if end is None:
            return first, False
        end = end.tb_next
    last = first
    while end is not None and last is not None:
        end, last = end.tb_next, last.tb_next
    return last, last is not first


def shorten(text: str, characters: int) -> str:
    half = characters // 2
    left_out = len(text) - 2 * half
    return text if left_out <= 0 else f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def note_once(error: BaseException, note: str) -> None:
    """Add a note to an exception, which may be one object that is raised over and over."""
    # A user's class may have its own idea of notes.
    with contextlib.suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            BaseException.add_note(error, note)


def log_error(error: BaseException, message: str, *values: object) -> None:
    """Log what was raised, after a message: with its traceback or, if the log should be compact, in one line."""
    if is_compact_log_enabled():
        _LOG.error(f"{message}: %s", *values, on_one_line(error))
        return
    what = shorten(type_and_message(error), MESSAGE_CHARACTERS)
    text = _formatted(error)
    if text is not None and len(text) <= TRACEBACK_CHARACTERS and not _last_frames(error)[1]:
        _LOG.error(f"{message}: %s", *values, what, exc_info=error)
    else:
        # A handler would write in full what `exc_info` holds, or fail to.
        _LOG.error(f"{message}: %s\n%s", *values, what, shorten(text or traceback_of(error), TRACEBACK_CHARACTERS))


def on_one_line(error: BaseException) -> str:
    what = " ".join(shorten(type_and_message(error), MESSAGE_CHARACTERS).split())
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return what + "".join(f" ({frame.filename}:{frame.lineno}:{frame.name})" for frame in frames)


def show_logging_error() -> None:
    """Print what a log handler raised, as `logging` itself does for the handlers that follow its rules."""
    if logging.raiseExceptions and sys.stderr is not None:
        traceback.print_exc(file=sys.stderr)


class PipelineFailure(ExceptionGroup[Exception]):
    """Raised to the consumer when a stage failed as a whole.

    It comes after the items that were finished before the failure, at the read that would have waited for the next
    one, and again at every later read. ``exceptions`` holds the original exceptions, one per failed stage, each
    with a note that names the stage.

    Items that fail on their own are dropped, logged and counted. They raise it only if they are more than
    ``max_failures``, or if every item of the run or of an epoch failed.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, PipelineFailure
        >>> def source():
        ...     yield 1
        ...     raise OSError("disk on fire")
        >>> pipeline = PipelineBuilder().add_source(source()).add_sink(1).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     try:
        ...         for item in pipeline:
        ...             print(item)
        ...     except* OSError as group:
        ...         print(group.exceptions[0])
        1
        disk on fire
    """

    def __new__(cls, errs: Sequence[tuple[str, BaseException]]) -> Self:
        """Gather the failures, sorted by stage name.

        Args:
            errs: ``(stage name, exception)`` pairs. An exception that is no `Exception` (`KeyboardInterrupt`,
                `SystemExit`) is wrapped in a `RuntimeError` whose cause it is, so that ``except Exception`` sees it.
        """
        exceptions = [_as_exception(error) for _, error in sorted(errs, key=lambda failure: failure[0])]
        return super().__new__(cls, "pipeline stages failed", exceptions)

    def __init__(self, errs: Sequence[tuple[str, BaseException]]) -> None:  # noqa: ARG002 - __new__ took them.
        super().__init__("pipeline stages failed", list(self.exceptions))

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from its message. Processes hand exceptions over as pickles.
        return PipelineFailure, ([("", error) for error in self.exceptions],), self.__dict__ or None

    def derive(self, excs: Sequence[Exception]) -> PipelineFailure:  # type: ignore[override]
        """Build the part that ``except*`` or ``split`` leaves.

        Args:
            excs: The failures that are left.

        Returns:
            A `PipelineFailure` of these alone, without the names of their stages.

        Raises:
            ValueError: If there are none.
        """
        return PipelineFailure([("", error) for error in excs])


def _as_exception(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"A stage raised {type(error).__name__}, which stops the pipeline: {message_of(error)}")
    wrapped.__cause__ = error
    with contextlib.suppress(Exception):
        wrapped.__notes__ = list(error.__notes__)
    return wrapped


# That many failed items are remembered. With no bound, a dataset full of errors would be a leak.
_REMEMBERED = 100

_SHOWN_BYTES = 40


class _Repr(reprlib.Repr):
    """Shortens everything that may be as long as a file; a broken ``__repr__`` is replaced by the type's name."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8

    def repr_bytes(self, x: bytes, level: int) -> str:  # noqa: ARG002 - the base class's signature.
        return f"{x[:_SHOWN_BYTES]!r}... ({len(x)} bytes)" if len(x) > _SHOWN_BYTES else repr(x)

    repr_bytearray = repr_bytes


_REPR = _Repr()


def _show(item: object) -> str:
    try:
        return _REPR.repr(item)
    except BaseException:  # noqa: BLE001 - classes that only share a name with a built-in one are taken for it, for example.
        return f"<{type(item).__name__} object, whose repr fails>"


class Quarantine:
    """The most recent failed items."""

    def __init__(self) -> None:
        self._items: deque[FailedItem] = deque(maxlen=_REMEMBERED)

    def add(
        self,
        stage: str,
        origins: list[tuple[int, int]],
        origin: str,
        *,
        item: object,
        error: BaseException,
        attempts: int,
    ) -> FailedItem:
        """Write an item down. Runs the user's ``__repr__``, so it must be called without the engine's lock.

        ``origins`` are the sources that it comes from and the positions there, and ``origin`` is the same in words.
        """
        failed = FailedItem(
            stage,
            tuple(position for _, position in origins),
            tuple(source for source, _ in origins),
            origin,
            _show(item),
            shorten(type_and_message(error), MESSAGE_CHARACTERS),
            shorten(traceback_of(error), TRACEBACK_CHARACTERS),
            attempts,
        )
        self._items.append(failed)
        return failed

    def adopt(self, failed: FailedItem) -> None:
        self._items.append(failed)

    def items(self) -> list[FailedItem]:
        while True:
            try:
                return list(self._items)
            except RuntimeError:  # Without a GIL another thread may add one.
                continue


# A share of failures says nothing before this many items were tried.
_ENOUGH = 100


class Tally:
    """The failures that one limit applies to: of one stage, or of all stages without their own limit.

    Guarded by the engine's lock.
    """

    def __init__(self, limit: MaxFailures) -> None:
        self.limit = limit
        self._stages: list[StageCounters] = []

    def add(self, stage: StageCounters) -> None:
        self._stages.append(stage)

    def verdict(self) -> str | None:
        """Return the end of a sentence that says that there are too many failures, or None if there are not."""
        limit = self.limit
        failures = sum(stage.failed for stage in self._stages)
        if is_fraction(limit):
            tried = failures + sum(stage.completed for stage in self._stages)
            if tried < _ENOUGH or failures * limit.denominator <= limit.numerator * tried:
                return None
            share, threshold = 100 * failures / tried, float(100 * limit)
            return (
                f"failed {failures} times out of {tried} invocations ({share:.1f}%), which exceeds the threshold "
                f"({threshold:.1f}%)"
            )
        if 0 <= limit < failures:
            return f"failed {failures} times, which exceeds the threshold ({limit})"
        return None


class _FailureCounts(NamedTuple):
    """Numbers of items that a stage has given up, dropped and passed on."""

    failed: int
    dropped: int
    emitted: int


def _counts_of(stage: StageCounters) -> _FailureCounts:
    return _FailureCounts(stage.failed, stage.dropped, stage.emitted)


class EpochCounts:
    """The counts of each stage at the ends of epochs. Guarded by the engine's lock.

    Stages nearer the source may be epochs ahead of the sink, so each is asked when the mark passes it.
    """

    def __init__(self) -> None:
        # Of that many epochs, items may have come out or been dropped in an earlier run.
        self._resumed = 0
        # The counts of the stages at marks that have not reached the sink yet, and at the last mark that has.
        self._passed: dict[StageCounters, deque[_FailureCounts]] = {}
        self._before: dict[StageCounters, _FailureCounts] = {}

    def resume(self, epochs: int) -> None:
        self._resumed = epochs

    def passes(self, stage: StageCounters) -> None:
        self._passed.setdefault(stage, deque()).append(_counts_of(stage))

    def failure(self, stages: Sequence[tuple[str, StageCounters]], quarantine: Quarantine) -> RuntimeError | None:
        """Return what to raise at the end of the run, or of the epoch that has reached the sink, if every item failed.

        A loop over nothing looks like success: a wrong path or a broken op would train on no data at all.
        """
        culprit, failed, others = None, 0, 0
        last = stages[-1][1] if stages else None
        for name, stage in stages:
            passed = self._passed.get(stage)
            counts = passed.popleft() if passed else _counts_of(stage)
            before = self._before.get(stage, _FailureCounts(0, 0, 0))
            self._before[stage] = counts
            failed += counts.failed - before.failed
            others += counts.dropped - before.dropped
            if counts.failed > before.failed:
                culprit = name
            if stage is last:
                others += counts.emitted - before.emitted
        resumed, self._resumed = self._resumed, max(0, self._resumed - 1)
        if culprit is None or others or resumed:
            return None
        # Another stage's failures in the next epoch may have pushed it out of what is remembered.
        errors = [item.error for item in quarantine.items() if item.stage == culprit]
        reason = f": {errors[-1]}" if errors else "."
        return RuntimeError(
            f"Nothing came out of the pipeline: all {failed} items failed, the last one in stage {culprit!r}{reason}"
        )


class FailureCollector:
    """The failures of one run. The lists only grow until `let_go`; they are guarded by the engine's lock.

    In a worker, the teller reports a failed item to the parent, which knows its position: it is called with the stage,
    the last attempt and the exception.
    """

    def __init__(self, max_failures: MaxFailures) -> None:
        self.stages: list[tuple[str, BaseException]] = []
        # Functions that add the notes that are still missing.
        self._notes: list[Callable[[], None]] = []
        self.tally = Tally(max_failures)
        self.quarantine = Quarantine()
        self.teller: Callable[[Any, Any, Exception], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.stages)

    def tell(self, teller: Callable[[Any, Any, Exception], None]) -> None:
        """Have failed items told elsewhere, which writes them down and counts them. Called before the start."""
        self.teller = teller

    def add(self, name: str, error: BaseException) -> None:
        self.stages.append((name, error))

    def add_stage(self, name: str, info: object, origin: Callable[[], str] | None, error: BaseException) -> None:
        """Note that a stage has failed.

        ``origin`` returns the source item in words, if there is one. It may take long, so the consumer calls it.
        """
        self._notes.append(partial(_annotate, error, str(info), origin))
        self.add(name, error)

    def let_go(self) -> list[object]:
        """Return what holds the exceptions, whose frames hold what is the user's. Nobody can ask for them any more."""
        holders = [*self.stages, *self._notes]
        self.stages.clear()
        self._notes.clear()
        return holders

    def as_exception(self) -> PipelineFailure | None:
        """Return the error for the consumer; None if nothing failed. Called without the engine's lock.

        It adds the notes with the stage and the source item, which may run user code: the class of an exception may
        define `add_note`.
        """
        # Two consumers may get the error at the same time. Both get it with its notes.
        for write in self._notes.copy():
            write()
            with suppress(ValueError):
                self._notes.remove(write)
        return PipelineFailure(self.stages) if self.stages else None


def _annotate(error: BaseException, stage: str, origin: Callable[[], str] | None) -> None:
    note_once(error, f"Pipeline stage: {stage}" if origin is None else f"Pipeline stage: {stage}, {origin()}")


# A stage that fails on every item of a large dataset must not drown the log: each stage's first failures are
# written in full, then one line for every power of two.
_LOGGED_IN_FULL = 10


def report_failed_item(item: FailedItem, error: Exception, count: int, callback: OnFailure | None) -> None:
    """Log an item that is dropped, the ``count``-th of its stage, and call the stage's ``on_failure``.

    Must be called without the engine's lock. The item is lost already and the rest must continue, so exceptions of log
    handlers and the callback are only logged.
    """
    try:
        if count <= _LOGGED_IN_FULL:
            log_error(error, "Stage %r failed on %s, which is dropped", item.stage, item.origin)
        elif count & (count - 1) == 0:
            _LOG.error(
                "Stage %r has now failed on %d items; the last was %s: %s",
                item.stage,
                count,
                item.origin,
                on_one_line(error) if is_compact_log_enabled() else item.error,
            )
    except Exception:  # noqa: BLE001 - see above.
        show_logging_error()
    if callback is None:
        return
    try:
        callback(item)
    except Exception as raised:  # noqa: BLE001 - see above.
        try:
            log_error(raised, "The on_failure callback of stage %r raised", item.stage)
        except Exception:  # noqa: BLE001 - see above.
            show_logging_error()


class Diagnosed(SystemExit):
    """Raised to end the process after a pipeline was profiled instead of run. A worker process ends its parent too."""

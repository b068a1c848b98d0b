"""asyncio tasks whose failure is logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, positive
from spdl.pipeline._failures.error_text import log_error

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["create_task"]

T = TypeVar("T")

_LOG = logging.getLogger("spdl.pipeline")


class _Suppression:
    """Counts the exceptions raised at each line of code in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()

    def is_worth_logging(self, error: BaseException, threshold: int, interval: int) -> bool:
        """Count an exception, and return whether to log it. If not, log a warning at the threshold and at intervals."""
        place, function = _place(error)
        with self._lock:
            self._counts[place] += 1
            count = self._counts[place]
        if count < threshold:
            return True
        if count == threshold:
            _LOG.warning("Errors repeat at %s:%d:%s, and are no longer logged one by one.", *place, function)
        elif count % interval == 0:
            _LOG.warning("%d errors so far at %s:%d:%s.", count, *place, function)
        return False


def _place(error: BaseException) -> tuple[tuple[str, int], str]:
    trace = error.__traceback__
    if trace is None:
        return ("", 0), ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return (code.co_filename, trace.tb_lineno), code.co_name


_SUPPRESSION = _Suppression()

# The event loop holds its tasks weakly, so a task that nobody else holds could be collected before it is done.
_TASKS: set[asyncio.Task[Any]] = set()


def create_task(  # noqa: PLR0917 - the reference's signature.
    coro: Coroutine[Any, Any, T],
    name: str | None = None,
    log_cancelled: bool = False,  # noqa: FBT001, FBT002
    suppress_repeated_logs: bool = False,  # noqa: FBT001, FBT002
    suppression_threshold: int = 5,
    suppression_warning_interval: int = 100,
) -> asyncio.Task[T]:
    """Start an `asyncio` task on the running loop. If the task raises, the exception is logged as an error.

    A plain task whose result nobody asks for reports its failure only when it is collected, which may be never. Nothing
    else changes: code that awaits the task still gets its exception. The task is held until it is done.

    Args:
        coro: The coroutine that the task runs.
        name: The task's name, which the log shows.
        log_cancelled: Whether to log a warning if the task is cancelled.
        suppress_repeated_logs: Whether to stop logging exceptions that are raised at the same line again and again. The
            count includes all tasks of the process for which this is on.
        suppression_threshold: The count from which exceptions of the same line are no longer logged as errors. With 5,
            the first four are logged, and a warning that this line repeats replaces the fifth.
        suppression_warning_interval: After that, one more warning with the count is logged at every multiple of this
            number.

    Returns:
        The task.

    Raises:
        RuntimeError: If no event loop runs in this thread.
        TypeError, ValueError: If another argument is not as described.

    Example:
        >>> import asyncio
        >>> from spdl.pipeline import create_task
        >>> async def answer():
        ...     return 42
        >>> async def main():
        ...     return await create_task(answer(), name="ask")
        >>> asyncio.run(main())
        42
    """
    try:
        threshold = positive("suppression_threshold", suppression_threshold)
        interval = positive("suppression_warning_interval", suppression_warning_interval)
        suppression = (threshold, interval) if check_flag("suppress_repeated_logs", suppress_repeated_logs) else None
        log_cancelled = check_flag("log_cancelled", log_cancelled)
        task = asyncio.create_task(coro, name=None if name is None else str(name))
    except BaseException:
        if isinstance(coro, CoroutineType):
            # Otherwise it would warn that it was never awaited.
            coro.close()
        raise
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    task.add_done_callback(partial(_log_outcome, log_cancelled, suppression))
    return task


def _log_outcome(log_cancelled: bool, suppression: tuple[int, int] | None, task: asyncio.Task[Any]) -> None:  # noqa: FBT001 - bound by position.
    if task.cancelled():
        if log_cancelled:
            _LOG.warning("Task %r was cancelled.", task.get_name())
        return
    error = task.exception()
    if error is not None and (suppression is None or _SUPPRESSION.is_worth_logging(error, *suppression)):
        log_error(error, "Task %r failed", task.get_name())

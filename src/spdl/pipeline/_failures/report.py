"""Telling of a failed item: the log, and the user's callback."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spdl.pipeline._declare.defaults import is_compact_log_enabled

from .error_text import log_error, on_one_line, show_logging_error

if TYPE_CHECKING:
    from spdl.pipeline._declare.failed_item import FailedItem
    from spdl.pipeline._declare.policy import OnFailure

__all__ = ["report_failed_item"]

_LOG = logging.getLogger("spdl.pipeline")

# A stage that fails on every item of a large dataset must not drown the log: each stage's first failures are
# written in full, then one line for every power of two.
_LOGGED_IN_FULL = 10


def report_failed_item(item: FailedItem, error: Exception, count: int, callback: OnFailure | None) -> None:
    """Log an item that is dropped, and tell the user's callback. Must be called without the engine's lock.

    The item is lost already and the rest must go on, so what a log handler or the callback raises is not let through.

    Args:
        item: What failed.
        error: The exception that the op raised.
        count: How many items of this stage have failed so far, this one included.
        callback: The stage's ``on_failure``.
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

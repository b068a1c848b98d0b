"""Counts on which items a stage failed while it was measured, and why."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .profile_failure import ProfileFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline._declare.failed_item import FailedItem

__all__ = ["FailureCounts"]

_LOG = logging.getLogger("spdl.pipeline")

_PLACE = re.compile(r'^  File "(.*)", line (\d+)', re.MULTILINE)


class FailureCounts:
    """The failures of one stage in all its measurements, by cause.

    Two failures have the same cause if the exceptions have the same type and were raised on the same line. The stage
    gets the same items over and over, so an item counts once for each cause, however often it failed.

    Args:
        stage: The stage's name.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        # The items, the number of calls, and the first failure of each cause.
        self._items: dict[tuple[str, str], set[tuple[int, int]]] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], FailedItem] = {}

    def of_share(self, share: int, num_items: int) -> Callable[[FailedItem], None]:
        """Return a callback for the failed items of a measurement.

        Args:
            share: Which items the measurement uses; measurements of the same number use the same.
            num_items: How many there are. After the last one comes the first one again.
        """

        def note(failed: FailedItem) -> None:
            places = _PLACE.findall(failed.traceback)
            cause = failed.error.partition(":")[0], ":".join(places[-1]) if places else ""
            # Stages fail on several threads at once. Each of these steps is one step for all of them.
            items = self._items.setdefault(cause, set())
            items.add((share, failed.positions[0] % num_items if failed.positions else 0))
            self._calls[cause] = self._calls.get(cause, 0) + 1
            if self._first.setdefault(cause, failed) is failed:
                _LOG.error("Stage %r failed, for the first time for this reason:\n%s", self._stage, failed.traceback)

        return note

    def as_results(self) -> tuple[ProfileFailure, ...]:
        """Return the causes, the most frequent one first."""
        found = [
            ProfileFailure(first.error, cause[1], len(self._items[cause]), self._calls[cause], first.traceback)
            for cause, first in self._first.items()
        ]
        return tuple(sorted(found, key=lambda it: it.num_calls, reverse=True))

    @contextmanager
    def logged_once(self) -> Iterator[None]:
        """Log a failure of each cause, and keep back what the pipelines log of each failed item."""

        def is_other(record: logging.LogRecord) -> bool:
            return not (
                record.msg.startswith(("Stage %r failed on ", "Stage %r has now failed "))
                and isinstance(record.args, tuple)
                and record.args[:1] == (self._stage,)
            )

        _LOG.addFilter(is_other)
        try:
            yield
        finally:
            _LOG.removeFilter(is_other)

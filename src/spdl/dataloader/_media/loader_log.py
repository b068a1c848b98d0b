"""The samples that a loader could not load."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spdl.dataloader._media.failure_record import FailureRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.dataloader._media.sample_failure import SampleFailure

__all__ = ["LoaderLog"]

_LOGGED = 10

_LOG = logging.getLogger("spdl.dataloader")


class LoaderLog:
    """Keeps what has failed in a loader, and logs it: the first samples once each, then ever fewer failures.

    Args:
        loader: The name of the loader's class.
    """

    def __init__(self, loader: str) -> None:
        self._loader = loader
        # It is replaced in one assignment: a signal handler sees it with all failures of a batch, or with none.
        self._record = FailureRecord()

    @property
    def record(self) -> FailureRecord:
        """What has failed so far."""
        return self._record

    def note(self, failures: Sequence[SampleFailure]) -> None:
        """Keep failures, and log some of them."""
        known = {each.index for each in self._record.last}
        first = self._record.count + 1
        self._record = self._record.add(failures)
        for number, failure in enumerate(failures, first):
            # One that fails in each epoch must not hide others that come later.
            is_new = failure.index not in known and len(known) < _LOGGED
            known.add(failure.index)
            if is_new or (number > _LOGGED and not number & (number - 1)):
                instead = "left out" if failure.replacement is None else f"replaced by sample {failure.replacement}"
                text = "%s, failure %d: sample %d, %r, was %s: %s"
                _LOG.warning(text, self._loader, number, failure.index, failure.path, instead, failure.reason)

    def take_over(self, record: FailureRecord) -> None:
        """Go on with the record of another run, and count on from it."""
        self._record = record

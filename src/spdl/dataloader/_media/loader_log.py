"""The samples that a loader could not load."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdl.dataloader._media.sample_failure import SampleFailure

__all__ = ["LoaderLog"]

_KEPT = 1000
_LOGGED = 10

_LOG = logging.getLogger("spdl.dataloader")


class LoaderLog:
    """Keeps the last failures of a loader, and logs the first ones, then ever fewer.

    Args:
        loader: The name of the loader's class.
    """

    def __init__(self, loader: str) -> None:
        self._loader = loader
        self._count = 0
        self._failures: deque[SampleFailure] = deque(maxlen=_KEPT)

    @property
    def failures(self) -> list[SampleFailure]:
        """The last 1,000 failures."""
        return list(self._failures)

    def note(self, failures: Iterable[SampleFailure]) -> None:
        """Keep failures, and log some of them."""
        for failure in failures:
            self._failures.append(failure)
            self._count += 1
            number = self._count
            if number <= _LOGGED or not number & (number - 1):
                instead = "left out" if failure.replacement is None else f"replaced by sample {failure.replacement}"
                text = "%s, failure %d: sample %d, %r, was %s: %s"
                _LOG.warning(text, self._loader, number, failure.index, failure.path, instead, failure.reason)

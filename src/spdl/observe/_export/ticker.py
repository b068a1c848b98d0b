"""A thread that does something at intervals."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ticker"]

_LOG = logging.getLogger("spdl.observe")


class Ticker:
    """Calls a function at intervals, in a daemon thread of its own.

    What the function raises is logged, once until it succeeds again.

    Args:
        act: The function.
        interval: Seconds from one call to the next. A call that takes longer delays the next; none is made up for.
        name: The thread's name.
    """

    def __init__(self, act: Callable[[], None], interval: float, name: str) -> None:
        self._act = act
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failing = False
        while not self._closed.wait(self._interval):
            try:
                self._act()
                failing = False
            except Exception:  # noqa: BLE001 - it may be of any kind, and the next call may succeed.
                if not failing:
                    _LOG.exception("%s could not do its work; it tries again", self._thread.name)
                failing = True

    def close(self) -> bool:
        """End the thread. Return whether that was not done before."""
        if self._closed.is_set():
            return False
        self._closed.set()
        self._thread.join()
        return True

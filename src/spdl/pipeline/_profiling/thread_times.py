"""Measures how long threads were on a core, and how long they waited for one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

__all__ = ["Times", "TimesOfNewThreads"]


class Times(NamedTuple):
    """Seconds, summed over threads."""

    on_core: float
    waiting: float


class TimesOfNewThreads:
    """Reads the times of living threads that were started after this object was made."""

    def __init__(self) -> None:
        self._others = set(_alive())

    def read(self) -> Times | None:
        """Return their times up to now, or None if the system does not provide them. Linux does."""
        on_core = waiting = 0
        for thread in set(_alive()) - self._others:
            try:
                # Nanoseconds on a core, nanoseconds runnable without one, number of turns.
                times = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii").split()
            except OSError:
                # The thread has just ended, or the system has no such file.
                continue
            on_core += int(times[0])
            waiting += int(times[1])
        # A kernel that does not count these times reports zeros.
        return Times(on_core * 1e-9, waiting * 1e-9) if on_core else None


def _alive() -> list[int]:
    return [thread.native_id for thread in threading.enumerate() if thread.native_id is not None]

"""How long the worker threads waited for a core: what they would have used of the CPU had nobody else used it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._world import Thread

__all__ = ["CoreWaits"]

# Reading one thread's times takes some microseconds, so of many threads only some are read.
_READ = 8
_LENGTH = 100
_NANOSECOND = 1e-9


class CoreWaits:
    """Adds up the seconds that threads were runnable without a core. Only Linux tells; elsewhere it is 0."""

    def __init__(self) -> None:
        self._total = 0.0
        self._seen: dict[int, int] = {}

    def read(self, threads: Sequence[Thread]) -> float:
        """Return the sum over all threads up to now, extrapolated from some of them."""
        step = -(-len(threads) // _READ) or 1
        seen: dict[int, int] = {}
        waited = 0
        for thread in threads[::step]:
            number = getattr(thread, "native_id", None)
            if number is None:
                continue
            try:
                # Nanoseconds on a core, nanoseconds runnable without one, number of turns.
                times = _read(f"/proc/self/task/{number}/schedstat").split()
            except OSError:
                # The thread has ended, or the system has no such file.
                continue
            seen[number] = int(times[1])
            waited += seen[number] - self._seen.get(number, seen[number])
        self._seen = seen
        self._total += waited * step * _NANOSECOND
        return self._total


def _read(path: str) -> bytes:
    """Return what a small file has, in a quarter of the time that a file object takes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _LENGTH)
    finally:
        os.close(file)

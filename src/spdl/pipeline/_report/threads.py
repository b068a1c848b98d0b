"""The system's view of threads: their names and stacks, how long they were on a core or waited for one."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from spdl.pipeline._world import Thread, get_native_id

# The system keeps that many characters.
_MOST = 15


def region_thread_name(pipeline: int, column: int) -> str:
    """Return the name of the thread that takes results out of a region's workers.

    Args:
        pipeline: The pipeline's number in the process.
        column: The region's column on the page.
    """
    return f"spdl_r{column}_{pipeline}"[:_MOST]


def name_this_thread(name: str) -> None:
    """Make the system call the current thread that, if it can."""
    with suppress(OSError):
        Path(f"/proc/self/task/{get_native_id()}/comm").write_text(name)


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


_FRAMES_SHOWN = 5


def stack_of(thread: int | None) -> str:
    """Return a thread's stack, as the end of a message; empty if the thread is unknown."""
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - the documented way.
    if frame is None:
        return ""
    return f" It is here:\n{''.join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()}"

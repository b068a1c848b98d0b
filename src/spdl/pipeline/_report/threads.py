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
    """Return the name of the thread that takes results out of a region's workers, from the region's column."""
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
            if number is None or (times := core_times("self", number)) is None:
                continue
            seen[number] = times[1]
            waited += times[1] - self._seen.get(number, times[1])
        self._seen = seen
        self._total += waited * step * _NANOSECOND
        return self._total


def core_times(process: int | str, thread: int) -> tuple[int, int] | None:
    """Return for how many nanoseconds a thread was on a core, and runnable without one.

    None if the thread has ended, or the system does not tell.
    """
    try:
        # A file object would take four times as long.
        file = os.open(f"/proc/{process}/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        on_core, waiting, _ = os.read(file, _LENGTH).split()
        return int(on_core), int(waiting)
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)


def stat_fields(process: int | str) -> list[bytes]:
    """Return the fields of a process's ``stat`` after the name, which stands in brackets and may hold anything."""
    return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()


def status_field(process: int | str, name: str) -> bytes:
    """Return a field of a process's ``status``, or of a thread's: its path is ``PID/task/THREAD``.

    If the system does not tell, it raises OSError or IndexError, or returns what is no number.
    """
    status = Path(f"/proc/{process}/status").read_bytes()
    return status.rpartition(f"\n{name}:".encode())[2].split(None, 1)[0]


def sleeps_of(process: int | str, thread: int) -> int:
    """Return how often a thread has gone to sleep, to wait for something.

    It raises OSError, IndexError or ValueError if the thread has ended, or the system does not tell.
    """
    return int(status_field(f"{process}/task/{thread}", "voluntary_ctxt_switches"))


class ThreadTimes(NamedTuple):
    """Seconds of threads on a core, and waiting for one (0 if unknown), and how often they went to sleep."""

    on_core: float
    waiting: float
    sleeps: int


class TimesOfNewThreads:
    """Reads the times of living threads that were started after this object was made."""

    def __init__(self) -> None:
        self._others = set(_alive())

    def read(self) -> ThreadTimes | None:
        """Return their times up to now, or None if the system does not provide them. Linux does."""
        on_core = waiting = sleeps = 0
        for thread in set(_alive()) - self._others:
            times = core_times("self", thread) or (0, 0)
            on_core += times[0]
            waiting += times[1]
            with suppress(OSError, IndexError, ValueError):
                sleeps += sleeps_of("self", thread)
        # A kernel that does not count these times reports zeros.
        return ThreadTimes(on_core * _NANOSECOND, waiting * _NANOSECOND, sleeps) if on_core else None


def _alive() -> list[int]:
    return [thread.native_id for thread in threading.enumerate() if thread.native_id is not None]


_FRAMES_SHOWN = 5


def stack_of(thread: int | None) -> str:
    """Return a thread's stack, as the end of a message; empty if the thread is unknown."""
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - the documented way.
    if frame is None:
        return ""
    return f" It is here:\n{''.join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()}"

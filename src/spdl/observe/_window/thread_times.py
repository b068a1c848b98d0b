"""What the system knows of the threads of another process, and of the cores that it may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from spdl.pipeline._report.sample import Doing

__all__ = ["ThreadTimes", "doing", "idle_seconds", "is_stopped", "thread_name", "thread_times"]

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_NANOSECONDS = 1e9
# By a signal, and by a debugger.
_STOPPED = (b"T", b"t")
# Where a line of a core says how long it was idle, and how long it was so while something waited for a disk.
_IDLE, _DISK = 4, 5


class ThreadTimes(NamedTuple):
    """What a thread has used since it began.

    Attributes:
        cpu_seconds: CPU time.
        core_seconds: Time in which it waited for a core; 0 if the system does not say.
        sleeps: How often it has gone to sleep, to wait for something.
    """

    cpu_seconds: float
    core_seconds: float
    sleeps: int


def thread_times(pid: int) -> dict[int, ThreadTimes]:
    """Return the times of all threads of a process by their numbers: an empty dict if there is no such process."""
    found = {}
    try:
        threads = [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return {}
    for thread in threads:
        if (times := _times(Path(f"/proc/{pid}/task/{thread}"))) is not None:
            found[thread] = times
    return found


def _times(folder: Path) -> ThreadTimes | None:
    try:
        sleeps = int((folder / "status").read_bytes().rpartition(b"\nvoluntary_ctxt_switches:")[2].split(None, 1)[0])
        try:
            cpu, core, _ = (folder / "schedstat").read_text().split()
            return ThreadTimes(int(cpu) / _NANOSECONDS, int(core) / _NANOSECONDS, sleeps)
        except (FileNotFoundError, ValueError):
            # A kernel without statistics of its scheduler counts in ticks.
            fields = _fields(folder)
            return ThreadTimes((int(fields[11]) + int(fields[12])) / _TICKS, 0.0, sleeps)
    except (OSError, IndexError, ValueError):
        return None


def _fields(folder: Path) -> list[bytes]:
    """Return what is behind the thread's name, which may hold anything."""
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()


def doing(pid: int, thread: int) -> Doing:
    """Return what a thread of a process does now."""
    folder = Path(f"/proc/{pid}/task/{thread}")
    try:
        state = _fields(folder)[0]
        if state == b"R":
            return Doing.RUNS
        if state in _STOPPED:
            return Doing.STOPPED
        if state in (b"Z", b"X"):
            return Doing.GONE
        # Where the system does not name the function that it sleeps in, it says 0.
        return Doing.WAITS_FOR_THREAD if "futex" in (folder / "wchan").read_text() else Doing.WAITS
    except (OSError, IndexError):
        return Doing.GONE


def thread_name(pid: int, thread: int) -> str:
    """Return the name that the system knows a thread by; an empty one if it has ended."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    except (OSError, ValueError):
        return ""


def is_stopped(pid: int) -> bool:
    """Return whether a signal (Ctrl-Z, SIGSTOP) or a debugger has stopped a process."""
    return doing(pid, pid) is Doing.STOPPED


def idle_seconds(pid: int) -> float | None:
    """Return for how many seconds the cores that a process may use were idle, since they began: None if nobody says."""
    try:
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(pid)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        idle = [int(line[_IDLE]) + int(line[_DISK]) for line in lines if line and line[0] in allowed]
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return sum(idle) / _TICKS if idle else None

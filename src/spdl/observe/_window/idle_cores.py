"""How long the cores were idle that a process may use: what other programs leave of them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["idle_seconds"]

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# Where a line of a core says how long it was idle, and how long it was so while something waited for a disk.
_IDLE, _DISK = 4, 5


def idle_seconds(pid: int) -> float | None:
    """Return for how many seconds the cores that a process may use were idle, since they began: None if nobody says."""
    try:
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(pid)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        idle = [int(line[_IDLE]) + int(line[_DISK]) for line in lines if line and line[0] in allowed]
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return sum(idle) / _TICKS if idle else None

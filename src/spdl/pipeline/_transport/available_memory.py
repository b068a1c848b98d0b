"""How much memory a process may still take before the system ends processes to get some back."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["available_memory"]


def available_memory() -> int:
    """Return the bytes that are left of the machine's memory and of the process's group's, or a number too large."""
    left = sys.maxsize
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024
    with suppress(OSError, ValueError, StopIteration):
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        name = next(line for line in groups if line.startswith("0::"))[len("0::/") :]
        folder = Path("/sys/fs/cgroup")
        for group in (folder / name, *(folder / name).parents):
            if not group.is_relative_to(folder):
                break
            # The root has no such files, and a group without a limit says "max".
            with suppress(OSError, ValueError):
                limit = int((group / "memory.max").read_text(encoding="ascii"))
                used = int((group / "memory.current").read_text(encoding="ascii"))
                left = min(left, limit - used + _reclaimable(group))
    return max(0, left)


def _reclaimable(group: Path) -> int:
    """Return the bytes of files that the system drops when memory is short."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0

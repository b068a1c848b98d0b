"""How much memory a process may still take before the system ends processes to get some back."""

from __future__ import annotations

import sys
from contextlib import suppress

from spdl._cores import ControlGroup, find_groups, read_file

__all__ = ["available_memory"]

# The root of the file system. Tests put another one here.
_ROOT = "/"


def available_memory() -> int:
    """Return the bytes that are left of the machine's memory and of the process's groups', or a number too large.

    Both versions of control groups are read. The limit of a group bounds all groups in it.
    """
    left = sys.maxsize
    with suppress(OSError, ValueError, IndexError, StopIteration):
        left = _named(read_file(f"{_ROOT}proc/meminfo"), "MemAvailable: ") * 1024
    for group in find_groups(_ROOT, "memory"):
        # The outermost group of version 2 has no such files, and a group without a limit says "max".
        with suppress(OSError, ValueError):
            left = min(left, _left_in(group))
    return max(0, left)


def _left_in(group: ControlGroup) -> int:
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if group.is_version_1 else ("memory.max", "memory.current")
    )
    limit, used = (int(read_file(f"{group.folder}/{name}")) for name in names)
    # Files that the system drops when memory is short.
    reclaimable = 0
    with suppress(OSError, ValueError, IndexError, StopIteration):
        name = "total_inactive_file " if group.is_version_1 else "inactive_file "
        reclaimable = _named(read_file(f"{group.folder}/memory.stat"), name)
    return limit - used + reclaimable


def _named(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name))

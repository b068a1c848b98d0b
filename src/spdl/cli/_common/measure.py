"""The cost of a run: processor time and memory."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cpu_seconds() -> float:
    """Return the user and system seconds of this process and of those children that it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """Return the most memory that this whole process has held, in bytes (resident set)."""
    # ru_maxrss survives exec and so starts at the parent's value. It is used only where there is nothing better.
    return _field(Path("/proc/self/status"), "VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def session_memory(session: int) -> int | None:
    """Return the memory that a session's processes hold now, in bytes, or None if the system does not report it.

    The result is the sum of their proportional set sizes: a page that n processes share counts 1/n in each. Forked
    workers are thus not charged for the libraries that they share.
    """
    sizes = [_field(process / "smaps_rollup", "Pss:") for process in _session_members(session)]
    return sum(sizes) or None


def _session_members(session: int) -> Iterator[Path]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has ended meanwhile.
            # The name, in parentheses, may hold anything. After it come state, parent, process group and session.
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[3]) == session:
                yield stat.parent


def _field(file: Path, name: str) -> int:
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0

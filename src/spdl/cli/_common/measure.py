"""What a run costs: processor time and memory."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cpu_seconds() -> float:
    """Return the user and system seconds this process, and those children it has waited for, have used."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """Return the most memory this process has held, in bytes (resident set, whole process)."""
    # ru_maxrss survives exec and so starts at what the parent process had: only where there is nothing better.
    return _field(Path("/proc/self/status"), "VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def session_memory(session: int) -> int | None:
    """Return the memory the processes of a session hold now, in bytes, or None where it cannot be told.

    It is the sum of their proportional set sizes: a page that n processes share counts 1/n in each, so that
    forked workers are not charged for the libraries they have in common.
    """
    sizes = [_field(process / "smaps_rollup", "Pss:") for process in _session_members(session)]
    return sum(sizes) or None


def _session_members(session: int) -> Iterator[Path]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # Gone meanwhile.
            # The name, in parentheses, may hold anything; after it come state, parent, process group, session.
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[3]) == session:
                yield stat.parent


def _field(file: Path, name: str) -> int:
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0

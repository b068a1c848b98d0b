"""What tells a process from another one that has the same number, later or in another container."""

from __future__ import annotations

from pathlib import Path

__all__ = ["pid_namespace", "started_ticks"]


def started_ticks(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine did; 0 if there is none, or nothing says so."""
    try:
        # The name, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        # One that has ended may be there until its parent asks for its status.
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def pid_namespace() -> int:
    """Return what the numbers of processes that this one sees belong to; 0 if the system does not say."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0

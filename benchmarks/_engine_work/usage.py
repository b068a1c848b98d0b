"""The cost of a piece of work: CPU time, memory, and the spread of its times."""

from __future__ import annotations

import resource
from math import ceil
from pathlib import Path


def cpu_seconds() -> float:
    """Return the CPU time of this process's threads so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory_mb() -> float:
    """Return the most memory that this process ever had resident, in MiB."""
    # Without /proc, ru_maxrss is good enough. On Linux, a process inherits it from the process that started it.
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def spread(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile (nearest rank) and the maximum, in microseconds."""
    ranked = sorted(seconds)
    return {
        "p50_microseconds": ranked[ceil(len(ranked) * 0.50) - 1] * 1e6,
        "p99_microseconds": ranked[ceil(len(ranked) * 0.99) - 1] * 1e6,
        "longest_microseconds": ranked[-1] * 1e6,
    }

"""What a piece of work takes: CPU time, memory, and how its single times are spread."""

from __future__ import annotations

import resource
from math import ceil
from pathlib import Path


def cpu_seconds() -> float:
    """The CPU time of this process's threads so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory_mb() -> float:
    """The most memory this process ever had resident, in MiB."""
    # ru_maxrss would do where there is no /proc, but on Linux a process inherits that of the one that started it.
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def spread(seconds: list[float]) -> dict[str, float]:
    """The median, the 99th percentile (nearest rank) and the largest, in microseconds."""
    ranked = sorted(seconds)
    return {
        "p50_microseconds": ranked[ceil(len(ranked) * 0.50) - 1] * 1e6,
        "p99_microseconds": ranked[ceil(len(ranked) * 0.99) - 1] * 1e6,
        "longest_microseconds": ranked[-1] * 1e6,
    }

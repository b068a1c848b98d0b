"""How many cores this process may use, as a container sees it."""

from __future__ import annotations

import os
from pathlib import Path

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["available_cores"]

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cores() -> float:
    """The number of cores: the process's affinity, bounded by its control group's CPU quota (cgroup v2)."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = _QUOTA.read_text().split()
        return cores if quota == "max" else min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores

"""How many cores this process may use: in a container, fewer than the machine has."""

from __future__ import annotations

import os

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["available_cores"]

_QUOTA = "/sys/fs/cgroup/cpu.max"


def available_cores() -> float:
    """The number of cores: the process's affinity, bounded by its control group's CPU quota (cgroup v2)."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        with open(_QUOTA, encoding="ascii") as file:  # noqa: PTH123 - pathlib is a tenth of what importing spdl.pipeline costs.
            quota, period = file.read().split()
        return cores if quota == "max" else min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores

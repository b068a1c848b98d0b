"""The number of cores that this process may use: in a container, fewer than the machine has."""

from __future__ import annotations

import os

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._control_groups import ControlGroup, find_groups, read_file

__all__ = ["available_cores", "cores_per_process"]

# The root of the file system. Tests put another one here.
_ROOT = "/"


def available_cores() -> float:
    """Return the number of cores: the process's affinity, bounded by the CPU quotas of its control groups.

    The quota of a group bounds all groups in it, so the least quota counts, from the process's own group up to the
    outermost one that is visible. Both versions of control groups are read. Quotas are read anew at each call.
    """
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for group in find_groups(_ROOT, "cpu"):
        try:
            quota, period = _read_quota(group)
            cores = min(cores, int(quota) / int(period)) if int(quota) > 0 else cores
        except (OSError, ValueError, ZeroDivisionError):
            # The outermost group has no such file; "max" and -1 stand for no quota.
            continue
    return cores


def cores_per_process() -> float:
    """Return the cores that this process may use, shared among the processes that torchrun started on this machine.

    Raises:
        ValueError: If the environment variable LOCAL_WORLD_SIZE is no number.
    """
    share = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not (share.isascii() and share.isdigit() and int(share)):
        msg = f"the environment variable LOCAL_WORLD_SIZE must be the number of processes on a machine, got {share!r}"
        raise ValueError(msg)
    return available_cores() / int(share)


def _read_quota(group: ControlGroup) -> list[str]:
    if not group.is_version_1:
        return read_file(f"{group.folder}/cpu.max").split()
    return [read_file(f"{group.folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]

"""The limits of this process: its control groups, and the number of cores that it may use."""

from __future__ import annotations

import functools
import math
import os
from typing import NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


class ControlGroup(NamedTuple):
    """A group: whether version 1 of the interface shows it, and the folder with its files."""

    is_version_1: bool
    folder: str


# Cached: a process stays in its group, and finding the group takes longer than everything else.
@functools.cache
def find_groups(root: str, controller: str) -> list[ControlGroup]:
    """Return all visible groups that the process is in, directly or not.

    Args:
        root: The root of the file system, with a slash at its end.
        controller: The resource that they limit, such as ``"cpu"``. Groups of version 2 limit everything.
    """
    try:
        # For example "0::/system.slice/job" (version 2), or "4:cpu,cpuacct:/docker/0123" (version 1).
        lines = [line.split(":", 2) for line in read_file(f"{root}proc/self/cgroup").splitlines()]
        groups = {name: path for _, controllers, path in lines for name in controllers.split(",")}
        found: list[ControlGroup] = []
        for line in read_file(f"{root}proc/self/mountinfo").splitlines():
            # For example "31 23 0:28 /docker/0123 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu".
            mount, _, kind = line.partition(" - ")
            _, _, _, mounted, mount_point, *_ = mount.split(" ")
            version, _, options = kind.split(" ", 2)
            top = f"{root}{mount_point[1:]}".rstrip("/")
            if version == "cgroup2" and "" in groups:
                found += [ControlGroup(False, folder) for folder in _climb(groups[""], mounted, top)]  # noqa: FBT003
            elif version == "cgroup" and controller in groups and controller in options.split(","):
                found += [ControlGroup(True, folder) for folder in _climb(groups[controller], mounted, top)]  # noqa: FBT003
    except (OSError, ValueError):
        return []
    return found


def read_file(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is a tenth of what importing spdl.pipeline costs.
        return file.read()


def _climb(group: str, mounted: str, top: str) -> list[str]:
    """Return the folders of a group and of the groups around it, given which group is mounted and where.

    In a container, the process's own group may be mounted as the root. Its path may still be
    the one that the machine sees, or may begin at the container's own group too.
    """
    mounted = mounted.rstrip("/")
    path = group.removeprefix(mounted) if f"{group}/".startswith(f"{mounted}/") else ""
    # The path of a group outside the visible ones looks like "/../0123".
    names = [] if "/.." in path else [name for name in path.split("/") if name]
    return ["/".join([top, *names[:depth]]) for depth in range(len(names), -1, -1)]


# The root of the file system. Tests put another one here.
_ROOT = "/"


def available_cores() -> float:
    """Return the number of cores: the process's affinity, bounded by the CPU quotas of its control groups.

    The quota of a group bounds all groups in it, so the least quota counts, from the process's own group up to the
    outermost one that is visible. Both versions of control groups are read. Quotas are read again at each call.
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
        ValueError: If the environment variable LOCAL_WORLD_SIZE is not a number.
    """
    share = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not (share.isascii() and share.isdigit() and int(share)):
        msg = f"the environment variable LOCAL_WORLD_SIZE must be the number of processes on a machine, got {share!r}"
        raise ValueError(msg)
    return available_cores() / int(share)


# Ops that wait for a disk or a network leave cores idle, hence more threads than cores. With too many threads, the
# interpreter would spend its time on passing the GIL around. Users with that many cores can set the number.
_MORE_THAN_CORES = 4
_MOST_THREADS = 32


def default_threads(cores: float) -> int:
    return min(_MOST_THREADS, math.ceil(cores) + _MORE_THAN_CORES)


def _read_quota(group: ControlGroup) -> list[str]:
    if not group.is_version_1:
        return read_file(f"{group.folder}/cpu.max").split()
    return [read_file(f"{group.folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]

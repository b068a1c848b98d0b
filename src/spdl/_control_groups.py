"""The control groups that this process is in, whose limits are those of its container or job."""

from __future__ import annotations

import functools
from typing import NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["ControlGroup", "find_groups", "read_file"]


class ControlGroup(NamedTuple):
    """A group: whether version 1 of the interface shows it, and the folder with its files."""

    is_version_1: bool
    folder: str


# Cached: a process stays in its group, and finding the group takes longer than everything else.
@functools.cache
def find_groups(root: str, controller: str) -> list[ControlGroup]:
    """Return all groups that the process is in, directly or not, as far as they are visible.

    Args:
        root: The root of the file system, with a slash at its end.
        controller: What they limit, such as ``"cpu"``. Groups of version 2 limit everything.
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
    """Return the text of a small file."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is a tenth of what importing spdl.pipeline costs.
        return file.read()


def _climb(group: str, mounted: str, top: str) -> list[str]:
    """Return the folders of a group and of the groups around it, given which group is mounted and where.

    In a container, the process's own group may be mounted as if there were no groups around it. Its path may still be
    the one that the machine sees, or may begin at the container's own group too.
    """
    mounted = mounted.rstrip("/")
    path = group.removeprefix(mounted) if f"{group}/".startswith(f"{mounted}/") else ""
    # The path of a group outside the visible ones looks like "/../0123".
    names = [] if "/.." in path else [name for name in path.split("/") if name]
    return ["/".join([top, *names[:depth]]) for depth in range(len(names), -1, -1)]

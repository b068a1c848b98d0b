"""What the user's processes are to each other: which one has started which."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.observe import find_pipelines
from spdl.pipeline._report.page_file import pid_namespace

if TYPE_CHECKING:
    from spdl.observe import ObservedPipeline

__all__ = ["ancestors", "of_ancestor", "of_descendants", "parent_of", "process_of_thread"]


def parent_of(pid: int) -> int:
    """Return the process that has started a process, or that has taken it over since; 0 if there is none."""
    try:
        # The name, in brackets, may hold anything.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def ancestors(pid: int) -> list[int]:
    """Return the processes that a process descends from, the nearest first; those that have ended meanwhile cut it."""
    found: list[int] = []
    # A number that was given anew while this looks could lead back.
    while (pid := parent_of(pid)) and pid not in found:
        found.append(pid)
    return found


def process_of_thread(number: int) -> int:
    """Return the process of a thread, since `htop` lists threads by their numbers, too; or else the number itself."""
    with suppress(OSError, IndexError, ValueError):
        for line in Path(f"/proc/{number}/status").read_text(errors="replace").splitlines():
            if line.startswith("Tgid:"):
                return int(line.split()[1])
    return number


def of_descendants(pid: int) -> list[ObservedPipeline]:
    """Return the pipelines that run in what a process has started, itself or through others."""
    running = _running()
    of_process = {each.head.pid for each in running}
    descendants = {each for each in of_process if pid in ancestors(each)}
    return [each for each in running if each.head.pid in descendants]


def of_ancestor(pid: int) -> list[ObservedPipeline]:
    """Return the pipelines that run in the nearest process which a process descends from and that has any."""
    running = _running()
    for ancestor in ancestors(pid):
        if found := [each for each in running if each.head.pid == ancestor]:
            return found
    return []


def _running() -> list[ObservedPipeline]:
    # The number of a process of another container may be that of another process here.
    own = pid_namespace()
    return [each for each in find_pipelines() if each.head.pid_namespace == own and each.state() == "running"]

"""Removes what processes have left that were killed: their pages, the files for their stacks, requests for traces."""

from __future__ import annotations

import contextlib
import json
import os
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any

from spdl.pipeline._world import perf_counter

from .page_folder import NEW, SUFFIX, is_private, page_folder
from .page_layout import COPY, HEAD, LOCKED_SINCE, MAGIC, Layout, checksum
from .process_identity import pid_namespace, started_ticks
from .record_request import REQUEST, is_left
from .stacks_file import STACKS

__all__ = ["is_unlocked", "sweep"]

# What was killed can be looked at for so long afterwards, counted from the last time that it wrote its counters.
_KEPT_SECONDS = 600

# A pipeline that starts waits for the sweep: it looks at so many files at most, and others look at the rest.
_MOST = 256
_MOST_HEAD = 1 << 20

# The first of the counters.
_NOW = Struct("=d")


def sweep(folder: Path | None = None) -> int:
    """Remove what killed processes of this user have left in the folder of the pages.

    Processes of other containers that share the folder are told apart by the namespace of their numbers. Whether one
    of these has ended is known by the lock that it has on its page.

    Args:
        folder: The folder, if not the user's.

    Returns:
        How many files were removed.
    """
    folder = page_folder() if folder is None else folder
    removed = 0
    if is_private(folder):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, _MOST):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    removed += _remove_if_left(entry)
    return removed


def _remove_if_left(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(REQUEST):
        left = is_left(Path(entry.path))
        if left:
            Path(entry.path).unlink()
        return left
    if not entry.name.endswith((SUFFIX, STACKS, NEW)):
        return False
    # A pipe of that name would be waited for otherwise.
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _is_left(descriptor, entry.name):
            return False
        # A new process with the same number may have made another one of that name.
        found, now = os.fstat(descriptor), Path(entry.path).lstat()
        if (found.st_dev, found.st_ino) != (now.st_dev, now.st_ino):
            return False
        Path(entry.path).unlink()
    finally:
        os.close(descriptor)
    return True


def _is_left(descriptor: int, name: str) -> bool:
    if name.endswith(NEW):
        # Whoever makes it has locked it since a moment after it was there, or has a number here.
        return not started_ticks(int(name.partition("-")[0])) and is_unlocked(descriptor)
    about, locked = _page_head(descriptor) if name.endswith(SUFFIX) else (_stacks_head(descriptor), False)
    if about is None:
        # Of something else, or damaged: nobody knows whose it is.
        return False
    started = int(about["started_ticks"])
    if started and int(about["pid_namespace"]) == pid_namespace():
        ended = started_ticks(int(about["pid"])) != started
    else:
        ended = locked and is_unlocked(descriptor)
    return ended and not (locked and perf_counter() - _written_at(descriptor, about) < _KEPT_SECONDS)


def _written_at(descriptor: int, about: dict[str, Any]) -> float:
    """Return when the counters of a page were written, 0 if they never were. Damage makes it another time."""
    layout = Layout(int(about["length"]), len(about["sources"]), len(about["stages"]), int(about["rows"]))
    copies = [os.pread(descriptor, _NOW.size, layout.copy_at(number) + COPY.size) for number in (0, 1)]
    return max((_NOW.unpack(copy)[0] for copy in copies if len(copy) == _NOW.size), default=0.0)


def _page_head(descriptor: int) -> tuple[dict[str, Any] | None, bool]:
    """Return what a page of any version says of its process, and whether those that run have it locked."""
    head = os.pread(descriptor, HEAD.size, 0)
    if len(head) < HEAD.size:
        return None, False
    magic, version, crc, length, _ = HEAD.unpack(head)
    if magic != MAGIC or length > _MOST_HEAD:
        return None, False
    text = os.pread(descriptor, length, HEAD.size)
    about = {**json.loads(text), "length": length} if checksum(0, text) == crc else None
    return about, version >= LOCKED_SINCE


def _stacks_head(descriptor: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.pread(descriptor, 1024, 0).partition(b"\n")[0])
    return found


def is_unlocked(descriptor: int) -> bool:
    """Return whether no process has a page locked for itself."""
    import fcntl  # noqa: PLC0415 - only where there are pages. Exporters run everywhere.

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True

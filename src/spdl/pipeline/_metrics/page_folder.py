"""Where the pages of a user's pipelines are: a folder in memory that nobody else can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["NEW", "SUFFIX", "is_private", "page_folder"]

SUFFIX = ".page"
# While it is being made.
NEW = ".new"

# A file system in memory, which each Linux has.
_MEMORY = "/dev/shm"  # noqa: S108 - the folder in it is checked before anything is written.


def page_folder() -> Path:
    """Return the folder, which may not be there yet. It is the same for all processes of a user."""
    name = f"spdl-{os.getuid()}" if hasattr(os, "getuid") else "spdl"
    for place in (_MEMORY, os.environ.get("XDG_RUNTIME_DIR")):
        if place and os.access(place, os.W_OK | os.X_OK):
            return Path(place, name)
    return Path(os.environ.get("TMPDIR", "/tmp"), name)  # noqa: S108 - as above.


def is_private(folder: Path) -> bool:
    """Return whether a folder is there and the user's own: others may have made one of that name."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)

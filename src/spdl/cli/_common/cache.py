"""The user's cache folder, for things that are fetched or built once and used again."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/spdl`, or `~/.cache/spdl`. The folder need not exist yet."""
    # The specification says to ignore a relative path.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "spdl"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold off other processes that are about to make the same folder. A lock file stays behind beside the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder. It replaces `folder` if the block succeeds, and is removed if it does not.

    Nobody ever sees a half-made `folder`. Only one process at a time may do this: see `only_one`.
    """
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.making-", dir=folder.parent))
    try:
        yield making
        if folder.exists():
            # A rename cannot replace a folder that is not empty, so the old one moves into the new one first.
            folder.rename(making / "replaced")
        making.rename(folder)
        shutil.rmtree(folder / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def abbreviated(path: Path | str) -> str:
    """Return the path as a user would type it, with `~` for the home folder."""
    path = Path(path).absolute()
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)

"""The user's cache folder, for what is fetched or found out once and used again."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cache_folder", "only_one"]


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/spdl`, or `~/.cache/spdl`. The folder need not exist yet."""
    # The specification says to ignore a relative path.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "spdl"


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold off other processes that are about to make the same file or folder. A lock file stays behind beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

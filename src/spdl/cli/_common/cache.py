"""Folders of the cache that appear only when they are complete."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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

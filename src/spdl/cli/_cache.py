"""The user's cache folder: what is fetched or built once and used again."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spdl.cli._errors import FAILED, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/spdl`, or `~/.cache/spdl`; it need not exist yet."""
    # The specification says that a relative path is to be ignored.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "spdl"


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `folder` if the block succeeds, and is removed if it does not.

    Nobody ever sees a half-made `folder`. If another process makes it at the same time, the last one to finish wins.

    Raises:
        CommandError: The cache cannot be written to.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.making-", dir=folder.parent))
    except OSError as error:
        raise CommandError(
            f"the cache folder {folder.parent} cannot be written to ({error.strerror}):"
            " set XDG_CACHE_HOME to a place that can.",
            exit_status=FAILED,
        ) from error
    try:
        yield making
        if folder.exists():
            # A rename cannot replace a folder that holds something: the old one steps aside into the new one.
            folder.rename(making / "replaced")
        making.rename(folder)
        shutil.rmtree(folder / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def abbreviated(path: Path | str) -> str:
    """Return the path as one would type it, with `~` for the home folder."""
    path = Path(path).absolute()
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)

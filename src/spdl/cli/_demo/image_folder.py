"""The images in a folder and its sub-folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl.cli._common.errors import CommandError
from spdl.cli._common.text import several

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = "avif bmp gif jfif jp2 jpe jpeg jpg pgm png ppm qoi tif tiff webp"
"""Suffixes of images. Files are recognised by their names, as opening each would take longer than the run."""
SUFFIXES = frozenset(f".{kind}" for kind in KINDS.split())


def list_images(folder: Path) -> list[str]:
    """Return the paths of the images below `folder`, sorted so that every loader reads them in the same order.

    Raises:
        CommandError: The folder is missing, is not a folder, cannot be read or holds no image.
    """
    if not folder.exists():
        raise CommandError(f"{folder} does not exist: give a folder that holds images, or run `spdl demo`.")
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder: give the folder that holds the images.")
    num_files = 0
    paths = []
    try:
        for file in _files(folder):
            num_files += 1
            if _suffix(file) in SUFFIXES:
                paths.append(file)
    except OSError as error:
        raise CommandError(
            f"{error.filename} cannot be read ({error.strerror}): fix its permissions and try again."
        ) from error
    if not paths:
        found = f"holds {several(num_files, 'file')} and no image" if num_files else "is empty"
        raise CommandError(f"{folder} {found}: give a folder with images (recognised by their names: {KINDS}).")
    return sorted(paths)


def _files(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, following links. A link that leads nowhere is yielded, too, to be reported."""
    pending = [os.fspath(folder)]
    # Links can form circles.
    status = folder.stat()
    seen = {(status.st_dev, status.st_ino)}
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    status = entry.stat()
                    if (status.st_dev, status.st_ino) not in seen:
                        seen.add((status.st_dev, status.st_ino))
                        pending.append(entry.path)
                # Opening a pipe or a device could wait for ever.
                elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):  # noqa: PTH110
                    yield entry.path


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 (a million pathlib objects take seconds)

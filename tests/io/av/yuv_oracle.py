"""What a resize of planes must give, in floating point: Pillow's filters on each plane, then the colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.io.av.sources import AnyArray

FILTERS = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

MATRICES = {
    "fcc": (0.30, 0.11),
    "bt470bg": (0.299, 0.114),
    "smpte170m": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt709": (0.2126, 0.0722),
    "bt2020nc": (0.2627, 0.0593),
}
"""The shares of red and of blue in luma, by FFmpeg's names of the colour matrices."""

SHIFTS = {
    "gray": (0, 0),
    "yuv410p": (2, 2),
    "yuv411p": (2, 0),
    "yuv420p": (1, 1),
    "yuv422p": (1, 0),
    "yuv444p": (0, 0),
    "yuvj420p": (1, 1),
}
"""The logarithms of how many pixels share a sample of chroma, across and down."""


def plane_sizes(pix_fmt: str, width: int, height: int) -> list[tuple[int, int]]:
    """Return the height and the width of each plane."""
    across, down = SHIFTS[pix_fmt]
    chroma = [(-(-height // (1 << down)), -(-width // (1 << across)))] * (0 if pix_fmt == "gray" else 2)
    return [(height, width), *chroma]


def split(values: AnyArray, pix_fmt: str, width: int, height: int) -> list[AnyArray]:
    """Return the planes of a picture, which lie one behind the other."""
    planes = []
    for rows, columns in plane_sizes(pix_fmt, width, height):
        planes.append(values[: rows * columns].reshape(rows, columns))
        values = values[rows * columns :]
    return planes


def resized(plane: AnyArray, size: tuple[int, int], interpolation: str, box: tuple[float, float]) -> AnyArray:
    """Resize a plane to a width and a height. The box is its size in samples, of which the last may be cut."""
    image = Image.fromarray(plane.astype(np.float32))
    return np.asarray(image.resize(size, FILTERS[interpolation], box=(0, 0, *box)), np.float64)


def expected(
    planes: Sequence[AnyArray],
    pix_fmt: str,
    size: tuple[int, int],
    interpolation: str,
    *,
    matrix: str = "smpte170m",
    full_range: bool = False,
) -> AnyArray:
    """Return a resized picture as red, green and blue, not rounded."""
    height, width = planes[0].shape
    across, down = SHIFTS[pix_fmt]
    y = resized(planes[0], size, interpolation, (width, height))
    y = y if full_range else (y - 16) * 255 / 219
    cb = cr = np.zeros_like(y)
    if len(planes) > 1:
        box = width / (1 << across), height / (1 << down)
        cb, cr = ((resized(it, size, interpolation, box) - 128) * (1 if full_range else 255 / 224) for it in planes[1:])
    red_share, blue_share = MATRICES[matrix]
    red, blue = y + 2 * (1 - red_share) * cr, y + 2 * (1 - blue_share) * cb
    green = (y - red_share * red - blue_share * blue) / (1 - red_share - blue_share)
    return np.clip(np.stack([red, green, blue], axis=-1), 0, 255)


def psnr(one: Any, other: Any) -> float:
    """Return the peak signal-to-noise ratio in dB."""
    error = np.square(np.asarray(one, np.float64) - other).mean()
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))

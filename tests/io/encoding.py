"""Helpers for the tests of encode_image and save_image."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spdl.io import encode_config, encode_image

AnyArray = npt.NDArray[Any]


def noise(*shape: int, dtype: str = "uint8", seed: int = 0) -> AnyArray:
    """Every value, and nothing that a wrong order of channels, rows or bytes would leave as it is."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def encode(data: Any, pix_fmt: str = "rgb24", **config: Any) -> bytes:
    file = io.BytesIO()
    encode_image(file, data, pix_fmt, encode_config=encode_config(**config))
    return file.getvalue()


def open_with_pillow(data: bytes | Path) -> Image.Image:
    with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data) as image:
        image.load()
        return image

"""Pillow's pixels, as the documentation of `spdl.io` says that ours are."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.conformance.reading import Arrays

    Pixels = npt.NDArray[np.uint8]

_BITS_PER_SAMPLE = 258

SIZE = (61, 47)
"""The width and height of what is resized."""

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How an image of each EXIF orientation is turned upright."""

_INVERSE = _UPRIGHT | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}

_TURNED_BACK = {
    ("irot", 90): Image.Transpose.ROTATE_270,
    ("irot", 180): Image.Transpose.ROTATE_180,
    ("irot", 270): Image.Transpose.ROTATE_90,
    ("imir", 0): Image.Transpose.FLIP_TOP_BOTTOM,
    ("imir", 1): Image.Transpose.FLIP_LEFT_RIGHT,
}
"""How each turn of a HEIC is undone."""

# Pillow's modes of images that have no more than 8 bits, or whose upper 8 bits it keeps by itself.
_BYTES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"}


def read_heic(data: bytes) -> Arrays:
    """Return libheif's pixels of a HEIC as they are stored, and those of the upright image after a resize."""
    from pillow_heif import HeifImageFile  # noqa: PLC0415 - not all Pythons that run the tests have it.

    with HeifImageFile(io.BytesIO(data)) as image:
        # No public attribute tells them.
        turns = image._heif_file[image.tell()]._c_image.transformations
        image.load()
        upright = stored = to_rgb(image)
    for turn in reversed(turns):
        stored = _transposed(stored, _TURNED_BACK.get(turn))
    return {"stored": stored, "resized": _resized(upright)}


def read_image(data: bytes) -> Arrays:
    """Return the pixels as they are stored, and those of the upright image after a resize."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data)) as image:
            # Only that of a TIFF: Pillow loads a PNG for it, and then forgets the error.
            orientation = _orientation(image) if image.format == "TIFF" else 1
            image.load()
            pixels = to_rgb(image)
            upright = pixels
            if image.format == "TIFF":
                # Pillow turns a TIFF upright by itself, while it loads it.
                stored = _transposed(pixels, _INVERSE.get(orientation))
            else:
                stored = pixels
                upright = _transposed(pixels, _UPRIGHT.get(_orientation(image)))
    return {"stored": stored, "resized": _resized(upright)}


def _resized(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).resize(SIZE, Image.Resampling.BICUBIC))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # noqa: BLE001 - damaged metadata raises all kinds of errors, and turns nothing.
        return 1


def _transposed(pixels: Pixels, method: Image.Transpose | None) -> Pixels:
    return pixels if method is None else np.asarray(Image.fromarray(pixels).transpose(method))


def to_rgb(image: Image.Image) -> Pixels:
    """Return 8-bit RGB: alpha is dropped, 16 bits keep their upper 8, and odd samples of a TIFF are clipped.

    Odd are those that have a sign, 32 bits or a fraction.
    """
    if image.mode in _BYTES or (image.mode in ("I", "F") and image.format == "TIFF"):
        return np.asarray(image.convert("RGB"))
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        # Pillow keeps the 12 bits of some TIFFs as they are.
        bits = max(image.tag_v2.get(_BITS_PER_SAMPLE, (16,))) if isinstance(image, TiffImageFile) else 16
        gray = (np.asarray(image).astype(np.int64) >> (bits - 8)).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=-1)
    raise UnidentifiedImageError(f"Pillow reads it in mode {image.mode}, which has no exact 8-bit RGB")

"""Arrays of pixels that are to be encoded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._check import check_str, refuse
from spdl.io._image.image_formats import ALIASES, PIXEL_FORMATS, PixelFormat
from spdl.io._image.resize import MAX_SIDE

if TYPE_CHECKING:
    import numpy as np

_DIMENSIONS = 3


class Pixels(NamedTuple):
    """An image in memory, as native code takes it."""

    bytes: Any
    size: tuple[int, int]
    pix_fmt: str


def resolve_pixels(data: Any, pix_fmt: str) -> Pixels:
    """Check an image and its pixel format against each other.

    Raises:
        TypeError: If the image is no array in main memory.
        ValueError: If the pixel format is unknown, or the array has another shape or dtype.
    """
    check_str("pix_fmt", pix_fmt)
    name = ALIASES.get(pix_fmt, pix_fmt)
    if name not in PIXEL_FORMATS:
        refuse(ValueError, "pix_fmt", f"one of {', '.join([*PIXEL_FORMATS, *ALIASES])}", pix_fmt)
    pixel_format = PIXEL_FORMATS[name]
    array = as_array("data", data)
    check_dtype("data", array.dtype, name, pix_fmt)
    size = _size(array.shape, pixel_format, pix_fmt)
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    return Pixels(np.ascontiguousarray(array).reshape(-1).view(np.uint8), size, name)


def as_array(argument: str, data: Any) -> np.ndarray[Any, Any]:
    """Return an array in main memory as NumPy's, without a copy.

    Raises:
        TypeError: If it is none.
    """
    import numpy as np  # noqa: PLC0415

    if hasattr(data, "__cuda_array_interface__"):
        remedy = "It is on a GPU: copy it first, with `transfer_buffer_cpu` or the tensor's own `cpu()`."
        refuse(TypeError, argument, "in main memory", data, remedy)
    if not (hasattr(data, "__array_interface__") or hasattr(data, "__array__") or isinstance(data, memoryview)):
        accepted = "an array (NumPy, PyTorch, a CPUBuffer, or anything with `__array_interface__` or `__array__`)"
        refuse(TypeError, argument, accepted, data)
    return np.asarray(data)


def check_dtype(
    argument: str, dtype: np.dtype[Any], name: str, pix_fmt: str, error: type[ValueError] = ValueError
) -> None:
    """Check that an array has the bits of the pixel format `name`, which the user calls `pix_fmt`.

    Raises:
        error: If it has not, or says that they are in another byte order.
    """
    accepted = ("uint8",) if PIXEL_FORMATS[name].bits == 8 else ("uint16", "int16")  # noqa: PLR2004 - bits of a byte.
    if dtype.name not in accepted:
        refuse(error, argument, f"of dtype {' or '.join(accepted)} for the pixel format {pix_fmt!r}", dtype)
    if dtype.isnative:
        return
    order = "be" if sys.byteorder == "little" else "le"
    if not name.endswith(order):
        remedy = f"Its byte order is the other one: pass {name[:-2] + order!r}, or convert the array."
        refuse(error, argument, f"in the byte order of the pixel format {pix_fmt!r}", dtype.str, remedy)


def _size(shape: tuple[int, ...], pixel_format: PixelFormat, pix_fmt: str) -> tuple[int, int]:
    sides = (*shape, 1) if pixel_format.channels == 1 and len(shape) == _DIMENSIONS - 1 else shape
    fits = len(sides) == _DIMENSIONS and sides[0 if pixel_format.planar else 2] == pixel_format.channels
    height, width = (sides[1:] if pixel_format.planar else sides[:2]) if fits else (0, 0)
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        accepted = f"of shape {pixel_format.shape}, sides from 1 to {MAX_SIDE}, for the pixel format {pix_fmt!r}"
        refuse(ValueError, "data", accepted, shape)
    return width, height

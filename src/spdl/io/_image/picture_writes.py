"""Pictures in memory, as arrays of the format that images are loaded to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.io._common.native import native
from spdl.io._image.options import PIXEL_FORMATS, Resize, make_array_format, make_float_scale, make_load_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from spdl.io._image.options import ImageOptions

    Array: TypeAlias = np.ndarray[Any, Any]


def write_pictures(
    pictures: Sequence[Array], options: ImageOptions, *, num_threads: int = 1
) -> tuple[Array | list[Array], list[bool]]:
    """Return pictures with the values, the dtype and the layout of the options, written by one native call.

    Args:
        pictures: Arrays (..., C, H, W) of uint8, or of float32 from 0 to 1, with any strides. If there is a `mean` or a
            `std`, they have the channels of the options' pixel format.
        options: The format. Its dtype is not uint8 if pictures are floats.
        num_threads: How many threads share the pictures.

    Returns:
        One array if all pictures have the same shape, or else a list; and for each picture whether its values are an
        image's: bytes, or floats from -0.5 to 1.5.
    """
    import numpy as np  # noqa: PLC0415 - importing spdl.io loads no numpy.

    array_format = make_array_format(options.layout, options.dtype, options.mean, options.std)
    first = options.layout == "NCHW"
    shapes = [it.shape if first else (*it.shape[:-3], *it.shape[-2:], it.shape[-3]) for it in pictures]
    results: Array | list[Array]
    if all(shape == shapes[0] for shape in shapes):
        results = np.empty((len(shapes), *shapes[0]), options.dtype)
    else:
        results = [np.empty(shape, options.dtype) for shape in shapes]
    in_range = native.write_pictures(
        arrays=tuple([it.reshape(math.prod(it.shape[:-3]), *it.shape[-3:]) for it in pictures]),
        request=make_load_options(Resize(pix_fmt=options.pix_fmt), array_format),
        scale=make_float_scale(array_format, PIXEL_FORMATS[options.pix_fmt]),
        results=tuple(results),
        num_threads=num_threads,
    )
    return results, in_range

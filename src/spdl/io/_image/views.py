"""Views of each image of a batch, from one decode; and pictures in memory in the format that images are loaded to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.io._common.inputs import list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._image.augment import Box, Crop, Flip, resolve_crop, resolve_flip
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.options import (
    PIXEL_FORMATS,
    ImageOptions,
    Resize,
    make_array_format,
    make_float_scale,
    make_load_options,
    make_pad,
    resize_to,
)

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._native import CPUBuffer, LoadOptions, PixelAugment, View

    Array: TypeAlias = np.ndarray[Any, Any]

Size: TypeAlias = tuple[int, int]
"""A width and a height in pixels."""

Move: TypeAlias = tuple[float, float, float, float, float, float]
"""Where the pixels of a moved canvas come from: the one at (x, y) shows the place (m[0] x + m[1] y + m[2],
m[3] x + m[4] y + m[5]) of the canvas before, both counted from the middle of the first pixel."""


class Place(NamedTuple):
    """The way of an image to its canvas, in the order of the steps. Uncovered parts get the pad value."""

    turn: int
    """How the upright image lies against the turned one, as an EXIF orientation says it of the stored image: 1 if its
    rows are the other's columns, plus 2 if its rows and 4 if its columns run against the sides that they lie along."""
    box: Box
    """The crop in the turned image."""
    resized: Size
    """The size that the box gets."""
    offset: tuple[int, int]
    """Where its left upper corner then lies on the canvas. It may lie outside."""
    flip: bool
    """Whether the canvas is mirrored left to right."""
    moves: Sequence[Move] = ()
    """What then happens to the canvas, one after the other. Pixels are blended unless the resize takes the nearest."""


Draw: TypeAlias = Callable[[list[Size]], Sequence[Place]]
"""Returns the places of images of the given sizes."""


class ImageView(NamedTuple):
    """How a view is made of each image."""

    options: ImageOptions
    """Its format, with both sides."""
    crop: Crop | None = None
    """The part of each image to take, as `load_image_batch` takes it."""
    flip: Flip = False
    """Which images to mirror."""
    draw: Draw | None = None
    """Their places, instead of crop and flip."""
    changes: PixelAugment | None = None
    """How to change the pixels of each image at last."""


class LoadedViews(NamedTuple):
    """Views of images."""

    arrays: list[CPUBuffer]
    """An array of each group, (views, B, H, W, C) or (views, B, C, H, W)."""
    sizes: list[Size]
    """The upright original sizes, (1, 1) for images that failed; none if no view has places."""
    places: list[list[Sequence[Place]]]
    """The places of the images in each view of each group; none where a view has a crop and a flip."""
    failures: dict[int, str]
    """Why images failed, whose views are zeros."""


def load_image_views(
    srcs: Sequence[Any], groups: Sequence[Sequence[ImageView]], *, num_threads: int = 1
) -> LoadedViews:
    """Load views of images by one native call, which decodes each image once.

    A view has the pixels that `load_image_batch` gives with the same options, crop and flip. The views of a group have
    the same size and format; all views have the same configurations and `exif`.
    """
    inputs, unread = resolve_all(list_inputs(srcs, "load_image_views"), files=True)
    first = groups[0][0].options
    common: Any = {
        "sources": inputs,
        "demux": demux_options(first.demux_config, None),
        "decode": decode_options(first.decode_config),
        "num_threads": num_threads,
        "page": first.pages,
    }
    sizes: list[Size] = []
    broken: dict[int, str] = {}
    if any(view.draw for group in groups for view in group):
        found, failed = native.image_sizes(**common, upright=first.exif)
        broken = dict(failed)
        sizes = [(1, 1) if index in broken else size for index, size in enumerate(found)]
    places = [[() if view.draw is None else view.draw(sizes) for view in group] for group in groups]
    views = [
        [_to_native(view, len(inputs), drawn) for view, drawn in zip(group, own, strict=True)]
        for group, own in zip(groups, places, strict=True)
    ]
    arrays, reasons = native.load_views(**common, groups=views)
    return LoadedViews(arrays, sizes, places, {**dict(reasons), **broken, **unread})


def _to_native(view: ImageView, count: int, places: Sequence[Place]) -> View:
    boxes, random = resolve_crop(view.crop, count)
    return native.View(
        request=_make_request(view.options),
        boxes=boxes,
        random=random,
        flips=resolve_flip(view.flip, count),
        places=list(places),
        augment=view.changes,
    )


@lru_cache(maxsize=64)
def _make_request(options: ImageOptions) -> LoadOptions:
    resize = resize_to(options.width, options.height, options.mode, options.interpolation, options.pix_fmt)
    return make_load_options(
        resize._replace(pad=make_pad(options.pad_value, options.pix_fmt, options.dtype)),
        make_array_format(options.layout, options.dtype, options.mean, options.std),
        exact=options.exact,
        exif=options.exif,
    )


def make_pixel_augment(indices: Sequence[int], *, seed: int, epoch: int, **numbers: Any) -> PixelAugment:
    """Return random changes to the pixels of images, with the fields of the native class of that name."""
    return native.PixelAugment(seed=seed, epoch=epoch, indices=list(indices), **numbers)


def erase_rectangles(
    images: Any,
    indices: Sequence[int],
    *,
    seed: int,
    epoch: int,
    rows_first: bool,
    probability: float,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    values: Any,
) -> None:
    """Set a random rectangle of each image to values (C,) of its dtype, in place.

    The images are (B, H, W, C) if `rows_first`, else (B, C, H, W), in one piece.
    """
    height, width, channels = images.shape[1:] if rows_first else (*images.shape[2:], images.shape[1])
    random = native.RandomErase(
        seed=seed, epoch=epoch, indices=list(indices), probability=probability, scale=scale, ratio=ratio
    )
    random.erase(images=images, size=(width, height), planes=not rows_first, channels=channels, values=values.tobytes())


def write_pictures(
    pictures: Sequence[Array], options: ImageOptions, *, num_threads: int = 1
) -> tuple[Array | list[Array], list[bool]]:
    """Return pictures with the values, the dtype and the layout of the options, written by one native call.

    They are arrays (..., C, H, W) of uint8, or of float32 from 0 to 1 if the dtype is one of floats, with any strides.
    If there is a `mean` or a `std`, they have the channels of the options' pixel format.

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

"""Batches of images whose places are drawn when their sizes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.io._common.inputs import list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._image.augment import Box, RandomColorJitter, resolve_jitter
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.options import ImageOptions, dtypes_of, make_array_format, make_load_options, make_pad, resize_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.io._native import CPUBuffer, PixelAugment

Size: TypeAlias = tuple[int, int]
"""A width and a height in pixels."""


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
    """Whether the canvas is mirrored left to right at last."""


class PlacedBatch(NamedTuple):
    """Images in their places, with zeros for those that failed."""

    images: CPUBuffer
    """An array, as `options` say. With `changes` it has a first side of 1."""
    sizes: list[Size]
    """The upright original sizes; (1, 1) for images that failed."""
    places: Sequence[Place]
    failures: dict[int, str]


def load_placed_batch(
    srcs: Sequence[Any],
    draw: Callable[[list[Size]], Sequence[Place]],
    *,
    options: ImageOptions,
    jitter: RandomColorJitter | None = None,
    changes: PixelAugment | None = None,
    num_threads: int = 1,
) -> PlacedBatch:
    """Load images, each into the place that is drawn for its size.

    Args:
        srcs: Paths, bytes or open files.
        draw: Returns the places for images of the given sizes.
        options: The size of the canvas, the filter and the format. `mode` has no meaning.
        jitter: How to change the colours.
        changes: How to change the pixels, instead.
        num_threads: How many threads share the images.
    """
    inputs, unread = resolve_all(list_inputs(srcs, "load_image_batch"), files=True)
    demux, decode = demux_options(options.demux_config, None), decode_options(options.decode_config)
    found, failed = native.image_sizes(
        sources=inputs,
        upright=options.exif,
        demux=demux,
        decode=decode,
        num_threads=num_threads,
        page=options.pages,
    )
    broken = dict(failed)
    sizes = [(1, 1) if index in broken else size for index, size in enumerate(found)]
    places = draw(sizes)
    resize = resize_to(options.width, options.height, "stretch", options.interpolation, options.pix_fmt)
    resize = resize._replace(pad=make_pad(options.pad_value, options.pix_fmt, options.dtype))
    dtypes = dtypes_of(options.pix_fmt)
    array_format = make_array_format(options.layout, options.dtype, options.mean, options.std, dtypes=dtypes)
    request = make_load_options(resize, array_format, exact=options.exact, exif=options.exif)
    if changes is not None:
        view = native.View(request=request, boxes=[], random=None, flips=[], places=list(places), augment=changes)
        (views,), reasons = native.load_views(
            sources=inputs, groups=[[view]], demux=demux, decode=decode, num_threads=num_threads, page=options.pages
        )
        return PlacedBatch(views, sizes, places, {**dict(reasons), **broken, **unread})
    buffer, reasons = native.load_batch(
        sources=inputs,
        request=request,
        boxes=[],
        random=None,
        flips=[],
        places=list(places),
        jitter=resolve_jitter(jitter, len(inputs), options.pix_fmt),
        demux=demux,
        decode=decode,
        num_threads=num_threads,
        keep_failed=True,
        page=options.pages,
        storage=None,
    )
    assert buffer is not None
    return PlacedBatch(buffer, sizes, places, {**dict(reasons), **broken, **unread})

"""Several views of each image of a batch, from one decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.io._common.inputs import list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._image.augment import Crop, Flip, resolve_crop, resolve_flip
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.options import ImageOptions, make_array_format, make_load_options, make_pad, resize_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._image.placed import Place
    from spdl.io._native import CPUBuffer, PixelAugment, View


class ImageView(NamedTuple):
    """How a view is made of each image."""

    options: ImageOptions
    """Its format, with both sides."""
    crop: Crop | None = None
    """The part of each image to take, as `load_image_batch` takes it."""
    flip: Flip = False
    """Which images to mirror."""
    augment: PixelAugment | None = None
    """How to change the pixels of each image after the resize."""
    places: Sequence[Place] = ()
    """The place of each image, instead of its crop and flip; none if it has these."""


def load_image_views(
    srcs: Sequence[Any], groups: Sequence[Sequence[ImageView]], *, num_threads: int = 1
) -> tuple[list[CPUBuffer], list[tuple[int, str]]]:
    """Load views of images by one native call, which decodes each image once.

    A view has the pixels that `load_image_batch` gives with the same options, crop and flip.

    Args:
        srcs: Paths, encoded bytes, or open binary files, in any mixture.
        groups: The views. Those of a group have the same size and format; all have the same configurations and `exif`.
        num_threads: How many threads share the images.

    Returns:
        An array of each group, (views, B, H, W, C) or (views, B, C, H, W); and the index and the reason of each image
        that failed, whose views are zeros.
    """
    given = list_inputs(srcs, "load_image_views")
    inputs, unread = resolve_all(given, files=True)
    first = groups[0][0].options
    buffers, reasons = native.load_views(
        sources=inputs,
        groups=[[_to_native(view, len(given)) for view in group] for group in groups],
        demux=demux_options(first.demux_config, None),
        decode=decode_options(first.decode_config),
        num_threads=num_threads,
        page=first.pages,
    )
    return buffers, [(index, unread.get(index, reason)) for index, reason in reasons]


def _to_native(view: ImageView, count: int) -> View:
    options = view.options
    boxes, random = resolve_crop(view.crop, count)
    resize = resize_to(options.width, options.height, options.mode, options.interpolation, options.pix_fmt)
    return native.View(
        request=make_load_options(
            resize._replace(pad=make_pad(options.pad_value, options.pix_fmt, options.dtype)),
            make_array_format(options.layout, options.dtype, options.mean, options.std),
            exact=options.exact,
            exif=options.exif,
        ),
        boxes=boxes,
        random=random,
        flips=resolve_flip(view.flip, count),
        places=list(view.places),
        augment=view.augment,
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
    """Set a random rectangle of each image to some values, in place.

    Args:
        images: An array (B, H, W, C), or (B, C, H, W), in one piece.
        indices: For each image, its index in the dataset.
        seed: The seed of the run.
        epoch: The number of the pass over the data.
        rows_first: Whether it is (B, H, W, C).
        probability: The probability that something is erased.
        scale: The least and the greatest share of the area.
        ratio: The least and the greatest ratio of height to width.
        values: An array (C,) of the same dtype.
    """
    height, width, channels = images.shape[1:] if rows_first else (*images.shape[2:], images.shape[1])
    random = native.RandomErase(
        seed=seed, epoch=epoch, indices=list(indices), probability=probability, scale=scale, ratio=ratio
    )
    random.erase(images=images, size=(width, height), planes=not rows_first, channels=channels, values=values.tobytes())

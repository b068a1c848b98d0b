"""The format of pictures in batches, and the options that say it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from spdl._check import check_int, refuse, refuse_masked
from spdl.dataloader._loader.tensors import import_torch
from spdl.io import ImageOptions
from spdl.io._shared import PIXEL_FORMATS, write_pictures

if TYPE_CHECKING:
    from spdl.dataloader._loader.tensors import OutputKind

    Array: TypeAlias = np.ndarray[Any, Any]


Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]

_DEFAULTS: dict[str, Any] = {"mode": "crop", "interpolation": "bilinear", "layout": "NCHW", "dtype": "float32"}


def make_options(
    size: int | tuple[int, int] | None, options: ImageOptions | None, given: dict[str, Any]
) -> ImageOptions:
    """Return the record of the arguments of a loader, or the one that it was given.

    Arguments with the names of fields are in `given`, with None for those left out. ``exact`` is the loader's choice.
    """
    exact = given.pop("exact", True)
    given = {name: it for name, it in given.items() if it is not None}
    if options is not None:
        if not isinstance(options, ImageOptions):
            refuse(TypeError, "options", "an `spdl.io.ImageOptions` or None", options)
        for name, value in {**given, **({} if size is None else {"size": size})}.items():
            refuse(TypeError, name, "left out with `options`", value, "Use dataclasses.replace(options, ...).")
        if options.width is None or options.height is None:
            refuse(ValueError, "options", "a record with `width` and `height`, since a batch has one size", options)
        if options.pix_fmt not in PIXEL_FORMATS:
            accepted = f"a record with `pix_fmt` {' or '.join(PIXEL_FORMATS)}, since images have colours"
            refuse(ValueError, "options", accepted, options)
        return options
    if size is None:
        refuse(TypeError, "size", "given, or `options`", size)
    accepted = "a side in pixels, or (width, height), from 1 to 65535"
    try:
        width, height = size if isinstance(size, tuple | list) else (size, size)
    except ValueError:
        refuse(ValueError, "size", accepted, size)
    for side in (width, height):
        check_int("size", side, least=1, most=65535, accepted=accepted)
    return ImageOptions(width, height, **{**_DEFAULTS, "exact": exact, **given})


_SIDES = 3
_MOST_CHANNELS = 4


class PictureFormat:
    def __init__(self, options: ImageOptions, output: OutputKind) -> None:
        self._options = options
        self._tensors = output == "torch"
        self._kind = "a tensor (C, H, W)" if self._tensors else "an array (H, W, C)"
        self._normalises = not (options.mean is None and options.std is None)
        layout: Any = "NCHW" if self._tensors else "NHWC"
        self.seen = dataclasses.replace(options, dtype="uint8", mean=None, std=None, layout=layout)
        """The format of what a transform gets: as torchvision has images, or as Pillow, OpenCV and Albumentations."""

    def write(
        self,
        results: list[Any],
        names: Sequence[str],
        *,
        num_threads: int,
        alone: bool,
        num_frames: int = 0,
        lengths: Sequence[int] = (),
    ) -> Any:
        """Return what a transform returned, in the format of batches: one array if all are pictures of one shape.

        Parts of a record or a tuple that are surely no images stay; whole results are `alone`. If the transform got
        clips of `num_frames` pictures, of which `lengths` are their own, and a clip still has that number and is black
        after its own pictures, there are zeros, whatever `mean` is.
        """
        pictures = [self._find_picture(result, name, alone=alone) for result, name in zip(results, names, strict=True)]
        places = [place for place, picture in enumerate(pictures) if picture is not None]
        if not places:
            return results
        found = [picture for picture in pictures if picture is not None]
        written, in_range = write_pictures(found, self._options, num_threads=num_threads)
        if self._normalises and not all(in_range):
            number = in_range.index(False)
            raise ValueError(self._out_of_range(found[number], names[places[number]]))
        self._check_finite(found, written, [names[place] for place in places])
        if num_frames:
            # A transform that reverses clips has put their own pictures there.
            for place, before, picture in zip(places, found, written, strict=True):
                end = lengths[place]
                if before.ndim > _SIDES and len(before) == num_frames and not before[end:].any():
                    picture[end:] = 0
        if len(places) == len(results) and not isinstance(written, list):
            return written
        whole = list(results)
        for place, picture in zip(places, written, strict=True):
            whole[place] = import_torch().from_numpy(picture) if self._tensors else picture
        return whole

    def _find_picture(self, result: Any, name: str, *, alone: bool) -> Array | None:
        """Return a result as an array (..., C, H, W) of uint8 or float32, or None if it stays unchanged."""
        array = _to_array(result)
        if array is None or array.ndim < _SIDES:
            self._check_may_stay(result, name, alone=alone)
            return None
        if isinstance(result, np.ndarray) is self._tensors:
            raise TypeError(f"{_returned(result, name)}. It got {self._kind}, and must return an image of that kind.")
        picture = array if self._tensors else np.moveaxis(array, -1, -3)
        if not picture.size:
            raise ValueError(
                f"{_returned(result, name)}, which has no pixels. It must return {self._kind} with sides of at least 1."
            )
        channels = picture.shape[-3]
        if not 1 <= channels <= _MOST_CHANNELS:
            self._check_may_stay(result, name, alone=alone)
            return None
        options = self._options
        if options.dtype == "uint8" and picture.dtype != np.uint8:
            raise TypeError(
                f"{_returned(result, name)}, but the loader's `dtype` is uint8. It follows the transform: leave it "
                "out for floats, or have the transform return uint8."
            )
        if self._normalises and channels != PIXEL_FORMATS[options.pix_fmt]:
            raise ValueError(
                f"{_returned(result, name)}, but `mean` and `std` have numbers for {PIXEL_FORMATS[options.pix_fmt]} "
                "channels. Let the transform return as many, or leave both out and normalise there."
            )
        return picture

    def _check_may_stay(self, result: Any, name: str, *, alone: bool) -> None:
        if not alone and _is_no_picture(result):
            return
        if self._normalises:
            remedy = "`mean` and `std` follow the transform, and are for images: leave both out, and normalise there."
        elif self._options.dtype == "uint8" or _is_no_picture(result):
            return
        else:
            remedy = (
                f"The loader's `dtype`, {self._options.dtype}, follows the transform, and is for images: convert it "
                'there, or pass dtype="uint8", with which everything stays as it is.'
            )
        raise TypeError(
            f"{_returned(result, name)}. An image is {self._kind} in main memory, of uint8 or of floats from 0 to 1, "
            f"with up to {_MOST_CHANNELS} channels. {remedy}"
        )

    def _check_finite(self, before: Sequence[Array], written: Iterable[Array], names: Sequence[str]) -> None:
        """Check that batches get numbers. The native code reports the range, but not NaN."""
        for picture, result, name in zip(before, written, names, strict=True):
            if picture.dtype == np.uint8 or np.isfinite(result).all():
                continue
            if number := picture.size - int(np.count_nonzero(np.isfinite(picture))):
                raise ValueError(
                    f"`transform` returned floats for {name}, and {number} of {picture.size} are NaN or infinite. "
                    "It must return numbers: look for a division by zero in it, or the logarithm or root of one."
                )
            raise ValueError(
                f"`transform` returned floats from {picture.min():.4g} to {picture.max():.4g} for {name}, and the "
                f"loader's `dtype`, {self._options.dtype}, has none beyond 65504: have it scale them, or pass "
                'dtype="float32".'
            )

    def _out_of_range(self, picture: Array, name: str) -> str:
        return (
            f"`transform` returned floats from {picture.min():.4g} to {picture.max():.4g} for {name}. `mean` and `std` "
            "follow it, and are for values from 0 to 1: have it scale them, as v2.ToDtype(torch.float32, scale=True) "
            "does, or leave both out if it normalises itself."
        )


def _to_array(value: Any) -> Array | None:
    """As uint8 or float32, if the value is an array or a tensor in main memory; None if it is neither."""
    if isinstance(value, np.ndarray):
        refuse_masked("image", value)
        if value.dtype.kind == "f":
            return value.astype(np.float32, copy=False)
        return value if value.dtype == np.uint8 else None
    torch: Any = sys.modules.get("torch")
    # Another thread may just be importing it.
    tensor_type = getattr(torch, "Tensor", None)
    if tensor_type is None or not isinstance(value, tensor_type) or value.device.type != "cpu":
        return None
    if value.is_floating_point():
        value = value.detach().to(torch.float32)
    elif value.dtype != torch.uint8:
        return None
    array: Array = value.numpy()
    return array


def _is_no_picture(value: Any) -> bool:
    return isinstance(value, Number | str | None) or "uint8" not in str(getattr(value, "dtype", "uint8"))


def _returned(result: Any, name: str) -> str:
    dtype = getattr(result, "dtype", None)
    what = type(result).__name__ if dtype is None else f"{str(dtype).removeprefix('torch.')} {tuple(result.shape)}"
    device = str(getattr(result, "device", "cpu"))
    return f"`transform` returned {what}{'' if device == 'cpu' else f' on {device}'} for {name}"

"""The crops and flips of the images of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse
from spdl.io._image.random_crop import Box, RandomResizedCrop

if TYPE_CHECKING:
    from spdl.io._native import RandomCrop

Crop: TypeAlias = Sequence[Box] | RandomResizedCrop | Any
"""Boxes of pixels, one for each image, as a sequence or an integer array (B, 4), or random ones."""

Flip: TypeAlias = bool | Sequence[bool] | Any
"""One bool, or one for each image, as a sequence or a boolean array."""

_BOX_SIDES = 4
_LARGEST = (1 << 31) - 1


def resolve_crop(crop: Crop | None, count: int) -> tuple[list[Box], RandomCrop | None]:
    """Return the crops of `count` images as native code takes them: as boxes, or as the parameters to draw them by.

    Raises:
        TypeError, ValueError: If they are no crops, or another number of them.
    """
    if crop is None:
        return [], None
    if isinstance(crop, RandomResizedCrop):
        _check_count("crop", crop.indices, count)
        return [], crop._to_native()  # noqa: SLF001 - our own class.
    rows: Any = crop.tolist() if hasattr(crop, "tolist") else crop
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        refuse(TypeError, "crop", "a box for each image, or what `random_resized_crop` returns", crop)
    boxes = [_box(row, index) for index, row in enumerate(rows)]
    _check_count("crop", boxes, count)
    return boxes, None


def resolve_flip(flip: Flip, count: int) -> list[bool]:
    """Return a bool for each of `count` images, or an empty list if none is flipped.

    Raises:
        TypeError, ValueError: If they are no bools, or another number of them.
    """
    if isinstance(flip, bool):
        return [flip] * count if flip else []
    rows: Any = flip.tolist() if hasattr(flip, "tolist") else flip
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        refuse(TypeError, "flip", "a bool, or one for each image", flip)
    flips = list(rows)
    if not all(isinstance(each, bool) for each in flips):
        refuse(TypeError, "flip", "a bool, or one for each image", flip)
    _check_count("flip", flips, count)
    return flips


def _box(row: Any, index: int) -> Box:
    try:
        sides = tuple(side.__index__() for side in row)
    except (AttributeError, TypeError):
        sides = ()
    if len(sides) != _BOX_SIDES:
        refuse(TypeError, f"crop[{index}]", "four ints in pixels: left, top, right and bottom", row)
    left, top, right, bottom = sides
    if not (0 <= left < right <= _LARGEST and 0 <= top < bottom <= _LARGEST):
        accepted = "left, top, right and bottom, with 0 <= left < right and 0 <= top < bottom"
        refuse(ValueError, f"crop[{index}]", accepted, row)
    return left, top, right, bottom


def _check_count(name: str, given: Sequence[object], count: int) -> None:
    if len(given) != count:
        refuse(ValueError, name, f"given for each of the {count} images", given, f"There are {len(given)}.")

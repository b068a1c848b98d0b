"""The options of pictures as loaders take them: by a record, or one by one."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from spdl._check import refuse
from spdl.io import ImageOptions

__all__ = ["Interpolation", "make_options"]

Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]

_DEFAULTS: dict[str, Any] = {"mode": "crop", "interpolation": "bilinear", "layout": "NCHW", "dtype": "float32"}


def make_options(
    size: int | tuple[int, int] | None, options: ImageOptions | None, given: dict[str, Any]
) -> ImageOptions:
    """Return the record of the arguments of a loader, or the one that it was given.

    Args:
        size: A side, or two.
        options: The record, or None.
        given: The loader's arguments of the same names as fields; None where one was left out. ``exact`` is its own
            choice.

    Raises:
        TypeError, ValueError: If an argument is wrong, or is given together with the record.
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
        return options
    if size is None:
        refuse(TypeError, "size", "given, or `options`", size)
    accepted = "a side in pixels, or (width, height)"
    try:
        width, height = size if isinstance(size, tuple | list) else (size, size)
    except ValueError:
        refuse(ValueError, "size", accepted, size)
    return ImageOptions(width, height, **{**_DEFAULTS, "exact": exact, **given})

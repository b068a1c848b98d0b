"""Segmentations of COCO, painted as masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard

from spdl._check import check_choice, check_int, refuse
from spdl.io._common.native import native
from spdl.io._image.options import MAX_PIXELS, MAX_SIDE

if TYPE_CHECKING:
    import numpy as np

Segmentation: TypeAlias = Sequence[Sequence[float]] | Mapping[str, Any]
"""What COCO's JSON has as ``segmentation``: polygons, or runs of pixels (RLE)."""

_ACCEPTED = (
    "what COCO's JSON has as `segmentation`: a list of polygons, each a list x, y, x, y, ..., or a dict with `size`, "
    "(height, width), and `counts`, a list of ints or a str"
)
_MOST_IDS = {"uint8": 255, "uint16": 65535}
_PAIR = 2


def coco_masks(
    segmentations: Sequence[Segmentation],
    *,
    width: int,
    height: int,
    ids: Sequence[int] | None = None,
    dtype: Literal["uint8", "uint16"] = "uint8",
) -> np.ndarray[Any, Any]:
    """Make masks of the segmentations of one picture in COCO's format, without pycocotools.

    The pixels are the same as pycocotools makes of them (``annToMask`` of its ``COCO``). The polygons of one object are
    united. Runs may be written in full or compressed.

    Args:
        segmentations: One for each object, as ``json.load`` returns the field ``segmentation``. Polygons are in pixels,
            and what lies outside of the picture is cut off. An object without polygons is an error.
        width: The width of the picture in pixels.
        height: The height of the picture in pixels.
        ids: The id of each object for one mask of all of them, such as its class in semantic segmentation. Where
            objects overlap, the later one counts; pixels of no object have 0. None makes a mask of each object.
        dtype: The type of the masks: ``"uint16"`` has room for ids up to 65535.

    Returns:
        A new array with its own memory. Without `ids`, (N, H, W): 1 for the object's pixels, 0 for others. With `ids`,
        (H, W).

    Raises:
        TypeError: If a segmentation is something else, or another argument has the wrong type.
        ValueError: If runs are damaged, or of another size, a polygon has fewer than three points or coordinates that
            are not finite, there are more or fewer `ids` than segmentations, or an id is out of range.

    Example:
        >>> triangle = [[0.0, 0.0, 4.0, 0.0, 0.0, 4.0]]
        >>> runs = {"size": [4, 4], "counts": [12, 4]}
        >>> coco_masks([triangle, runs], width=4, height=4).sum(axis=(1, 2)).tolist()
        [6, 4]
        >>> coco_masks([triangle, runs], width=4, height=4, ids=[1, 7])[0].tolist()
        [1, 1, 1, 7]
    """
    import numpy as np  # noqa: PLC0415 - importing spdl.io loads no numpy.

    width = check_int("width", width, least=1, most=MAX_SIDE)
    height = check_int("height", height, least=1, most=MAX_SIDE)
    if width * height > MAX_PIXELS:
        refuse(ValueError, "width", f"such that `width` x `height` is at most {MAX_PIXELS} pixels", width)
    if isinstance(segmentations, (str, bytes, Mapping)) or not isinstance(segmentations, Sequence):
        refuse(TypeError, "segmentations", f"a sequence, for each object of it {_ACCEPTED}", segmentations)
    given = [_take(each, f"segmentations[{index}]", width, height) for index, each in enumerate(segmentations)]
    check_choice("dtype", dtype, tuple(_MOST_IDS))
    values = [1] * len(given)
    if ids is not None:
        values = [check_int(f"ids[{index}]", each, least=0, most=_MOST_IDS[dtype]) for index, each in enumerate(ids)]
        if len(values) != len(given):
            refuse(ValueError, "ids", f"given for each of the {len(given)} segmentations", ids)
    masks = np.zeros((height, width) if ids is not None else (len(given), height, width), dtype)
    if given:
        native.coco_masks(
            segmentations=given,
            size=(width, height),
            values=values,
            together=ids is not None,
            wide=dtype == "uint16",
            masks=masks,
        )
    return masks


def _take(given: Any, name: str, width: int, height: int) -> bytes | list[int] | list[list[float]]:
    """Return a segmentation as native code takes it: a text of runs, a list of them, or a list of polygons."""
    if not isinstance(given, Mapping):
        polygons = [_numbers(polygon) for polygon in given] if _is_list(given) else []
        if not polygons or None in polygons:
            refuse(TypeError if polygons or not _is_list(given) else ValueError, name, _ACCEPTED, given)
        return [polygon for polygon in polygons if polygon is not None]
    size = _numbers(given.get("size"))
    if size is None or len(size) != _PAIR:
        refuse(ValueError, f"{name}['size']", "(height, width)", given.get("size"))
    if size != [height, width]:
        accepted = f"({height}, {width}), the height and the width of the picture"
        refuse(ValueError, f"{name}['size']", accepted, given["size"])
    counts = given.get("counts")
    if isinstance(counts, str):
        return counts.encode("utf-8", "surrogateescape")
    if isinstance(counts, bytes):
        return counts
    if not _is_list(counts):
        refuse(TypeError, f"{name}['counts']", "a list of ints, or a str", counts)
    return [
        check_int(f"{name}['counts'][{index}]", count, least=0, most=MAX_PIXELS) for index, count in enumerate(counts)
    ]


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return hasattr(value, "tolist") or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


def _numbers(values: Any) -> list[float] | None:
    """Return a list of numbers, or None if it is something else."""
    if not _is_list(values):
        return None
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None

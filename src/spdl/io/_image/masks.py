"""Masks: an id for each pixel, out of files, arrays or COCO's segmentations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, get_args

from spdl._check import check_choice, check_flag, check_int, refuse, refuse_masked
from spdl.io._common.errors import LoadFailure, on_error_of, settle
from spdl.io._common.inputs import MAX_THREADS, list_inputs, resolve_all, url_of
from spdl.io._common.native import native
from spdl.io._common.storage import resolve_storage
from spdl.io._image.augment import Crop, Flip, resolve_crop, resolve_flip
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.image import ImageInput, describe
from spdl.io._image.options import (
    MAX_PIXELS,
    MAX_SIDE,
    ArrayFormat,
    IdDtype,
    Mode,
    check_pages,
    make_load_options,
    make_pad,
    resize_to,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from spdl.io._common.storage import Storage
    from spdl.io._image.config import DecodeConfig
    from spdl.io._image.views import Place, Size
    from spdl.io._native import CPUBuffer, LoadOptions


MaskInput: TypeAlias = ImageInput
"""A path, the encoded bytes, an open binary file, or the ids themselves: an array (H, W) of integers or bools."""

_SIDES = 2


def load_mask_batch(
    srcs: Iterable[MaskInput],
    *,
    width: int | None,
    height: int | None,
    mode: Mode = "pad",
    crop: Crop | None = None,
    flip: Flip = False,
    dtype: IdDtype = "uint8",
    pad_value: int = 0,
    exif: bool = True,
    decode_config: DecodeConfig | None = None,
    storage: Storage | None = None,
    num_threads: int = 1,
    on_error: Literal["raise", "skip", "zero"] | None = None,
) -> CPUBuffer:
    """Load the masks of a batch into one array, cut, flipped and resized as their images are.

    It does for ids what `load_image_batch` does for colours, also in one native call without the GIL. With the same
    `crop`, `flip`, `mode` and size, each pixel of a mask is the one that lies on the pixel of the image, by the nearest
    one where the size changes. Every mask has its own kind: files with a palette give its indices, and gray ones their
    levels, as they are stored. Files with colours or alpha, and lossy ones, have no ids, and fail.

    Args:
        srcs: For each mask a path, the encoded bytes, an open binary file, or the ids themselves: an array (H, W) of
            integers or bools, which is read in place.
        width, height: The size of the result in pixels. None keeps a side.
        mode: How a mask of another shape gets the size: ``"pad"``, ``"stretch"`` or ``"crop"``.
        crop: The part of each to take before, as in `load_image_batch`. A mask must be as large as its image.
        flip: Whether to mirror the result left to right: one bool, or one for each mask.
        dtype: The type of the ids: ``"uint8"``, ``"uint16"``, ``"int32"`` or ``"int64"``, which the losses of PyTorch
            take. Those of uint8 end at 255, all others at 65535; those of int32 and int64 begin at -32768. A file whose
            number of bits allows others fails, and an array that has one.
        pad_value: The id where ``mode="pad"`` has no mask, such as 255, or -100 with int64.
        exif: Whether to turn each mask upright, as its own EXIF data says.
        decode_config: Which masks are too large; see `decode_config`.
        storage: The memory for the array, as in `load_image_batch`.
        num_threads: How many threads share the masks, including the calling one.
        on_error: ``"raise"``, which None is, too, ``"skip"`` or ``"zero"``, as in `load_image_batch`.

    Returns:
        The masks, (B, H, W), with their own memory or in `storage`. ``failures`` is a tuple of `LoadFailure`.

    Raises:
        LoadError: If a mask fails and `on_error` is ``"raise"``, or if all fail.
        RuntimeError: If the batch does not fit into the machine's memory or into `storage`.
        TypeError: If an argument has the wrong type, or an array other values.
        ValueError: If `srcs` is empty, or another argument is out of range.

    Example:
        >>> import numpy as np
        >>> mask = np.zeros((375, 500), np.uint8)
        >>> mask[100:200] = 7
        >>> crop = random_resized_crop([3], seed=1, epoch=0)
        >>> size = {"width": 64, "height": 64, "mode": "stretch"}
        >>> images = load_image_batch([photo], crop=crop, **size)
        >>> masks = load_mask_batch([mask], crop=crop, dtype="int64", **size)
        >>> images.shape, masks.shape, masks.dtype
        ((1, 64, 64, 3), (1, 64, 64), 'int64')
    """
    given = list_inputs(srcs, "load_mask_batch")
    check_choice("on_error", on_error, ("raise", "skip", "zero", None))
    errors = on_error_of(None, on_error)
    boxes, random = resolve_crop(crop, len(given))
    check_choice("dtype", dtype, get_args(IdDtype))
    request = _make_request(width, height, mode, dtype, pad_value, exif=check_flag("exif", exif))
    inputs, unread = _resolve(given)
    shape = None if width is None or height is None else (len(given), height, width)
    buffer, reasons = native.load_batch(
        sources=inputs,
        request=request,
        boxes=list(boxes),
        random=random,
        flips=resolve_flip(flip, len(given)),
        jitter=None,
        demux=demux_options(None, None),
        decode=decode_options(decode_config),
        num_threads=check_int("num_threads", num_threads, least=1, most=MAX_THREADS),
        keep_failed=errors == "zero",
        storage=resolve_storage(storage, shape, dtype),
    )
    failures = [LoadFailure(index, given[index], unread.get(index, reason)) for index, reason in reasons]
    return settle(buffer, failures, errors, f"{len(given)} masks", _describe)


def _describe(failure: LoadFailure) -> str:
    source = failure.source
    if getattr(source, "ndim", None) == _SIDES:
        return f"array {tuple(source.shape)}"
    if isinstance(source, (str, os.PathLike)):
        return describe(os.fsdecode(source), url_of(source))
    return describe(source, None) if isinstance(source, (bytes, bytearray, memoryview)) else "a mask in memory"


def load_mask_views(
    sources: Sequence[MaskInput],
    groups: Sequence[tuple[Size, Sequence[Sequence[Place]]]],
    *,
    sizes: Sequence[Size] = (),
    dtype: IdDtype = "uint8",
    pad_value: int = 0,
    exif: bool = True,
    pages: int | None = None,
    num_threads: int = 1,
    decode_config: DecodeConfig | None = None,
) -> tuple[list[CPUBuffer], dict[int, str]]:
    """Return views of masks, and why some failed, whose views are zeros; each file is decoded once.

    A group has a width and a height, and for each view the place of each mask. Masks of other sizes than `sizes` fail,
    if there are any, and those with ids out of the `id_range` of the dtype.

    Returns:
        An array (views, B, H, W) of each group.
    """
    inputs, unread = _resolve(sources)
    views = []
    for (width, height), group in groups:
        request = _make_request(width, height, "stretch", dtype, pad_value, exif=exif)
        views.append(
            [
                native.View(request=request, boxes=[], random=None, flips=[], places=list(places), augment=None)
                for places in group
            ]
        )
    arrays, reasons = native.load_views(
        sources=inputs,
        groups=views,
        sizes=list(sizes),
        demux=demux_options(None, None),
        decode=decode_options(decode_config),
        num_threads=num_threads,
        page=check_pages(pages),
    )
    return arrays, {**dict(reasons), **unread}


def _make_request(
    width: int | None, height: int | None, mode: Mode, dtype: IdDtype, pad_value: int, *, exif: bool
) -> LoadOptions:
    resize = resize_to(width, height, mode, "nearest", "ids")._replace(pad=make_pad(pad_value, "ids", dtype))
    return make_load_options(resize, ArrayFormat(dtype=dtype), exif=exif)


def _resolve(sources: Sequence[MaskInput]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Return masks as native code takes them, and why some cannot be read."""
    arrays = {index: held for index, source in enumerate(sources) if (held := _hold(source, index)) is not None}
    files, unread = resolve_all(
        [b"" if index in arrays else source for index, source in enumerate(sources)], files=True
    )
    return tuple([arrays.get(index, file) for index, file in enumerate(files)]), unread


def _hold(source: Any, index: int) -> Any:
    """Return an array of ids as native code takes it; None if the source is something else."""
    if getattr(source, "ndim", 1) == 1:
        return None  # Encoded bytes may be an array, too.
    import numpy as np  # noqa: PLC0415 - only with arrays.

    refuse_masked(f"srcs[{index}]", source)
    array = np.asarray(source)
    if array.ndim != _SIDES or array.dtype.kind not in "bui" or not array.size:
        refuse(TypeError, f"srcs[{index}]", "an array (H, W) of integers or bools, or a file", source)
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    name = array.dtype.name
    if not array.dtype.isnative or name not in ("uint8", "uint16", "int32", "int64"):
        if name == "uint64":
            # Ids beyond int64 would become negative.
            array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
        name = "int64"
        array = array.astype(name)
    return native.HeldIds(array, name)


Segmentation: TypeAlias = Sequence[Sequence[float]] | Mapping[str, Any]
"""What COCO's JSON has as ``segmentation``: polygons, or runs of pixels (RLE)."""

_SEGMENTATION = (
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
        width, height: The size of the picture in pixels.
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
        refuse(TypeError, "segmentations", f"a sequence, for each object of it {_SEGMENTATION}", segmentations)
    given = [
        _read_segmentation(each, f"segmentations[{index}]", width, height) for index, each in enumerate(segmentations)
    ]
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


def _read_segmentation(given: Any, name: str, width: int, height: int) -> bytes | list[int] | list[list[float]]:
    """Return a segmentation as native code takes it: a text of runs, a list of them, or a list of polygons."""
    if not isinstance(given, Mapping):
        polygons = [_floats_of(polygon) for polygon in given] if _is_list(given) else []
        if not polygons or None in polygons:
            refuse(TypeError if polygons or not _is_list(given) else ValueError, name, _SEGMENTATION, given)
        return [polygon for polygon in polygons if polygon is not None]
    size = _floats_of(given.get("size"))
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


def _floats_of(values: Any) -> list[float] | None:
    """Return a list of numbers, or None if it is something else."""
    if not _is_list(values):
        return None
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None

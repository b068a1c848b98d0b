"""Masks of a batch: an id for each pixel, out of files or arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from spdl._check import check_choice, check_flag, check_int, refuse
from spdl.io._common.errors import LoadFailure, on_error_of, settle
from spdl.io._common.inputs import list_inputs, resolve_all, url_of
from spdl.io._common.native import native
from spdl.io._common.storage import resolve_storage
from spdl.io._image.augment import Crop, Flip, resolve_crop, resolve_flip
from spdl.io._image.batch import MAX_THREADS
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.decode import ImageInput, describe
from spdl.io._image.options import ArrayFormat, IdDtype, Mode, check_pages, make_load_options, make_pad, resize_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
        width: The width of the result in pixels, or None to keep it.
        height: The height of the result in pixels, or None to keep it.
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
        on_error: The treatment of masks that fail, as in `load_image_batch`: ``"raise"``, ``"skip"``, or ``"zero"``,
            which fills their place with zeros. None is ``"raise"``.

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

    Args:
        sources: The masks. Arrays are read in place.
        groups: For each array of views, their width and height, and for each view the place of each mask.
        sizes: The size that each upright mask has to have, or none.
        dtype: The type of the ids. A file whose ids could be out of its `id_range` fails, and an array whose ids are.
        pad_value: The id outside of masks.
        exif: Whether masks are turned upright as their own EXIF data says.
        pages: The page of each TIFF.
        num_threads: How many threads share the masks.
        decode_config: Which masks are too large.

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
    """Return an array of ids as native code takes it; None if the source is something else.

    Raises:
        TypeError: If it is an array of other values.
    """
    if getattr(source, "ndim", 1) == 1:
        return None  # Encoded bytes may be an array, too.
    import numpy as np  # noqa: PLC0415 - only with arrays.

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

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
    from spdl.io._image.augment import Box
    from spdl.io._image.config import DecodeConfig
    from spdl.io._image.views import Place
    from spdl.io._native import CPUBuffer, RandomCrop

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
            take. Those of uint8 end at 255, all others at 65535. A file whose number of bits allows larger ones fails,
            and an array that has one.
        pad_value: The id where ``mode="pad"`` has no mask.
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
    buffer, reasons = load_masks(
        given,
        width=width,
        height=height,
        mode=mode,
        boxes=boxes,
        random=random,
        flips=resolve_flip(flip, len(given)),
        dtype=dtype,
        pad_value=pad_value,
        exif=check_flag("exif", exif),
        num_threads=check_int("num_threads", num_threads, least=1, most=MAX_THREADS),
        keep_failed=errors == "zero",
        storage=storage,
        decode_config=decode_config,
    )
    failures = [LoadFailure(index, given[index], reason) for index, reason in reasons]
    return settle(buffer, failures, errors, f"{len(given)} masks", _describe)


def _describe(failure: LoadFailure) -> str:
    source = failure.source
    if getattr(source, "ndim", None) == _SIDES:
        return f"array {tuple(source.shape)}"
    if isinstance(source, (str, os.PathLike)):
        return describe(os.fsdecode(source), url_of(source))
    return describe(source, None) if isinstance(source, (bytes, bytearray, memoryview)) else "a mask in memory"


def load_masks(
    sources: Sequence[MaskInput],
    *,
    width: int | None,
    height: int | None,
    mode: Mode = "stretch",
    boxes: Sequence[Box] = (),
    random: RandomCrop | None = None,
    flips: Sequence[bool] = (),
    places: Sequence[Place] = (),
    sizes: Sequence[tuple[int, int]] = (),
    dtype: IdDtype = "uint8",
    pad_value: int = 0,
    exif: bool = True,
    pages: int | None = None,
    num_threads: int = 1,
    keep_failed: bool = False,
    storage: Storage | None = None,
    decode_config: DecodeConfig | None = None,
) -> tuple[CPUBuffer | None, list[tuple[int, str]]]:
    """Return masks (B, H, W), and the index and reason of each failure, as `native.load_batch` does for images.

    A file with a palette gives its indices, one of gray its levels as they are stored; all others fail. The parts that
    are cut out, and the pixels that a resize takes, are the same as for images with ``interpolation="nearest"``.

    Args:
        sources: The masks. Arrays are read in place.
        width: The width of the result, or None to keep it.
        height: The height of the result, or None to keep it.
        mode: How a mask of another shape gets the size.
        boxes: The part of each, in the upright mask, or none for whole masks.
        random: Draws the boxes instead.
        flips: Whether each is mirrored, or none.
        places: The place of each, instead of boxes and flips, or none.
        sizes: The (width, height) that each upright mask has to have, or none.
        dtype: The type of the ids. Those of uint8 end at 255, all others at 65535; a file whose ids could be larger
            fails, and an array whose ids are.
        pad_value: The id outside of masks.
        exif: Whether masks are turned upright as their own EXIF data says.
        pages: The page of each TIFF.
        num_threads: How many threads share the masks.
        keep_failed: Whether those that fail become zeros, instead of being left out.
        storage: The memory for the array.
        decode_config: Which masks are too large.

    Raises:
        TypeError, ValueError: If an argument is wrong.
    """
    check_choice("dtype", dtype, get_args(IdDtype))
    resize = resize_to(width, height, mode, "nearest", "ids")._replace(pad=make_pad(pad_value, "ids", dtype))
    arrays = {index: held for index, source in enumerate(sources) if (held := _hold(source, index)) is not None}
    files, unread = resolve_all(
        [b"" if index in arrays else source for index, source in enumerate(sources)], files=True
    )
    shape = None if width is None or height is None else (len(files), height, width)
    buffer, reasons = native.load_batch(
        sources=tuple([arrays.get(index, file) for index, file in enumerate(files)]),
        request=make_load_options(resize, ArrayFormat(dtype=dtype), exif=exif),
        boxes=list(boxes),
        random=random,
        flips=list(flips),
        places=list(places),
        jitter=None,
        sizes=list(sizes),
        demux=demux_options(None, None),
        decode=decode_options(decode_config),
        page=check_pages(pages),
        num_threads=num_threads,
        keep_failed=keep_failed,
        storage=resolve_storage(storage, shape, dtype),
    )
    return buffer, [(index, unread.get(index, reason)) for index, reason in reasons]


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
        # Of uint64, ids beyond int64 become negative, which fail as well.
        name = "int64"
        array = array.astype(name)
    return native.HeldIds(array, name)

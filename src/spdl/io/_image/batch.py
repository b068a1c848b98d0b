"""Batches of images: from many inputs to one array."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, overload

from spdl._check import check_flag, check_instance, check_int, refuse
from spdl._locate import callers_line
from spdl.io._common.errors import LoadFailure, OnError, on_error_of, settle
from spdl.io._common.inputs import MAX_THREADS, list_inputs, resolve_all, url_of
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._device.transfer import check_device_config, transfer_buffer
from spdl.io._image.augment import Crop, Flip, RandomColorJitter, resolve_crop, resolve_flip, resolve_jitter
from spdl.io._image.config import check_ffmpeg_text, decode_options, demux_options
from spdl.io._image.gpu_images import WORTHWHILE, GpuWork, leaves_choice, load_on_gpu
from spdl.io._image.image import ImageInput, decode_image_packets, demux_image, describe
from spdl.io._image.image_filters import DEFAULT_FILTER_DESC, get_video_filter_desc
from spdl.io._image.options import (
    DEFAULT_ARRAY_FORMAT,
    PIXEL_FORMATS,
    ArrayFormat,
    Dtype,
    IdDtype,
    ImageOptions,
    Interpolation,
    Layout,
    Mode,
    Resize,
    are_ids,
    check_pages,
    check_unmixed,
    dtypes_of,
    make_array_format,
    make_load_options,
    make_pad,
    parse_served,
    resize_to,
    scale_flags,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spdl.io._device.cuda import CUDAConfig
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._native import CPUBuffer, CUDABuffer, ImageFrames


def load_filtered_batch(
    inputs: Sequence[Any],
    filter_desc: str | None,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    *,
    storage: Storage | None,
    num_threads: int,
) -> tuple[CPUBuffer | None, list[tuple[int, str]]]:
    """Return the array of the loaded images, None if all failed, and the index and reason of each failure."""
    if filter_desc is not None:
        # Here rather than in a thread, where the caller's line is not known.
        check_ffmpeg_text("filter_desc", filter_desc)

    def load(given: Any) -> ImageFrames | str:
        try:
            return decode_image_packets(demux_image(given, demux_config=demux_config), filter_desc, decode_config)
        except RuntimeError as error:
            # The caller names the input.
            return str(error).removeprefix(f"{describe(given, None)}: ")

    if num_threads == 1:
        outcomes = [load(given) for given in inputs]
    else:
        with ThreadPoolExecutor(num_threads) as pool:
            outcomes = list(pool.map(load, inputs))
    frames = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    reasons = [(index, outcome) for index, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    memory = resolve_storage(storage, None, "uint8")
    return (native.convert_many(frames, memory) if frames else None), reasons


_UNSET: Any = ...


class _CallOptions(TypedDict, total=False):
    """The options of a call with a record that the type of the result does not depend on."""

    storage: Storage | None
    strict: bool | None
    crop: Crop | None
    flip: Flip
    jitter: RandomColorJitter | None
    num_threads: int
    on_error: OnError | None


class _Options(_CallOptions, total=False):
    """The options that the type of the result does not depend on."""

    pix_fmt: str | None
    demux_config: DemuxConfig | None
    decode_config: DecodeConfig | None
    filter_desc: str | None
    mode: Mode | None
    interpolation: Interpolation
    layout: Layout
    dtype: Dtype | IdDtype | None
    mean: Sequence[float] | None
    std: Sequence[float] | None
    exact: bool
    exif: bool | None
    pad_value: int | tuple[int, ...]
    pages: int | None


@overload
def load_image_batch(
    srcs: Iterable[ImageInput],
    *,
    width: int | None,
    height: int | None,
    device_config: None = None,
    **options: Unpack[_Options],
) -> CPUBuffer: ...
@overload
def load_image_batch(
    srcs: Iterable[ImageInput],
    *,
    width: int | None,
    height: int | None,
    device_config: CUDAConfig,
    **options: Unpack[_Options],
) -> CUDABuffer: ...
@overload
def load_image_batch(
    srcs: Iterable[ImageInput],
    *,
    options: ImageOptions,
    device_config: None = None,
    **call_options: Unpack[_CallOptions],
) -> CPUBuffer: ...
@overload
def load_image_batch(
    srcs: Iterable[ImageInput],
    *,
    options: ImageOptions,
    device_config: CUDAConfig,
    **call_options: Unpack[_CallOptions],
) -> CUDABuffer: ...
def load_image_batch(
    srcs: Iterable[ImageInput],
    *,
    width: int | None = _UNSET,
    height: int | None = _UNSET,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    device_config: CUDAConfig | None = None,
    storage: Storage | None = None,
    strict: bool | None = None,
    mode: Mode | None = None,
    crop: Crop | None = None,
    flip: Flip = False,
    jitter: RandomColorJitter | None = None,
    interpolation: Interpolation = "bicubic",
    layout: Layout = "NHWC",
    dtype: Dtype | IdDtype | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    exact: bool = True,
    num_threads: int = 1,
    on_error: OnError | None = None,
    exif: bool | None = None,
    pad_value: int | tuple[int, ...] = 0,
    pages: int | None = None,
    options: ImageOptions | None = None,
) -> CPUBuffer | CUDABuffer:
    """Load images into one array, resized to one size.

    This is one native call. It reads, decodes, crops, resizes, flips and normalises each image straight into its place
    in the array, without the GIL and without a Python object per image. To use several cores, call it from several
    threads, or set `num_threads`.

    libjpeg-turbo decodes JPEG, with Pillow's settings, libdeflate PNG, and libtiff, libwebp, libavif and OpenJPEG what
    their names say; FFmpeg decodes the HEVC of HEIC, and we the other formats. One batch may mix them. From an
    animation, only the first picture is loaded, and from a TIFF the first page, unless `pages` says which. Alpha is
    dropped. The resize is antialiased and gives the results of Pillow 13's ``Image.resize`` with the interpolation of
    the same name (``"area"`` is Pillow's BOX). Older versions of Pillow run the two passes over tall images in the
    other order, so they round slightly differently.

    A JPEG that Pillow refuses is an error, unless `on_error` says otherwise: one that is truncated, or has a misplaced
    marker among or after its pixels. Data below a crop is not read. Other damage gives Pillow's picture. See
    `decode_packets` for JPEGs that FFmpeg decodes.

    Args:
        srcs: Paths, encoded bytes, or open binary files, in any mixture.
        width: The width of the result in pixels. None keeps the width, unless a height is given and the mode keeps the
            aspect ratio: then an image that is shrunk gets the width that follows from the height, and one that would
            have to be enlarged keeps its own. All images must come out in one size.
        height: The height of the result in pixels. None works as for the width.
        pix_fmt: The pixel format by FFmpeg's name. All but rgb24, bgr24 and gray are left to FFmpeg's filters, with the
            limits described under `filter_desc`. None keeps the stored format, which must be the same for all images.
            Two formats stand for ids, such as the classes of pixels, which are neither scaled nor mixed: ``"index"``
            takes the indices of a palette, from PNG, GIF, BMP and TIFF, and ``"gray16"``, together with a `dtype` for
            ids, the levels of 16-bit gray, from PNG, TIFF and PGM. Any other image fails. Unless both sides are None,
            they need ``interpolation="nearest"``. There is no axis of channels then.
        demux_config: How FFmpeg reads; see `demux_config`. If it sets a format or an option, FFmpeg reads JPEG too.
        decode_config: How to decode, and which images are too large; see `decode_config`.
        filter_desc: Filters in FFmpeg's syntax that take the place of the resize; `width`, `height`, `interpolation`
            and `pix_fmt` then have no effect. Descriptions as `get_video_filter_desc` writes them for scaling, cropping
            and converting are served without FFmpeg. All others run in FFmpeg's filter graph, image by image. `exact`
            then has no effect. `crop`, `flip`, `jitter`, `layout`, `dtype`, `mean`, `std`, ``exif=True`` and an
            `on_error` of zeros are errors there, and so are images that come out in different sizes, whatever
            `on_error` is. The default stands for the resize that the other arguments describe. None only decodes.
        device_config: The GPU to load the batch to, from `cuda_config`. If nvJPEG is usable (see
            `spdl.io.utils.cuda_info`) and at least 16 of the images are for it, it decodes them, and kernels crop,
            resize and convert them; the CPU loads the others of the batch. The pixels are within a level or so of those
            of the CPU. Otherwise the CPU loads the batch, and it is copied: if a side is None, or FFmpeg's filters, a
            `jitter`, a `storage`, or a configuration that names a format or decoder is asked for, such as
            ``decode_config(backend="libjpeg-turbo")``. A pinned `cpu_storage` then saves a copy on the way; see
            `transfer_buffer`. None leaves the batch in main memory.
        storage: The memory for the array. A storage from `cpu_storage` is never overwritten while an array in it, or a
            view of one, is alive: the batch then goes to another block. An array that the caller owns (NumPy, shared
            memory, pinned memory, a PyTorch tensor) is always written to. It must have the batch's shape and dtype, or
            be longer, or be flat; it must be flat if a side is None or FFmpeg's filters run. The result is a view of
            its beginning. None allocates new memory.
        strict: False is ``on_error="skip"``, True is ``on_error="raise"``; None, the default, is True.
        mode: ``"pad"`` keeps the aspect ratio and centres the image on black; ``"stretch"`` fills the size; ``"crop"``
            keeps the aspect ratio, covers the size and cuts off the rest on both sides. None is ``"pad"``.
        crop: The part of each image to take before resizing: for each image a box (left, top, right, bottom) in pixels,
            right and bottom exclusive, as a sequence or an integer array (B, 4), or the result of
            `random_resized_crop`. If `exif` applies, boxes refer to the upright image. An image that does not contain
            its box fails. The rest of an image is decoded only as far as its format demands. None takes whole images.
        flip: Whether to mirror the result left to right: one bool, or one for each image.
        jitter: How to change the colours of each image after the resize, from `random_color_jitter`. None keeps them.
        interpolation: ``"nearest"``, ``"area"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        layout: ``"NHWC"`` puts the channels of a pixel side by side, ``"NCHW"`` makes a plane of each channel.
        dtype: ``"uint8"``, or ``"float32"`` or ``"float16"`` from 0 to 1. For ids ``"uint8"`` (not for gray16),
            ``"uint16"``, ``"int32"`` or ``"int64"``. None is ``"uint8"``, or uint16 for a deeper `pix_fmt`, such as
            ``"rgb48"``, that FFmpeg's filters make.
        mean: A number for each channel, in the order of `pix_fmt`, to subtract from values of a float dtype, which are
            from 0 to 1. With uint8 it is an error. None is 0.
        std: The divisor of each channel after that, not 0. None is 1.
        exact: False allows less work for a JPEG that is shrunk: brightness and chroma are resized by themselves and
            converted to RGB afterwards, and the JPEG is decoded at a half, a quarter or an eighth of its size where
            the filter still has enough samples, as a JPEG 2000 is, too. That is faster, and changes pixels slightly:
            to the exact picture, the peak signal-to-noise ratio of photos is 38 dB or more. It also allows a bilinear
            or area resize that is faster on some processors and differs by one level at most.
        num_threads: How many threads share the images, including the calling one. They end with the call.
        on_error: The treatment of images that fail. ``"raise"`` raises an error that names them. ``"skip"`` leaves them
            out and keeps the order of the others. ``"zero"`` fills their place with zeros, also if all images fail and
            both sides are given. ``"partial"`` does too, but keeps what libjpeg-turbo could decode of a truncated or
            damaged JPEG, with the missing part gray, as Pillow does if its ``ImageFile.LOAD_TRUNCATED_IMAGES`` is set.
            The result's ``failures`` lists the images and the reasons. None follows `strict`.
        exif: Whether to turn each image upright first, as Pillow's ``ImageOps.exif_transpose`` does: as its EXIF data
            or, without an orientation in these, its XMP says (in JPEG, PNG, WebP, TIFF and AVIF). The orientation in an
            AVIF or HEIF itself comes first. None does so in calls that name `mode`, except when FFmpeg's filters run:
            these get the stored images.
        pad_value: The value of pixels where no image is, in ``mode="pad"``: an int from 0 to 255, or one for each
            channel, in the order of `pix_fmt`; for ids one that `dtype` has room for, as in `load_mask_batch`. `dtype`,
            `mean` and `std` change it as they change pixels.
        pages: The page of each TIFF to load, counted from 0 as `count_pages` does, or from the end if it is negative.
            An image of another format, or without that page, fails. None loads the first picture; if one was a TIFF of
            several pages, a UserWarning says so.
        options: A record of all of this, except the arguments of a single call: `srcs`, `crop`, `flip`, `jitter`,
            `storage`, `num_threads`, `on_error`, `strict` and `device_config`. The other arguments are then left out.

    Returns:
        The images, (B, H, W, C) or (B, C, H, W), for ids (B, H, W), with their own memory or in `storage`. With a
        `device_config`, they are on the GPU, in a `CUDABuffer`. ``failures`` is a tuple of `LoadFailure`: index, source
        (the input), reason. ``backends`` names the decoder of each image.

    Raises:
        LoadError: If an image fails and `on_error` is ``"raise"``. If all images fail, and would be left out, or
            replaced by zeros with a side that is None. It is a RuntimeError.
        RuntimeError: If the batch does not fit into the machine's memory or into `storage`; this is known before any
            image is read if both sides are given and FFmpeg's filters do not run. If CUDA reports an error.
        Exception: If the ``read()`` of an open file raises, whatever `on_error` is.
        MemoryError: If the system has no memory left.
        TypeError: If an argument has the wrong type, or one of `srcs` is not an input: the message has its index.
        ValueError: If `srcs` is empty, or another argument is out of range or conflicts with the others.

    Example:
        >>> batch = load_image_batch([photo, photo], width=224, height=224, mode="stretch", interpolation="bilinear")
        >>> batch.shape
        (2, 224, 224, 3)
    """
    check_device_config(device_config)
    errors = on_error_of(strict, on_error)
    wanted = dtype
    if options is not None:
        _check_alone(options, locals())
        width, height, mode, interpolation = options.width, options.height, options.mode, options.interpolation
        pix_fmt, layout, wanted, mean, std = options.pix_fmt, options.layout, options.dtype, options.mean, options.std
        exact, exif, pad_value, pages = options.exact, options.exif, options.pad_value, options.pages
        demux_config, decode_config = options.demux_config, options.decode_config
    elif width is _UNSET or height is _UNSET:
        missing = "width" if width is _UNSET else "height"
        raise TypeError(
            f"load_image_batch() needs `{missing}`, or a record of `options` ({callers_line()}). Pass `{missing}=None` "
            "to keep the images' own."
        )
    upright = mode is not None if exif is None else check_flag("exif", exif)
    exact = check_flag("exact", exact)
    resize = resize_to(width, height, mode or "pad", interpolation)
    dtype = wanted or "uint8"
    ids = filter_desc == DEFAULT_FILTER_DESC and are_ids(pix_fmt, dtype)
    array_format = make_array_format(layout, dtype, mean, std, dtypes=dtypes_of(pix_fmt if ids else None))
    threads = check_int("num_threads", num_threads, least=1, most=MAX_THREADS)
    given = list_inputs(srcs, "load_image_batch")
    inputs, unread = resolve_all(given, files=True)
    boxes, random = resolve_crop(crop, len(given))
    flips = resolve_flip(flip, len(given))

    demux = demux_options(demux_config, None)
    decode = decode_options(decode_config, keep_damaged=errors == "partial")
    served = _served(resize, pix_fmt, filter_desc, ids=ids)
    jitters = resolve_jitter(jitter, len(given), pix_fmt if served is None else served.pix_fmt)
    page = check_pages(pages)
    if served is not None:
        served = served._replace(pad=make_pad(pad_value, served.pix_fmt, dtype))
        what: GpuWork = {
            "sources": inputs,
            "request": make_load_options(served, array_format, exact=exact, exif=upright),
            "boxes": boxes,
            "random": random,
            "flips": flips,
            "demux": demux,
            "decode": decode,
            "num_threads": threads,
            "keep_failed": errors in ("zero", "partial"),
        }
        shape = _batch_shape(len(given), served, array_format)
        plain = storage is None and jitters is None and page is None and not (ids or any(served.pad))
        free = plain and leaves_choice(demux_config, decode_config)
        rest = {"jitter": jitters, "page": page, "storage": resolve_storage(storage, shape, dtype)}
        buffer, reasons = _load(what, rest, device_config if free else None)
    else:
        unusual = array_format != DEFAULT_ARRAY_FORMAT, page is not None, errors in ("zero", "partial")
        if any((boxes, random, flips, jitters, exif, pad_value, *unusual)):
            _refuse_filters(filter_desc, pix_fmt)
        if filter_desc == DEFAULT_FILTER_DESC:
            filter_desc = get_video_filter_desc(
                scale_width=width,
                scale_height=height,
                scale_mode=None if resize.mode == "stretch" else resize.mode,
                scale_algo=scale_flags(interpolation),
                pix_fmt=pix_fmt,
            )
        buffer, reasons = load_filtered_batch(
            inputs, filter_desc, demux_config, decode_config, storage=storage, num_threads=threads
        )
        if wanted is not None and buffer is not None and buffer.dtype != wanted:
            remedy = "Omit it, or name another `pix_fmt`."
            refuse(ValueError, "dtype", f"{buffer.dtype!r}, which the filters make, or None", wanted, remedy)

    failures = [LoadFailure(index, given[index], unread.get(index, reason)) for index, reason in reasons]
    loaded: CPUBuffer | CUDABuffer = settle(
        buffer, failures, errors, f"{len(given)} images", lambda it: describe(inputs[it.index], url_of(it.source))
    )
    if device_config is None or isinstance(loaded, native.CUDABuffer):
        return loaded
    return transfer_buffer(loaded, device_config=device_config)


def _load(
    what: GpuWork, rest: dict[str, Any], choice: CUDAConfig | None
) -> tuple[CPUBuffer | CUDABuffer | None, list[tuple[int, str]]]:
    """Load a batch on the CPU, or on the GPU that may be chosen if that pays."""
    if choice is not None and len(what["sources"]) >= WORTHWHILE:
        loaded = load_on_gpu(least=WORTHWHILE, device_config=choice, **what)
        if loaded is not None:
            return loaded
    return native.load_batch(**what, **rest)


def _check_alone(options: object, given: Mapping[str, object]) -> None:
    """Raise if the options are not a record, or an argument that they cover is given as well."""
    check_instance("options", options, ImageOptions, "an ImageOptions or None")
    defaults = load_image_batch.__kwdefaults__ or {}
    for name in (*(field.name for field in fields(ImageOptions)), "filter_desc"):
        value, default = given[name], defaults[name]
        if not (value is default or (type(value) is type(default) and value == default)):
            remedy = f"Use dataclasses.replace(options, {name}=...)." if name != "filter_desc" else ""
            refuse(TypeError, name, "left out with `options`", value, remedy)


def _refuse_filters(filter_desc: str | None, pix_fmt: str | None) -> NoReturn:
    """Raise the ValueError of a call that asks FFmpeg's filters for what only native code does."""
    options = (
        "`crop`, `flip`, `jitter`, `layout`, `dtype`, `mean`, `std`, `exif`, `pad_value`, `pages` or an `on_error` of "
        "zeros"
    )
    if filter_desc == DEFAULT_FILTER_DESC:
        remedy = "Other pixel formats are left to FFmpeg's filters, which take none of these options."
        if pix_fmt == "gray16":
            remedy = "As ids, gray16 takes them: pass dtype='uint16'."
        refuse(ValueError, "pix_fmt", f"rgb24, bgr24, gray or index with {options}", pix_fmt, remedy)
    remedy = "Write it in FFmpeg's syntax instead, or omit `filter_desc`."
    refuse(ValueError, "filter_desc", f"left out with {options}", filter_desc, remedy)


def _served(resize: Resize, pix_fmt: str | None, filter_desc: str | None, *, ids: bool) -> Resize | None:
    """Return the resize that native code does by itself, or None if FFmpeg's filters are needed."""
    if ids:
        resize = resize._replace(pix_fmt=pix_fmt or "")
        check_unmixed(resize)
        return resize
    if filter_desc == DEFAULT_FILTER_DESC:
        return resize._replace(pix_fmt=pix_fmt) if pix_fmt in PIXEL_FORMATS else None
    return parse_served(filter_desc) if isinstance(filter_desc, str) else None


def _batch_shape(count: int, resize: Resize, array_format: ArrayFormat) -> tuple[int, ...] | None:
    """Return the shape of the whole batch; None if it depends on the images."""
    width, height = (center or side for center, side in zip(resize.center, resize.target, strict=True))
    if not (width and height):
        return None
    channels = PIXEL_FORMATS.get(resize.pix_fmt)
    if channels is None:
        return count, height, width
    return (count, channels, height, width) if array_format.layout == "NCHW" else (count, height, width, channels)

"""Batches of images that a GPU decodes and resizes."""

from __future__ import annotations

import functools
import io
import logging
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from spdl._check import check_choice
from spdl._locate import callers_line
from spdl.io._common.errors import LoadError, LoadFailure
from spdl.io._common.inputs import is_single, list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._device.cuda import CUDAConfig, check_config, default_config, kernel_folder, search_packages
from spdl.io._device.transfer import transfer_buffer
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.encode import EncodeConfig, encode_image
from spdl.io._image.image import demux_image
from spdl.io._image.options import ArrayFormat, make_load_options, resize_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.image import ImageInput
    from spdl.io._native import CUDABuffer, DecodeOptions, DemuxOptions, LoadOptions, RandomCrop


WORTHWHILE = 16
"""The number of JPEGs in a batch from which on the GPU decodes them unasked: fewer leave most of it idle."""

_WAVES = (64, 48)
_RESIZED = (40, 36)
_MEAN_DIFFERENCE = 1.0

_logger = logging.getLogger("spdl.io")


class GpuWork(TypedDict):
    """The images to load: the arguments that `native.load_batch` and `native.load_batch_on_gpu` share."""

    sources: tuple[Any, ...]
    request: LoadOptions
    boxes: list[tuple[int, int, int, int]]
    random: RandomCrop | None
    flips: list[bool]
    demux: DemuxOptions
    decode: DecodeOptions
    num_threads: int
    keep_failed: bool


def _plain_work(sources: tuple[Any, ...], request: LoadOptions) -> GpuWork:
    return {
        "sources": sources,
        "request": request,
        "boxes": [],
        "random": None,
        "flips": [],
        "demux": demux_options(None, None),
        "decode": decode_options(None),
        "num_threads": 1,
        "keep_failed": False,
    }


def load_on_gpu(
    *, least: int, device_config: CUDAConfig, **what: Unpack[GpuWork]
) -> tuple[CUDABuffer | None, list[tuple[int, str]]] | None:
    """Load a batch as `native.load_batch` does, or return None if the CPU should load it."""
    if _obstacle(device_config.device_index):
        return None
    return native.load_batch_on_gpu(
        least=least,
        device=device_config.device_index,
        stream=device_config.stream,
        allocator=device_config.allocator,
        kernel_folder=kernel_folder(),
        **what,
    )


def leaves_choice(demux_config: DemuxConfig | None, decode_config: DecodeConfig | None) -> bool:
    """Return whether the configurations name no decoder of the CPU's."""
    if demux_config is not None:
        return False
    return decode_config is None or not (
        decode_config.backend or decode_config.decoder or decode_config.decoder_options
    )


def check_can_decode(function: str, device_config: CUDAConfig) -> None:
    """Raise a RuntimeError that says why this device does not decode images, unless it does."""
    if reason := _obstacle(device_config.device_index):
        msg = f"{function} needs nvJPEG. {reason}. Without it, use load_image_batch(..., device_config=...)."
        raise RuntimeError(msg)


@functools.cache
def _obstacle(device: int) -> str:
    """Return what keeps a device from decoding images; "" if nothing does.

    A GPU that makes other pixels than the CPU is not used: a first small image shows it.
    """
    search_packages()
    try:
        native.prepare_gpu_images(device, kernel_folder())
        difference = _mean_difference(device)
    except RuntimeError as error:
        _logger.info("GPU %d does not decode images: %s", device, error)
        return str(error)
    if difference <= _MEAN_DIFFERENCE:
        return ""
    reason = (
        f"GPU {device} decodes a first image wrongly: the pixels are {difference:.1f} levels off on average. Please "
        "report this with the output of `print(spdl.io.utils.cuda_info())`"
    )
    _logger.warning("%s", reason)
    return reason


def _mean_difference(device: int) -> float:
    import numpy as np  # noqa: PLC0415 - only where there is a GPU.

    width, height = _WAVES
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(columns / (4 + channel) + rows / 7) for channel in range(3)]
    jpeg = io.BytesIO()
    encode_image(jpeg, (127 + 100 * np.stack(waves, -1)).astype(np.uint8), encode_config=EncodeConfig(format="jpeg"))
    what = _plain_work((jpeg.getvalue(),), make_load_options(resize_to(*_RESIZED, "stretch", "bicubic")))
    expected, _ = native.load_batch(jitter=None, storage=None, **what)
    loaded = native.load_batch_on_gpu(
        least=1, device=device, stream=2, allocator=None, kernel_folder=kernel_folder(), **what
    )
    if loaded is None or loaded[0] is None or expected is None:
        return float("inf")
    pixels = [np.asarray(buffer).astype(np.int16) for buffer in (expected, native.transfer_to_host(loaded[0]))]
    return float(np.abs(pixels[0] - pixels[1]).mean())


PlanarFormat: TypeAlias = Literal["rgb", "bgr"]

_FORMATS = {"rgb": "rgb24", "bgr": "bgr24"}
_ORIGINAL = -1
"""The value that means the image's own width or height in 0.8.0."""


def decode_image_nvjpeg(
    src: ImageInput | Sequence[ImageInput],
    *,
    device_config: CUDAConfig | None = None,
    scale_width: int = _ORIGINAL,
    scale_height: int = _ORIGINAL,
    pix_fmt: PlanarFormat = "rgb",
) -> CUDABuffer:
    """Decode one image or several on a GPU, and resize them.

    The chip's JPEG engine decodes if it has one, kernels otherwise, and the CPU decodes the images of the batch that
    nvJPEG does not: progressive, CMYK, of 12 bits, damaged, or of another format. The call returns when the work is
    done, and releases the GIL until then. `load_image_batch` does the same by itself, with more options.

    Args:
        src: A path, the encoded bytes, or an open binary file, or a sequence of these.
        device_config: The GPU and stream, from `cuda_config`. None is the GPU whose number is in the environment
            variable ``LOCAL_RANK``, or GPU 0.
        scale_width, scale_height: The size of the result in pixels; -1 keeps a side.
        pix_fmt: ``"rgb"`` or ``"bgr"``, the order of the planes.

    Returns:
        uint8 (3, H, W) for one image, and (B, 3, H, W) for a sequence, with its own memory. ``backends`` names the
        decoder of each image: ``"nvjpeg"`` or a decoder of the CPU.

    Raises:
        LoadError: If an image cannot be read or decoded. It is a RuntimeError.
        RuntimeError: If there is no GPU, or nvJPEG is not usable; the message says why. If CUDA reports an error.
        TypeError: If an argument has the wrong type.
        ValueError: If `src` is an empty sequence, an argument is out of range, or images that keep their size have
            several.

    Example:
        >>> decode_image_nvjpeg(photo, scale_width=224, scale_height=224).shape  # doctest: +SKIP
        (3, 224, 224)
    """
    alone = is_single(src) or hasattr(src, "__array__")
    config = default_config() if device_config is None else device_config
    width = None if scale_width == _ORIGINAL else scale_width
    height = None if scale_height == _ORIGINAL else scale_height
    srcs: Any = [src] if alone else src
    return _load("decode_image_nvjpeg", srcs, (width, height), config, pix_fmt, alone=alone)


def load_image_batch_nvjpeg(
    srcs: Iterable[ImageInput],
    *,
    device_config: CUDAConfig,
    width: int | None,
    height: int | None,
    pix_fmt: PlanarFormat = "rgb",
) -> CUDABuffer:
    """Decode images on a GPU into one array, stretched to one size; see `decode_image_nvjpeg`.

    Args:
        srcs: Paths, encoded bytes, or open binary files, in any mixture.
        device_config, pix_fmt: As for `decode_image_nvjpeg`.
        width, height: The size of the result in pixels; None keeps a side.

    Returns:
        uint8 (B, 3, H, W), with its own memory, and ``backends``.

    Raises:
        Exception: The errors of `decode_image_nvjpeg`.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> load_image_batch_nvjpeg([photo] * 8, device_config=config, width=224, height=224).shape  # doctest: +SKIP
        (8, 3, 224, 224)
    """
    return _load("load_image_batch_nvjpeg", srcs, (width, height), device_config, pix_fmt, alone=False)


def _load(
    function: str,
    srcs: Iterable[ImageInput],
    size: tuple[int | None, int | None],
    config: CUDAConfig,
    pix_fmt: PlanarFormat,
    *,
    alone: bool,
) -> CUDABuffer:
    check_choice("pix_fmt", pix_fmt, tuple(_FORMATS))
    check_config(config)
    resize_to(size[0], size[1], "stretch", "bicubic")
    given = list_inputs(srcs, function)
    check_can_decode(function, config)
    inputs, unread = resolve_all(given, files=True)
    width, height = _sides(inputs, size)
    resize = resize_to(width, height, "stretch", "bicubic", _FORMATS[pix_fmt])
    what = _plain_work(inputs, make_load_options(resize, ArrayFormat(layout="NCHW")))
    loaded = load_on_gpu(least=0, device_config=config, **what)
    # If nvJPEG refuses an image that looked well, our own decoder says which one it is, and what is wrong.
    buffer, reasons = native.load_batch(jitter=None, storage=None, **what) if loaded is None else loaded
    if reasons or buffer is None:
        failures = tuple(LoadFailure(index, given[index], unread.get(index, reason)) for index, reason in reasons)
        lines = [f"{len(failures)} of {len(given)} images could not be decoded"]
        lines += [f"  image {index}: {reason}" for index, _, reason in failures]
        raise LoadError("\n".join(lines), failures)
    result = buffer if isinstance(buffer, native.CUDABuffer) else transfer_buffer(buffer, device_config=config)
    return native.first_of(result) if alone else result


def _sides(inputs: Sequence[object], size: tuple[int | None, int | None]) -> tuple[int, int]:
    """Return the size of the result. If an image keeps a side, its header has it."""
    width, height = size
    if width is not None and height is not None:
        return width, height
    kept = set()
    for data in inputs:
        packets = demux_image(data)
        kept.add((width or packets.width, height or packets.height))
    if len(kept) != 1:
        got = f"got {sorted(kept)} ({callers_line()})"
        raise ValueError(f"the images of a batch must have one size, {got}. Give both width and height.")
    return kept.pop()

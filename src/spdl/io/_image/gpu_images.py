"""Batches of images that a GPU decodes and resizes."""

from __future__ import annotations

import functools
import io
import logging
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from spdl._files import cache_folder
from spdl.io._common.native import native
from spdl.io._device.cuda_info import search_packages
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.encode import EncodeConfig, encode_image
from spdl.io._image.options import make_load_options, resize_to

if TYPE_CHECKING:
    from spdl.io._device.cuda_config import CUDAConfig
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._native import CUDABuffer, DecodeOptions, DemuxOptions, LoadOptions, RandomCrop

WORTHWHILE = 16
"""The number of JPEGs in a batch from which on the GPU decodes them unasked: fewer leave most of it idle."""

_SIDES = (64, 48)
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
        kernel_folder=_kernel_folder(),
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


def _kernel_folder() -> str:
    return str(cache_folder() / "kernels")


@functools.cache
def _obstacle(device: int) -> str:
    """Return what keeps a device from decoding images; "" if nothing does.

    A GPU that makes other pixels than the CPU is not used: a first small image shows it.
    """
    search_packages()
    try:
        native.prepare_gpu_images(device, _kernel_folder())
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

    width, height = _SIDES
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(columns / (4 + channel) + rows / 7) for channel in range(3)]
    jpeg = io.BytesIO()
    encode_image(jpeg, (127 + 100 * np.stack(waves, -1)).astype(np.uint8), encode_config=EncodeConfig(format="jpeg"))
    what: GpuWork = {
        "sources": (jpeg.getvalue(),),
        "request": make_load_options(resize_to(*_RESIZED, "stretch", "bicubic")),
        "boxes": [],
        "random": None,
        "flips": [],
        "demux": demux_options(None, None),
        "decode": decode_options(None),
        "num_threads": 1,
        "keep_failed": False,
    }
    expected, _ = native.load_batch(jitter=None, storage=None, **what)
    loaded = native.load_batch_on_gpu(
        least=1, device=device, stream=2, allocator=None, kernel_folder=_kernel_folder(), **what
    )
    if loaded is None or loaded[0] is None or expected is None:
        return float("inf")
    pixels = [np.asarray(buffer).astype(np.int16) for buffer in (expected, native.transfer_to_host(loaded[0]))]
    return float(np.abs(pixels[0] - pixels[1]).mean())

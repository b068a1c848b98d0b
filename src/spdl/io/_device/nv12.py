"""Colours of frames that a GPU has decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_flag, check_instance, refuse
from spdl._files import cache_folder
from spdl.io._common.native import native
from spdl.io._device.cuda_config import CUDAConfig
from spdl.io._device.cuda_info import search_packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._native import CUDABuffer

_CONFIG = "a CUDAConfig, as `spdl.io.cuda_config` returns"
_MATRICES = {1: "BT.709", 4: "FCC", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020", 10: "BT.2020"}
"""The numbers of ITU-T H.273, and what they stand for."""


def nv12_to_rgb(
    buffers: CUDABuffer | Sequence[CUDABuffer],
    *,
    device_config: CUDAConfig,
    coeff: int = 1,
    sync: bool = False,
    full_range: bool = False,
) -> CUDABuffer:
    """Convert frames from NV12, as NVDEC makes them, to planes of red, green and blue.

    A kernel computes with 16 binary places; samples of chroma are repeated. The call returns when the work is done, and
    releases the GIL until then.

    Args:
        buffers: Frames of one size, uint8 (N, H * 3 / 2, W) or (H * 3 / 2, W), or a sequence of these, which are
            joined.
        device_config: The GPU that has the frames, and the stream, from `cuda_config`.
        coeff: The matrix of the colours, by its number in ITU-T H.273: 1 is BT.709, 5 and 6 are BT.601, 9 is BT.2020,
            4 is FCC's, 7 is SMPTE 240M's. `decode_packets_nvdec` takes the one that the video names.
        sync: Has no effect, since the call waits in any case.
        full_range: Whether luma goes from 0 to 255. Otherwise it goes from 16 to 235, as nearly all videos have it.

    Returns:
        uint8 (N, 3, H, W), with its own memory.

    Raises:
        RuntimeError: If CUDA reports an error, or the compiler of kernels is missing.
        TypeError: If an argument has the wrong type.
        ValueError: If no frames are given, they have several sizes or no such shape, or the matrix is not known.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> frames = decode_packets_nvdec(demux_video(clip), device_config=config, pix_fmt=None)  # doctest: +SKIP
        >>> nv12_to_rgb(frames, device_config=config).shape  # doctest: +SKIP
        (48, 3, 240, 320)
    """
    check_flag("sync", sync)
    return convert_frames_of(buffers, device_config, (coeff, check_flag("full_range", full_range)), blue_first=False)


def nv12_to_bgr(
    buffers: CUDABuffer | Sequence[CUDABuffer],
    *,
    device_config: CUDAConfig,
    coeff: int = 1,
    sync: bool = False,
    full_range: bool = False,
) -> CUDABuffer:
    """Convert frames from NV12 to planes of blue, green and red; see `nv12_to_rgb`.

    Args:
        buffers: Frames of one size, uint8 (N, H * 3 / 2, W) or (H * 3 / 2, W), or a sequence of these.
        device_config: The GPU that has the frames, and the stream, from `cuda_config`.
        coeff: The matrix of the colours, by its number in ITU-T H.273.
        sync: Has no effect.
        full_range: Whether luma goes from 0 to 255.

    Returns:
        uint8 (N, 3, H, W), with its own memory.

    Raises:
        Exception: The errors of `nv12_to_rgb`.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> frames = decode_packets_nvdec(demux_video(clip), device_config=config, pix_fmt=None)  # doctest: +SKIP
        >>> nv12_to_bgr(frames, device_config=config).shape  # doctest: +SKIP
        (48, 3, 240, 320)
    """
    check_flag("sync", sync)
    return convert_frames_of(buffers, device_config, (coeff, check_flag("full_range", full_range)), blue_first=True)


def convert_frames_of(
    buffers: CUDABuffer | Sequence[CUDABuffer],
    device_config: CUDAConfig,
    colors: tuple[int, bool],
    *,
    blue_first: bool,
    bits: int = 8,
) -> CUDABuffer:
    """Convert frames whose colours are coded by a matrix, in the full range of luma or not.

    Samples of more than 8 bits are the upper ones of 16, as P016 has them.
    """
    check_instance("device_config", device_config, CUDAConfig, _CONFIG)
    if colors[0] not in _MATRICES:
        known = ", ".join(f"{number} ({name})" for number, name in _MATRICES.items())
        refuse(ValueError, "coeff", f"one of {known}", colors[0])
    joined: list[Any] = list(buffers) if isinstance(buffers, (list, tuple)) else [buffers]
    if not joined:
        refuse(ValueError, "buffers", "at least one buffer of frames", buffers)
    for each in joined:
        check_instance("buffers", each, native.CUDABuffer, "a CUDABuffer of NV12 frames, or a sequence of them")
    search_packages()
    return native.convert_frames_to_planes(
        buffers=joined,
        colors=colors,
        bits=bits,
        blue_first=blue_first,
        device=device_config.device_index,
        stream=device_config.stream,
        allocator=device_config.allocator,
        kernel_folder=str(cache_folder() / "kernels"),
    )

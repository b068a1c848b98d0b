"""Single images: from one input to an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from spdl.io._device.transfer import check_device_config, transfer_buffer
from spdl.io._image.convert import convert_image_frames
from spdl.io._image.decode import decode_image_packets
from spdl.io._image.demux import demux_image
from spdl.io._image.filter_desc import DEFAULT_FILTER_DESC

if TYPE_CHECKING:
    from spdl.io._device.cuda_config import CUDAConfig
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.image_input import ImageInput
    from spdl.io._native import CPUBuffer, CUDABuffer


@overload
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    device_config: None = None,
    name: str | None = None,
) -> CPUBuffer: ...
@overload
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> CPUBuffer | CUDABuffer:
    """Load one image: `demux_image`, `decode_packets` and `convert_frames` in one.

    Args:
        src: A path, the encoded bytes, or an open binary file.
        demux_config: How FFmpeg reads; see `demux_config`.
        decode_config: How to decode; see `decode_config`.
        filter_desc: The filters in FFmpeg's syntax; see `decode_packets`. The default gives 8-bit RGB in the image's
            own size.
        device_config: The GPU to copy the image to after the CPU has decoded it; see `cuda_config` and
            `transfer_buffer`. None leaves it in main memory.
        name: The image's name in errors. The default is the path, or the number of bytes.

    Returns:
        The image, by default uint8 (H, W, 3), with memory of its own. With a `device_config` it is on the GPU, in a
        `CUDABuffer`. `convert_frames` describes the shapes of other formats.

    Raises:
        RuntimeError: If the image cannot be read or decoded, or CUDA reports an error.
        TypeError: If `src` is no input, or another argument has the wrong type.
        ValueError: If `filter_desc` holds a null character.

    Example:
        >>> load_image(photo).shape
        (375, 500, 3)
    """
    check_device_config(device_config)
    packets = demux_image(src, demux_config=demux_config, name=name)
    buffer = convert_image_frames(decode_image_packets(packets, filter_desc, decode_config), None)
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)

"""Single images: from one input to an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from spdl.io._device.transfer import check_device_config, transfer_buffer
from spdl.io._image.config import DecodeConfig, demux_options
from spdl.io._image.convert import convert_image_frames
from spdl.io._image.decode import decode_image_packets
from spdl.io._image.demux import demux_for
from spdl.io._image.filter_desc import DEFAULT_FILTER_DESC
from spdl.io._image.pages import Pages, load_pages

if TYPE_CHECKING:
    from spdl.io._device.cuda_config import CUDAConfig
    from spdl.io._image.config import DemuxConfig
    from spdl.io._image.image_input import ImageInput
    from spdl.io._native import CPUBuffer, CUDABuffer


@overload
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    pages: Pages | None = None,
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
    pages: Pages | None = None,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
def load_image(
    src: ImageInput,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    pages: Pages | None = None,
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
        pages: Which pages of a TIFF to load: the number of one, which gives an image, or a slice or a sequence of
            numbers, which gives all of these in one array. ``slice(None)`` stands for all pages. They are counted
            from 0 as `count_pages` does, negative numbers from the end. A file at a path is mapped, so that only what
            these pages need is read; if it is cut meanwhile, the process ends by SIGBUS. Each page as it is stored, and
            all together as they are loaded, may have the ``max_pixels`` of the `decode_config`. Several must have one
            size and pixel format, as they are stored or by `filter_desc`. libtiff decodes them: other formats are
            errors, and so are configurations that ask for FFmpeg. None loads the first picture, or, if that says that
            it is a smaller version, the one below it.
        device_config: The GPU to copy the image to after the CPU has decoded it; see `cuda_config` and
            `transfer_buffer`. None leaves it in main memory.
        name: The image's name in errors. The default is the path, or the number of bytes.

    Returns:
        The image, by default uint8 (H, W, 3), with memory of its own; of several pages (N, H, W, 3). With a
        `device_config` it is on the GPU, in a `CUDABuffer`. `convert_frames` describes the shapes of other formats.

    Raises:
        IndexError: If there is no page of a number.
        RuntimeError: If the image cannot be read or decoded, pages differ, or CUDA reports an error.
        TypeError: If `src` is no input, or another argument has the wrong type.
        ValueError: If `filter_desc` holds a null character, or `pages` holds no page.

    Example:
        >>> load_image(photo).shape
        (375, 500, 3)

        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> scans = [Image.new("L", (60, 40), level) for level in (0, 100, 200)]
        >>> scans[0].save(file, "TIFF", save_all=True, append_images=scans[1:])
        >>> load_image(file.getvalue(), pages=-1).shape
        (40, 60, 3)
        >>> load_image(file.getvalue(), pages=slice(None), filter_desc=None).shape
        (3, 40, 60, 1)
    """
    check_device_config(device_config)
    if pages is None:
        for_ffmpeg = isinstance(decode_config, DecodeConfig) and decode_config.backend == "ffmpeg"
        packets = demux_for(demux_options(demux_config, None, for_ffmpeg=for_ffmpeg), src, name)
        buffer = convert_image_frames(decode_image_packets(packets, filter_desc, decode_config), None)
    else:
        buffer = load_pages(
            src,
            pages,
            filter_desc=filter_desc,
            demux_config=demux_config,
            decode_config=decode_config,
            name=name,
        )
    return buffer if device_config is None else transfer_buffer(buffer, device_config=device_config)

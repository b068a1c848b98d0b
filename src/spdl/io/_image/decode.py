"""From a file to frames and an array, step by step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_instance
from spdl.io._common.inputs import resolve_media, url_of
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, DemuxConfig, check_ffmpeg_text, decode_options, demux_options
from spdl.io._image.options import make_load_options, parse_served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.io._common.errors import LoadFailure
    from spdl.io._native import CPUBuffer, DemuxOptions, ImageFrames, ImagePackets

ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path, the encoded bytes, or an open binary file.

Bytes are ``bytes``, ``bytearray``, ``memoryview``, a one-dimensional uint8 array or tensor in main memory: anything
with the buffer protocol or ``__array__``. They are read in place, so they must not be written to during the call.
"""


def describe(resolved: object, name: str | None) -> str:
    """Return how error messages call a resolved input: `name` if there is one, else its path or its size."""
    if name is None and isinstance(resolved, str):
        name = resolved
    if name is not None:
        # Names that are not UTF-8 hold surrogates, which no message can carry; a null character would end it.
        return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00") or "''"
    return f"image of {memoryview(resolved).nbytes} bytes"  # type: ignore[arg-type]


def describe_failed(sources: Sequence[object], failure: LoadFailure) -> str:
    """Return how messages call an input that could not be loaded.

    Args:
        sources: The inputs as native code got them.
        failure: The failure.
    """
    source = sources[failure.index]
    size = None if isinstance(source, str) else f"{memoryview(source).nbytes} bytes"  # type: ignore[arg-type]
    return describe(source, url_of(failure.source) or size)


def demux_image(
    src: ImageInput, *, demux_config: DemuxConfig | None = None, bsf: str | None = None, name: str | None = None
) -> ImagePackets:
    """Find the encoded image in a file or in bytes, without decoding it.

    A JPEG or PNG is not changed. In other formats, FFmpeg looks for the first picture. A file of no known format is an
    error that says what it seems to be.

    Args:
        src: A path or URL, the encoded bytes (kept and read in place: do not change them before the image is decoded),
            or an open binary file, which is read from its position to its end.
        demux_config: How FFmpeg reads; see `demux_config`. If it sets a format or an option, FFmpeg reads JPEG too.
        bsf: Bitstream filters to apply, in FFmpeg's syntax. FFmpeg then reads JPEG too.
        name: The image's name in errors. The default is the path, or the number of bytes.

    Returns:
        The packets, which `decode_packets` consumes.

    Raises:
        RuntimeError: If the input cannot be read, or holds no image. The message names it and the reason.
        TypeError: If `src` is not an input, or another argument has the wrong type.
        ValueError: If `bsf` holds a null character.

    Example:
        >>> packets = demux_image(photo)
        >>> packets.width, packets.height
        (500, 375)
    """
    return demux_for(demux_options(demux_config, bsf), src, name)


def demux_for(options: DemuxOptions, src: ImageInput, name: str | None) -> ImagePackets:
    """Do what `demux_image` does, with options as native code takes them."""
    if name is not None:
        check_instance("name", name, str, "a str or None")
    resolved, name = resolve_media(src, name, files=True)
    if isinstance(resolved, str):
        return native.demux_file(resolved, describe(resolved, name), options)
    return native.demux_bytes(resolved, describe(resolved, name), options, None)


def decode_image_packets(
    packets: ImagePackets, filter_desc: str | None, decode_config: DecodeConfig | None
) -> ImageFrames:
    """Return the decoded and filtered image; `decode_packets` describes the arguments."""
    options = decode_options(decode_config)
    if filter_desc is None:
        return native.decode_filtered(packets, "", options)
    check_ffmpeg_text("filter_desc", filter_desc)
    resize = None if decode_config is not None and decode_config.backend == "ffmpeg" else parse_served(filter_desc)
    if resize is None:
        return native.decode_filtered(packets, filter_desc, options)
    return native.decode_resized(packets, make_load_options(resize), options)


def convert_image_frames(frames: ImageFrames | list[ImageFrames], storage: Any) -> CPUBuffer:
    """Return images as one array; `convert_frames` describes the arguments."""
    if isinstance(frames, native.ImageFrames):
        return native.convert_one(frames, storage)
    return native.convert_many(frames, storage)

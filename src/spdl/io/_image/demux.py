"""Demuxing: finding the encoded image in a file or in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_instance
from spdl.io._common.inputs import resolve_media
from spdl.io._common.native import native
from spdl.io._image.config import DemuxConfig, demux_options
from spdl.io._image.image_input import ImageInput, describe

if TYPE_CHECKING:
    from spdl.io._native import DemuxOptions, ImagePackets


def demux_image(
    src: ImageInput, *, demux_config: DemuxConfig | None = None, bsf: str | None = None, name: str | None = None
) -> ImagePackets:
    """Find the encoded image in a file or in bytes, without decoding it.

    A JPEG or PNG is kept as it is. In other formats, FFmpeg looks for the first picture. A file of no known format is
    an error that says what it seems to be.

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
        TypeError: If `src` is no input, or another argument has the wrong type.
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

"""Decoding of demuxed images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, decode_options
from spdl.io._image.ffmpeg_text import check_ffmpeg_text
from spdl.io._image.load_options import make_load_options
from spdl.io._image.resize import parse_served

if TYPE_CHECKING:
    from spdl.io._native import ImageFrames, ImagePackets


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

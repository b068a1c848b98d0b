"""Decoding of demuxed images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_instance, check_int, refuse
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, decode_options
from spdl.io._image.ffmpeg_text import check_ffmpeg_text
from spdl.io._image.filter_desc import DEFAULT_FILTER_DESC
from spdl.io._image.load_options import make_load_options
from spdl.io._image.resize import parse_served

if TYPE_CHECKING:
    from spdl.io._native import ImageFrames, ImagePackets

_NUM_FRAMES = "an int: -1 (all) or at least 1"


def decode_packets(
    packets: ImagePackets,
    filter_desc: str | None = DEFAULT_FILTER_DESC,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> ImageFrames:
    """Decode an image and run it through filters.

    Some descriptions are served without FFmpeg's filters: those that `get_video_filter_desc` writes for scaling
    (padded, cropped or stretched), a crop, ``hflip`` and a conversion to rgb24, bgr24 or gray. libjpeg-turbo then
    decodes JPEG and the image is resized while it is decoded, with the results of Pillow's antialiased resize. FFmpeg
    decodes other formats, which are resized in the same way; alpha is dropped, and 16-bit samples keep their upper
    half. All other descriptions run in FFmpeg's filter graph, and so do these with ``decode_config(backend="ffmpeg")``.

    A truncated JPEG is an error, whichever library decodes it, and so is one with a marker that has no place among or
    behind its pixels. Damage that Pillow passes over gives Pillow's picture; where FFmpeg decodes, it is an error, too,
    if FFmpeg or libjpeg-turbo notices it. The orientation in a photo's EXIF data is not applied.

    Args:
        packets: The result of `demux_image`. The packets are consumed, even if decoding fails: to decode them twice,
            decode ``packets.clone()``.
        filter_desc: The filters in FFmpeg's syntax; `get_video_filter_desc` writes them. The default gives 8-bit RGB in
            the image's own size. None keeps the stored pixel format.
        decode_config: How to decode; see `decode_config`.
        num_frames: Stop after this many frames. An image has one; -1 is all.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        RuntimeError: If the image cannot be decoded, or the filters cannot be applied. The message names the image and
            quotes the decoder.
        TypeError: If the packets were consumed before, or an argument has the wrong type.
        ValueError: If `num_frames` is 0 or below -1, or `filter_desc` holds a null character.

    Example:
        >>> desc = get_video_filter_desc(scale_width=224, scale_height=224)
        >>> frames = decode_packets(demux_image(photo), filter_desc=desc)
        >>> frames.width, frames.height, frames.pix_fmt
        (224, 224, 'rgb24')
    """
    if num_frames != -1 and check_int("num_frames", num_frames, least=-1, accepted=_NUM_FRAMES) == 0:
        refuse(ValueError, "num_frames", _NUM_FRAMES, num_frames)
    check_instance("packets", packets, native.ImagePackets, "ImagePackets, as `demux_image` returns")
    options = decode_options(decode_config)
    if filter_desc is None:
        return native.decode_filtered(packets, "", options)
    check_ffmpeg_text("filter_desc", filter_desc)
    resize = None if decode_config is not None and decode_config.backend == "ffmpeg" else parse_served(filter_desc)
    if resize is None:
        return native.decode_filtered(packets, filter_desc, options)
    return native.decode_resized(packets, make_load_options(resize), options)

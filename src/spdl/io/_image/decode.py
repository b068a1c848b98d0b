"""Decoding what was demuxed."""

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

    Descriptions as `get_video_filter_desc` writes them, of a scaling (padded, cropped or stretched), a crop, ``hflip``
    and a conversion to rgb24, bgr24 or gray, are served without FFmpeg's filters: JPEG is decoded by libjpeg-turbo and
    resized while it is decoded, with the results of Pillow's antialiased resize; whatever else is decoded by FFmpeg and
    resized in the same way; alpha is then dropped, and of samples of 16 bits the upper half is kept. Any other
    description runs in FFmpeg's filter graph, and so do all if ``decode_config(backend="ffmpeg")`` asks for it. A
    truncated JPEG is an error; where its data is damaged but complete, libjpeg goes on, as it does in Pillow. The
    orientation that a photo's EXIF data names is not applied.

    Args:
        packets: What `demux_image` returned. They are consumed, also when decoding fails: to decode them twice, decode
            ``packets.clone()``.
        filter_desc: The filters in FFmpeg's syntax; `get_video_filter_desc` writes them. The default gives 8-bit RGB in
            the image's own size. None keeps the stored pixel format.
        decode_config: How it is to be decoded; see `decode_config`.
        num_frames: Stop after this many frames. An image has one; -1 is all.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        RuntimeError: If the image cannot be decoded, or the filters cannot be applied: the message names the image and
            holds the decoder's own words.
        TypeError: If the packets were consumed before, or an argument is of another type.
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

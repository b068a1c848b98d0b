"""Decoding of packets of every medium."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from spdl._check import check_instance, check_int, refuse
from spdl.io._av.default_filter import DEFAULT, FilterDesc, filters_of
from spdl.io._common.native import native
from spdl.io._image.config import DecodeConfig, decode_options
from spdl.io._image.decode import decode_image_packets
from spdl.io._image.filter_desc import DEFAULT_FILTER_DESC

if TYPE_CHECKING:
    from spdl.io._native import AudioFrames, AudioPackets, ImageFrames, ImagePackets, VideoFrames, VideoPackets

_NUM_FRAMES = "an int: -1 (all) or at least 1"


@overload
def decode_packets(
    packets: ImagePackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> ImageFrames: ...
@overload
def decode_packets(
    packets: AudioPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> AudioFrames: ...
@overload
def decode_packets(
    packets: VideoPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> VideoFrames: ...
def decode_packets(
    packets: ImagePackets | AudioPackets | VideoPackets,
    filter_desc: FilterDesc = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> ImageFrames | AudioFrames | VideoFrames:
    """Decode an image, sound or video, and run it through filters.

    Images: some descriptions are served without FFmpeg's filters: those that `get_video_filter_desc` writes for scaling
    (padded, cropped or stretched), a crop, ``hflip`` and a conversion to rgb24, bgr24 or gray, in any of FFmpeg's ways
    to write them (``scale=224:224,format=rgb24``). libjpeg-turbo then
    decodes JPEG and the image is resized while it is decoded, with the results of Pillow's antialiased resize. FFmpeg
    decodes other formats, which are resized in the same way; alpha is dropped, and 16-bit samples keep their upper
    half. All other descriptions run in FFmpeg's filter graph, and so do these with ``decode_config(backend="ffmpeg")``.

    A truncated JPEG is an error, whichever library decodes it, and so is one with a misplaced marker among or after its
    pixels. Damage that Pillow ignores gives Pillow's picture; when FFmpeg decodes, it is an error, too, if FFmpeg or
    libjpeg-turbo notices it. The orientation in a photo's EXIF data is not applied.

    Audio and video: frames outside of the window of the packets are dropped, and sound is cut to the sample, before the
    filters see them. A damaged frame is an error, unless the `decode_config` has the option ``err_detect`` set to
    ``ignore_err``. If the size, the pixel format or the sample format changes in mid-stream, the filters begin again,
    as in the ffmpeg command: filters that scale or convert then give frames of one form, and `convert_frames` refuses
    others.

    Args:
        packets: The result of `demux_image`, `demux_audio` or `demux_video`. The packets are consumed, even if decoding
            fails: to decode them twice, decode ``packets.clone()``.
        filter_desc: The filters in FFmpeg's syntax; `get_video_filter_desc` and `get_audio_filter_desc` write them. The
            default gives 8-bit RGB in the picture's own size, and 32-bit floats with a plane for each channel. None
            keeps what is stored.
        decode_config: How to decode; see `decode_config`. The decoder runs in the calling thread, unless the
            configuration has the option ``threads``.
        num_frames: Stop after this many frames: pictures, or the pieces in which sound leaves the decoder and the
            filters. -1 is all.

    Returns:
        The frames, which `convert_frames` consumes.

    Raises:
        RuntimeError: If the packets cannot be decoded, or the filters cannot be applied. The message names the file and
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
    if isinstance(packets, native.ImagePackets):
        return decode_image_packets(
            packets, DEFAULT_FILTER_DESC if filter_desc is DEFAULT else filter_desc, decode_config
        )
    check_instance(
        "packets",
        packets,
        (native.AudioPackets, native.VideoPackets),
        "packets, as `demux_image`, `demux_audio` or `demux_video` returns",
    )
    filters = filters_of(filter_desc, audio=isinstance(packets, native.AudioPackets))
    return native.decode_av(packets, filters, decode_options(decode_config), num_frames)

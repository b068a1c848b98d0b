"""Videos that NVDEC decodes, and the colours of their frames, by the names of 0.8.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._check import check_choice, check_flag, check_instance, check_int, refuse
from spdl.io._av.demuxer import Demuxer
from spdl.io._common.native import native
from spdl.io._device.cuda import CUDAConfig, check_config, kernel_folder, search_packages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spdl.io._image.image import ImageInput
    from spdl.io._native import CUDABuffer, GpuVideoDecoder, VideoCodec, VideoPackets


GpuFormat: TypeAlias = Literal["rgb", "bgr"]

_ORIGINAL = -1
"""The value that means the video's own width or height in 0.8.0."""
_LONGEST = 16384
_PACKETS = 32
"""How many packets are demuxed at a time: the decoder never waits for more than these."""


class NvDecDecoder:
    """A decoder of videos on a GPU, from `nvdec_decoder`. One video after the other.

    The chip's video engines decode; crop and scale cost nothing there. Frames come as NV12: below the H rows of luma
    lie H / 2 rows of chroma, blue and red in turns. `nv12_to_rgb` converts them. Samples have 8 bits; the chip rounds
    samples that have more. `decode_packets_nvdec` and `VideoReader` keep them until they become RGB.

    Frames come in the order in which they are shown, as arrays with their own memory, and are there when they are
    returned. Any number of threads may use a decoder, one after the other; several decoders work at once.

    Example:
        >>> decoder = nvdec_decoder(cuda_config(0), demux_video(clip).codec)  # doctest: +SKIP
        >>> decoder.decode_packets(demux_video(clip)).shape  # doctest: +SKIP
        (48, 360, 320)
        >>> decoder.init_buffer(16)  # doctest: +SKIP
        >>> arrays = [*decoder.streaming_decode_packets(demux_video(clip)), *decoder.flush()]  # doctest: +SKIP
        >>> [len(frames) for frames in arrays]  # doctest: +SKIP
        [16, 16, 16]
    """

    def __init__(self) -> None:
        """Make a decoder that `init_decoder` must prepare before it is used."""
        self._decoder: GpuVideoDecoder | None = None
        self._num_frames = _PACKETS

    def init_decoder(
        self,
        device_config: CUDAConfig,
        codec: VideoCodec,
        *,
        crop_left: int = 0,
        crop_top: int = 0,
        crop_right: int = 0,
        crop_bottom: int = 0,
        scale_width: int = _ORIGINAL,
        scale_height: int = _ORIGINAL,
        use_cache: bool = True,
    ) -> None:
        """Prepare for a video. The decoder's data for an earlier video is gone.

        Args:
            device_config: The GPU and stream, from `cuda_config`.
            codec: The codec of the packets, their attribute ``codec``.
            crop_left, crop_top, crop_right, crop_bottom: The pixels to cut off at each side, before scaling.
            scale_width, scale_height: The size of the frames in pixels, even; -1 keeps a side.
            use_cache: Whether to take a decoder that an earlier video on this GPU has left, and leave it for a later
                one. Four are kept.

        Raises:
            RuntimeError: If NVDEC is not usable, or decodes no such codec; the message says why.
            TypeError, ValueError: If an argument is wrong.
        """
        self._prepare(
            device_config,
            codec,
            {"left": crop_left, "top": crop_top, "right": crop_right, "bottom": crop_bottom},
            (scale_width, scale_height),
            use_cache=use_cache,
            deep=False,
        )

    def init_buffer(self, num_frames: int) -> None:
        """Set how many frames the arrays of `streaming_decode_packets` have.

        Args:
            num_frames: The number of frames, at least 1.

        Raises:
            TypeError, ValueError: If it is not an int of at least 1.
        """
        self._num_frames = check_int("num_frames", num_frames, least=1)
        if self._decoder is not None:
            self._decoder.set_chunk(self._num_frames)

    def decode_packets(self, packets: VideoPackets) -> CUDABuffer:
        """Decode a whole video, or a window of one.

        Args:
            packets: The packets, which are consumed.

        Returns:
            All frames within the packets' window, uint8 (N, H * 3 / 2, W).

        Raises:
            RuntimeError: If nothing can be decoded, or CUDA reports an error.
            TypeError: If these are not packets of a video, or they were consumed.
        """
        frames = self._ready().decode_all(_checked(packets))
        self._ready().set_chunk(self._num_frames)
        return frames

    def streaming_decode_packets(self, packets: VideoPackets) -> Iterator[CUDABuffer]:
        """Decode more packets of a video.

        Args:
            packets: The next packets, which are consumed.

        Yields:
            Arrays of as many frames as `init_buffer` has set, 32 otherwise. The decoder keeps the frames that do not
            fill one, and those that may still change places.

        Raises:
            RuntimeError: If CUDA reports an error.
            TypeError: If these are not packets of a video, or they were consumed.
        """
        yield from self._ready().decode(_checked(packets))

    def flush(self) -> Iterator[CUDABuffer]:
        """Finish the video, after which another one of the same codec may begin.

        Yields:
            The rest of the frames. The last array may have fewer.

        Raises:
            RuntimeError: If CUDA reports an error.
        """
        yield from self._ready().flush()

    def _prepare(
        self,
        device_config: CUDAConfig,
        codec: VideoCodec,
        crops: dict[str, int],
        scale: tuple[int, int],
        *,
        use_cache: bool,
        deep: bool,
    ) -> None:
        """Do what `init_decoder` says. If `deep`, samples of more than 8 bits stay whole, in frames of uint16."""
        check_config(device_config)
        check_instance("codec", codec, native.VideoCodec, "a VideoCodec, such as `packets.codec`")
        crop = [check_int(f"crop_{side}", size, least=0, most=_LONGEST) for side, size in crops.items()]
        self._decoder = None
        self._decoder = native.GpuVideoDecoder(
            codec=codec,
            crop=(crop[0], crop[1], crop[2], crop[3]),
            scale=(_side("scale_width", scale[0]), _side("scale_height", scale[1])),
            device=device_config.device_index,
            stream=device_config.stream,
            allocator=device_config.allocator,
            reuse=check_flag("use_cache", use_cache),
            deep=deep,
        )
        self._decoder.set_chunk(self._num_frames)

    def _ready(self) -> GpuVideoDecoder:
        if self._decoder is None:
            raise RuntimeError("this NvDecDecoder is not prepared: call init_decoder(), or make it by nvdec_decoder()")
        return self._decoder


def nvdec_decoder(
    cuda_config: CUDAConfig,
    codec: VideoCodec,
    *,
    use_cache: bool = True,
    crop_left: int = 0,
    crop_top: int = 0,
    crop_right: int = 0,
    crop_bottom: int = 0,
    scale_width: int = _ORIGINAL,
    scale_height: int = _ORIGINAL,
) -> NvDecDecoder:
    """Make a decoder of a video on a GPU, prepared by `NvDecDecoder.init_decoder`.

    Args:
        cuda_config: The GPU and stream, from `cuda_config`.
        codec: The codec of the packets, their attribute ``codec``.
        use_cache: Whether to take a decoder that an earlier video on this GPU has left, and leave it for a later one.
        crop_left, crop_top, crop_right, crop_bottom: The pixels to cut off at each side, before scaling.
        scale_width, scale_height: The size of the frames in pixels, even; -1 keeps a side.

    Returns:
        The decoder, prepared.

    Raises:
        Exception: The errors of `NvDecDecoder.init_decoder`.

    Example:
        >>> decoder = nvdec_decoder(cuda_config(0), demux_video(clip).codec, scale_width=224)  # doctest: +SKIP
    """
    decoder = NvDecDecoder()
    decoder.init_decoder(
        cuda_config,
        codec,
        crop_left=crop_left,
        crop_top=crop_top,
        crop_right=crop_right,
        crop_bottom=crop_bottom,
        scale_width=scale_width,
        scale_height=scale_height,
        use_cache=use_cache,
    )
    return decoder


def decode_packets_nvdec(
    packets: VideoPackets,
    *,
    device_config: CUDAConfig,
    pix_fmt: GpuFormat | None = "rgb",
    crop_left: int = 0,
    crop_top: int = 0,
    crop_right: int = 0,
    crop_bottom: int = 0,
    scale_width: int = _ORIGINAL,
    scale_height: int = _ORIGINAL,
) -> CUDABuffer:
    """Decode a whole video, or a window of one, on a GPU.

    Args:
        packets: The packets from `demux_video`, which are consumed.
        device_config: The GPU and stream, from `cuda_config`.
        pix_fmt: ``"rgb"`` or ``"bgr"``, with the matrix and range that the video names, and BT.601 for one that names
            none. None leaves the frames in NV12, of 8 bits whatever the video has.
        crop_left, crop_top, crop_right, crop_bottom: The pixels to cut off at each side, before scaling.
        scale_width, scale_height: The size of the frames in pixels, even; -1 keeps a side.

    Returns:
        uint8 (N, 3, H, W), or (N, H * 3 / 2, W) in NV12, with its own memory. Odd sides lose their last line.

    Raises:
        RuntimeError: If NVDEC is not usable, does not decode the video, or CUDA reports an error.
        TypeError, ValueError: If an argument has the wrong type, or is out of range.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> decode_packets_nvdec(demux_video(clip), device_config=config, scale_width=64).shape  # doctest: +SKIP
        (48, 3, 240, 64)
    """
    if pix_fmt is not None:
        check_choice("pix_fmt", pix_fmt, ("rgb", "bgr", None))
    decoder = NvDecDecoder()
    decoder._prepare(  # noqa: SLF001
        device_config,
        _checked(packets).codec,
        {"left": crop_left, "top": crop_top, "right": crop_right, "bottom": crop_bottom},
        (scale_width, scale_height),
        use_cache=True,
        deep=pix_fmt is not None,
    )
    frames = decoder.decode_packets(packets)
    if pix_fmt is None:
        return frames
    matrix, full_range, bits = decoder._ready().form()  # noqa: SLF001
    return convert_frames_of(frames, device_config, (matrix, full_range), blue_first=pix_fmt == "bgr", bits=bits)


def streaming_load_video_nvdec(
    src: ImageInput,
    device_config: CUDAConfig,
    *,
    num_frames: int,
    post_processing_params: Mapping[str, int] | None = None,
    use_cache: bool = True,
) -> Iterator[CUDABuffer]:
    """Read a video and decode it on a GPU, piece by piece.

    Args:
        src: A path, the encoded bytes, or an open binary file.
        device_config: The GPU and stream, from `cuda_config`.
        num_frames: How many frames each array has, at least 1.
        post_processing_params: The crop and scale, as `nvdec_decoder` takes them, such as ``{"scale_width": 224}``.
        use_cache: Whether to reuse decoders; see `nvdec_decoder`.

    Returns:
        An iterator over arrays of frames in NV12, each with its own memory: uint8 (num_frames, rows, width) with
        rows of H * 3 / 2. The last may have fewer frames.

    Raises:
        RuntimeError: If the file cannot be read, NVDEC is not usable or does not decode the video, or CUDA reports an
            error.
        TypeError, ValueError: If an argument has the wrong type, or is out of range.

    Example:
        >>> config = cuda_config(device_index=0)  # doctest: +SKIP
        >>> [len(frames) for frames in streaming_load_video_nvdec(clip, config, num_frames=20)]  # doctest: +SKIP
        [20, 20, 8]
    """
    more: Mapping[str, Any] = post_processing_params or {}
    num_frames = check_int("num_frames", num_frames, least=1)
    with Demuxer(src) as demuxer:
        decoder = nvdec_decoder(device_config, demuxer.video_codec, use_cache=use_cache, **more)
        decoder.init_buffer(num_frames)
        packets: Any
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=_PACKETS):
            yield from decoder.streaming_decode_packets(packets)
        yield from decoder.flush()


def _side(name: str, side: int) -> int:
    if side == _ORIGINAL:
        return 0
    even = check_int(name, side, least=2, most=_LONGEST, accepted="-1, or an even int from 2 to 16384")
    if even % 2:
        raise ValueError(f"`{name}` must be even, as NV12 has a sample of chroma for two pixels, got {side}")
    return even


def _checked(packets: VideoPackets) -> VideoPackets:
    check_instance("packets", packets, native.VideoPackets, "VideoPackets, as `demux_video` returns")
    return packets


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
    """Convert frames from NV12 to planes of blue, green and red.

    Args:
        buffers, device_config, coeff, sync, full_range: As for `nv12_to_rgb`.

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
    check_config(device_config)
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
        kernel_folder=kernel_folder(),
    )

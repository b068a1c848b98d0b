"""Batches of sound, and of clips of videos: from many inputs to one array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_flag, check_int, check_number, refuse
from spdl.io._av.filters import MAX_CHANNELS, MAX_RATE, filters_of, get_audio_filter_desc
from spdl.io._av.time_window import parse_windows
from spdl.io._common.errors import LoadFailure, settle
from spdl.io._common.inputs import MAX_THREADS, list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.image import describe_failed
from spdl.io._image.options import (
    PIXEL_FORMATS,
    Dtype,
    Interpolation,
    Layout,
    Mode,
    make_array_format,
    make_load_options,
    resize_to,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.io._av.time_window import Seconds
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.image import ImageInput
    from spdl.io._native import CPUBuffer


AudioOnError: TypeAlias = Literal["raise", "skip", "zero"]

_ON_ERROR = get_args(AudioOnError)
_MAX_FRAMES = 1 << 40


class AudioBatch(NamedTuple):
    """The sounds that `load_audio_batch` loaded.

    Example:
        >>> batch = load_audio_batch([sound, sound], sample_rate=8000, timestamps=[(0, 0.5), (0.25, 0.5)])
        >>> batch.samples.shape, batch.lengths
        ((2, 1, 4000), [4000, 2000])
    """

    samples: CPUBuffer
    """The sounds, float32 (B, C, N). After its end, a sound is 0. ``samples.failures`` lists failed inputs."""
    lengths: list[int]
    """The number of samples of each sound, without the zeros after it."""


def load_audio_batch(
    srcs: Iterable[ImageInput],
    *,
    sample_rate: int | None,
    num_channels: int | None = 1,
    num_frames: int | None = None,
    timestamps: Sequence[Sequence[Seconds] | None] | None = None,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    storage: Storage | None = None,
    num_threads: int = 1,
    on_error: AudioOnError = "raise",
) -> AudioBatch:
    """Load the main audio streams of files into one array, at one rate and with the same channels.

    This is one native call. It reads, decodes, mixes and resamples the sounds without the GIL and without a Python
    object per sound, with the samples that `load_audio` gives with `get_audio_filter_desc`. Shorter sounds are
    continued with silence. To use several cores, call it from several threads, or set `num_threads`.

    Args:
        srcs: Paths, the bytes of files, or open binary files, in any mixture.
        sample_rate: The samples per second to resample to. None keeps the rate of each file.
        num_channels: The number of channels to mix to, never beyond full scale: two become their mean. None keeps the
            stored ones, which must then be the same in all.
        num_frames: The samples of each channel: longer sounds are cut there, and are decoded no further. None is the
            length of the longest.
        timestamps: For each input the moments ``(start, end)`` in seconds, as for `demux_audio`, or None for all of it.
            None is everything of all inputs.
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
        storage: The memory for the array: a `cpu_storage`, or a writable array that the caller owns, flat if
            `num_frames` or `num_channels` is None. None allocates new memory.
        num_threads: How many threads share the sounds, including the calling one.
        on_error: The treatment of sounds that fail. ``"raise"`` raises an error that names them, ``"skip"`` leaves them
            out and keeps the order of the others, ``"zero"`` puts silence of length 0 in their place, also if all
            sounds fail and both `num_frames` and `num_channels` are given. The result's ``samples.failures`` lists them
            and the reasons.

    Returns:
        The samples, float32 (B, C, N), and the length of each sound. That of a few samples is 0 if resampling leaves
        none of them.

    Raises:
        LoadError: If a sound fails and `on_error` is ``"raise"``. If all fail, and would be left out, or replaced by
            silence without `num_frames` or `num_channels`. It is a RuntimeError.
        RuntimeError: If the batch does not fit into the machine's memory or into `storage`.
        Exception: If the ``read()`` of an open file raises, whatever `on_error` is.
        TypeError: If an argument has the wrong type, or one of `srcs` is not an input: the message has its index.
        ValueError: If `srcs` is empty, there are not as many `timestamps`, a window is empty, or another argument is
            out of range.

    Example:
        >>> batch = load_audio_batch([sound, b"no sound"], sample_rate=16000, num_frames=20_000, on_error="zero")
        >>> batch.samples.shape, batch.lengths, [failure.index for failure in batch.samples.failures]
        ((2, 1, 20000), [16000, 0], [1])
    """
    check_choice("on_error", on_error, _ON_ERROR)
    if sample_rate is not None:
        check_int("sample_rate", sample_rate, least=1, most=MAX_RATE)
    if num_channels is not None:
        check_int("num_channels", num_channels, least=1, most=MAX_CHANNELS)
    if num_frames is not None:
        check_int("num_frames", num_frames, least=1, most=_MAX_FRAMES)
    threads = check_int("num_threads", num_threads, least=1, most=MAX_THREADS)
    given = list_inputs(srcs, "load_audio_batch")
    windows = parse_windows(timestamps, len(given))
    inputs, unread = resolve_all(given, files=True)
    known = num_channels is not None and num_frames is not None
    buffer, lengths, reasons = native.load_sounds(
        sources=inputs,
        windows=windows,
        filters=filters_of(get_audio_filter_desc(sample_rate=sample_rate, num_channels=num_channels), audio=True),
        num_frames=num_frames,
        num_channels=num_channels,
        demux=demux_options(demux_config, None),
        decode=decode_options(decode_config),
        num_threads=threads,
        keep_failed=on_error == "zero",
        storage=resolve_storage(
            storage, (len(given), num_channels or 0, num_frames or 0) if known else None, "float32"
        ),
    )
    failures = tuple([LoadFailure(index, given[index], unread.get(index, reason)) for index, reason in reasons])
    unknown = "The size of their silence is unknown: give both num_frames and num_channels."
    samples = settle(
        buffer,
        failures,
        on_error,
        f"{len(inputs)} sounds",
        partial(describe_failed, inputs),
        unknown=unknown,
        listed="samples.failures",
    )
    return AudioBatch(samples, lengths)


Sampling: TypeAlias = Literal["consecutive", "spread"]
VideoOnError: TypeAlias = Literal["raise", "skip", "zero"]


class VideoBatch(NamedTuple):
    """The clips of several videos; made by `load_video_batch`.

    Example:
        >>> batch = load_video_batch([clip, clip], num_frames=30, width=32, height=32)
        >>> batch.clips.shape, batch.lengths, batch.mask[0].sum()
        ((2, 30, 32, 32, 3), [25, 25], np.int64(25))
    """

    clips: CPUBuffer
    """The pictures, (B, N, H, W, C) or, for the layout NCHW, (B, N, C, H, W). Places after a short clip hold zeros."""
    lengths: list[int]
    """How many of the N pictures of each clip are its own."""

    @property
    def mask(self) -> Any:
        """A new numpy bool array (B, N), True for pictures and False for zeros."""
        import numpy as np  # noqa: PLC0415 - importing spdl.io loads no numpy.

        return np.arange(self.clips.shape[1]) < np.array(self.lengths)[:, None]


def load_video_batch(
    srcs: Iterable[ImageInput],
    *,
    num_frames: int,
    width: int,
    height: int,
    timestamps: Sequence[Sequence[Seconds] | None] | None = None,
    sampling: Sampling = "consecutive",
    fps: float | None = None,
    step: int = 1,
    mode: Mode = "pad",
    interpolation: Interpolation = "bicubic",
    pix_fmt: str = "rgb24",
    layout: Layout = "NHWC",
    dtype: Dtype = "uint8",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    exact: bool = False,
    rotate: bool = True,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    num_threads: int = 1,
    on_error: VideoOnError = "raise",
    storage: Storage | None = None,
) -> VideoBatch:
    """Load a clip of each of many videos into one array, resized to one size.

    This is one native call. It opens, decodes, resizes and normalises each video straight into its place, without the
    GIL. To use several cores, call it from several threads, or set `num_threads`. For several clips of one video, a
    `VideoReader` opens it only once.

    Args:
        srcs: The videos: paths, or the bytes of files, which are read in place.
        num_frames: The most frames of a clip, which is the array's second side. Shorter clips are continued with zeros.
        width, height: The size of the pictures in pixels.
        timestamps: A window ``(start, end)`` in seconds for each video, or None for the whole of it. None is the whole
            of each.
        sampling: ``"consecutive"`` takes frames from the start of the window on; ``"spread"`` takes frames at equal
            distances all over the window.
        fps: The frames per second to take, for ``"consecutive"``: for each moment the frame that is on the screen,
            which comes again while it stays there. The first moment is the start of the window, or the first frame if
            that is later; the frame on the screen then may have appeared before. The last frame stays as long as the
            container says, at least as long as the median frame. None takes the frames that appear within the window.
        step: The distance from one frame to the next, for ``"consecutive"`` without `fps`.
        mode, interpolation, pix_fmt, layout, dtype, mean, std, exact, rotate: As for `VideoReader`.
        demux_config, decode_config: How FFmpeg reads, and how to decode; see `demux_config` and `decode_config`.
        num_threads: How many threads work at once, each on its own video.
        on_error: The treatment of videos that cannot be loaded: ``"raise"`` raises, ``"skip"`` leaves them out of the
            batch, ``"zero"`` keeps their places, with zeros and a length of 0, also if none can be loaded.
            ``clips.failures`` lists them.
        storage: The memory for the array: a `cpu_storage`, or a writable array. None allocates new memory.

    Returns:
        The clips, with their own memory or the storage's, and their lengths.

    Raises:
        LoadError: If a video cannot be loaded and `on_error` is ``"raise"``, or if none can and it is ``"skip"``. It is
            a RuntimeError; its message and its ``failures`` name the videos and the reasons.
        RuntimeError: If the storage is too small.
        TypeError: If an argument has the wrong type, or one of `srcs` is not an input.
        ValueError: If `srcs` is empty, or another argument is out of range.

    Example:
        >>> batch = load_video_batch([clip, clip], num_frames=8, width=32, height=32, sampling="spread")
        >>> batch.clips.shape, batch.lengths
        ((2, 8, 32, 32, 3), [8, 8])
    """
    check_choice("on_error", on_error, get_args(VideoOnError))
    check_choice("sampling", sampling, get_args(Sampling))
    check_choice("pix_fmt", pix_fmt, tuple(PIXEL_FORMATS))
    count = check_int("num_frames", num_frames, least=1)
    size = (check_int("width", width, least=1), check_int("height", height, least=1))
    rate = 0.0 if fps is None else check_number("fps", fps, "a number above 0, or None")
    if fps is not None and not 0 < rate < float("inf"):
        refuse(ValueError, "fps", "a number above 0, or None", fps)
    given = list_inputs(srcs, "load_video_batch")
    sources, unread = resolve_all(given, files=False)
    channels = (PIXEL_FORMATS[pix_fmt],)
    shape = (*channels, *size[::-1]) if layout == "NCHW" else (*size[::-1], *channels)
    clips, lengths, reasons = native.load_video_batch(
        sources=sources,
        windows=parse_windows(timestamps, len(given)),
        request=make_load_options(
            resize_to(*size, mode, interpolation, pix_fmt),
            make_array_format(layout, dtype, mean, std),
            exact=check_flag("exact", exact),
            exif=check_flag("rotate", rotate),
        ),
        num_frames=count,
        spread=sampling == "spread",
        rate=rate,
        step=check_int("step", step, least=1),
        demux=demux_options(demux_config, None),
        decode=decode_options(decode_config),
        num_threads=check_int("num_threads", num_threads, least=1, most=MAX_THREADS),
        keep_failed=on_error == "zero",
        storage=resolve_storage(storage, (len(given), count, *shape), dtype),
    )
    failures = tuple([LoadFailure(index, given[index], unread.get(index, reason)) for index, reason in reasons])
    name = partial(describe_failed, sources)
    clips = settle(clips, failures, on_error, f"{len(sources)} videos", name, listed="clips.failures")
    return VideoBatch(clips, lengths)

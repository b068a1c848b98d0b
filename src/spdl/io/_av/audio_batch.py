"""Batches of sound: from many inputs to one array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, check_int
from spdl.io._av.av_filters import filters_of, get_audio_filter_desc
from spdl.io._av.time_window import parse_windows
from spdl.io._common.errors import LoadFailure, settle
from spdl.io._common.inputs import list_inputs, resolve_all
from spdl.io._common.native import native
from spdl.io._common.storage import Storage, resolve_storage
from spdl.io._image.config import decode_options, demux_options
from spdl.io._image.decode import describe_failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spdl.io._av.time_window import Seconds
    from spdl.io._image.config import DecodeConfig, DemuxConfig
    from spdl.io._image.decode import ImageInput
    from spdl.io._native import CPUBuffer

AudioOnError: TypeAlias = Literal["raise", "skip", "zero"]

_ON_ERROR = get_args(AudioOnError)
_MAX_THREADS = 1024
_MAX_RATE = 1_000_000
_MAX_CHANNELS = 64
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
        demux_config: How FFmpeg reads; see `demux_config`.
        decode_config: How to decode; see `decode_config`.
        storage: The memory for the array: a `cpu_storage`, or a writable array that the caller owns, flat if
            `num_frames` or `num_channels` is None. None allocates new memory.
        num_threads: How many threads share the sounds, including the calling one. They end with the call.
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
        check_int("sample_rate", sample_rate, least=1, most=_MAX_RATE)
    if num_channels is not None:
        check_int("num_channels", num_channels, least=1, most=_MAX_CHANNELS)
    if num_frames is not None:
        check_int("num_frames", num_frames, least=1, most=_MAX_FRAMES)
    threads = check_int("num_threads", num_threads, least=1, most=_MAX_THREADS)
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

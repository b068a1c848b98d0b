"""Sound in WAVE files, whose samples lie there as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_number, refuse
from spdl.io._array.array_input import ArrayInput, map_input, name_file
from spdl.io._common.format_error import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._native import WAVHeader


def load_wav(
    data: ArrayInput, time_offset_seconds: float | None = None, duration_seconds: float | None = None
) -> np.ndarray[Any, Any]:
    """View the samples of a wav file.

    Of bytes in memory only the header is read, in less than a microsecond, so the GIL is kept.

    Args:
        data: The content: ``bytes``, ``bytearray``, ``memoryview``, ``mmap``, a one-dimensional uint8 array, or a path,
            of which the file is mapped into memory, read-only, and must not be cut short meanwhile; see `load_npy`.
        time_offset_seconds: Seconds to leave out at the beginning; None is none. A time between two frames is the first
            of them.
        duration_seconds: How many seconds to take; None, and more than there is, is all that follows.

    Returns:
        The samples, (frames, channels): uint8, int16 or int32 where they are integers of 8, 16 or 32 bits, float32 or
        float64. The array shares memory with `data`, which it keeps alive, and is writable if that is.

    Raises:
        FormatError: If this is no wav data, if it is truncated or damaged, or if its samples are of a kind that no
            array can be a view of, such as those of 24 bits. FFmpeg decodes many of those.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes.
        ValueError: If a time is negative, or the offset is not within the sound.

    Example:
        >>> load_wav(sound, 0.5, 0.25).shape  # Of one second, 8,000 frames, one channel.
        (2000, 1)
    """
    content = data if type(data) is bytes else map_input(data, "data")
    if time_offset_seconds is not None:
        time_offset_seconds = _seconds("time_offset_seconds", time_offset_seconds)
    if duration_seconds is not None:
        duration_seconds = _seconds("duration_seconds", duration_seconds)
    try:
        return native.load_wav(content, time_offset_seconds, duration_seconds)
    except FormatError as error:
        name_file(error, data)
        raise


def parse_wav(data: ArrayInput) -> WAVHeader:
    """Read what a wav file says of its samples.

    Args:
        data: The content, or as much of it as goes before the samples, or a path; see `load_wav`.

    Returns:
        The header, of which only the channels and the sample rate are checked. The format of extensible files is the
        one in their extension. Of RF64 files the size is the one in 64 bits.

    Raises:
        FormatError: If this is no wav data, or if it ends before the samples begin.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes.

    Example:
        >>> header = parse_wav(sound)
        >>> header.sample_rate, header.num_channels, header.bits_per_sample
        (8000, 1, 16)
    """
    try:
        return native.parse_wav(map_input(data, "data"))
    except FormatError as error:
        name_file(error, data)
        raise


def _seconds(name: str, value: float) -> float:
    accepted = "a number of seconds of at least 0"
    seconds = check_number(name, value, accepted)
    if seconds < 0:
        refuse(ValueError, name, accepted, value)
    return seconds

"""Sound in WAVE files, whose samples are an array already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_number, refuse
from spdl.io._array.array_io import ArrayInput, map_input, name_file
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._native import WAVHeader


def load_wav(
    data: ArrayInput, time_offset_seconds: float | None = None, duration_seconds: float | None = None
) -> np.ndarray[Any, Any]:
    """View the samples of a wav file.

    For bytes in memory, only the header is read. That takes less than a microsecond, so the GIL is kept.

    A size that a program could not fill in, as it wrote to a pipe (0, or about the largest of 31, 32 or 64 bits),
    means everything that follows. Less than a frame at the end is left out.

    Args:
        data: The content (``bytes``, ``bytearray``, ``memoryview``, ``mmap`` or a one-dimensional uint8 array) or a
            path, whose file is mapped into memory, read-only, and must not be truncated while it is used; see
            `load_npy`.
        time_offset_seconds: Seconds to leave out at the beginning; None leaves out nothing. A time between two frames
            is rounded down to the first of them.
        duration_seconds: Seconds to take. None, or more than there are, takes all that follow.

    Returns:
        The samples, (frames, channels): uint8, int16 or int32 for integers of 8, 16 or 32 bits, else float32 or
        float64. The array shares memory with `data`, keeps it alive, and is writable if `data` is.

    Raises:
        FormatError: If this is not wav data, if it is truncated or damaged, or if no array can be a view of its
            samples, as for 24 bits. FFmpeg decodes many of these.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes, or a time is not a number.
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
    """Read the header of a wav file, which describes its samples.

    Args:
        data: The content, or at least the part before the samples, or a path; see `load_wav`.

    Returns:
        The header. Only the channels and the sample rate are checked. The format of an extensible file is the one in
        its extension. The size of an RF64 or BW64 file is the 64-bit one.

    Raises:
        FormatError: If this is not wav data, or if it ends before the samples begin.
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

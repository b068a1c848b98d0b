"""Frames that show the caller's array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_int, check_str, refuse
from spdl.io._av.encoder import parse_frame_rate
from spdl.io._common.native import native
from spdl.io._image.encode import ALIASES, PIXEL_FORMATS, as_array, check_dtype
from spdl.io._image.options import MAX_SIDE

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._av.encoder import FrameRate
    from spdl.io._native import AudioFrames, VideoFrames

    Array = np.ndarray[Any, Any]


class ArrayMismatchError(ValueError, RuntimeError):
    """Raised for an array or a format that frames cannot be made of.

    It is a `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises.
    """


_PIX_FMTS = ("rgb24", "bgr24", "rgba", "bgra", "gray", "gray8", "gray16", "gray16le", "gray16be", "yuv444p")
_SAMPLES = {"u8": "uint8", "s16": "int16", "s32": "int32", "s64": "int64", "flt": "float32", "dbl": "float64"}
_MAX_TIME = 2**40
_MAX_INT = 2**31 - 1
_MAX_CHANNELS = 64


def create_reference_video_frame(array: Any, pix_fmt: str, frame_rate: FrameRate, pts: int) -> VideoFrames:
    """Make frames that show pictures in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later shows in them. An array that
    is not C-contiguous is copied once, and what is written to it later does not show.

    Args:
        array: An array of N pictures in main memory: uint8 (N, H, W, 3) for ``"rgb24"`` and ``"bgr24"``, (N, H, W, 4)
            for ``"rgba"`` and ``"bgra"``, (N, H, W) or (N, H, W, 1) for ``"gray"`` (or ``"gray8"``), (N, 3, H, W) for
            ``"yuv444p"``. For ``"gray16"``, uint16 or int16 (N, H, W) or (N, H, W, 1), whose bits are taken as they
            are: in the machine's byte order, or in the one after the name with ``"gray16le"`` and ``"gray16be"``.
        pix_fmt: The pixel format by FFmpeg's name.
        frame_rate: The frames per second: ``(30000, 1001)``, a ``Fraction`` or an int.
        pts: The number of the first frame, from which its time follows: ``pts / frame_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is not an array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `pix_fmt`, or an argument is out of range.

    Example:
        >>> frames = create_reference_video_frame(np.zeros((5, 48, 64, 3), np.uint8), "rgb24", (10, 1), 20)
        >>> len(frames), frames.width, frames.height, frames.get_timestamps()[:2]
        (5, 64, 48, [2.0, 2.1])
    """
    name = ALIASES.get(check_str("pix_fmt", pix_fmt), pix_fmt)
    if pix_fmt not in _PIX_FMTS:
        refuse(ArrayMismatchError, "pix_fmt", f"one of {', '.join(_PIX_FMTS)}", pix_fmt)
    rate = parse_frame_rate("frame_rate", frame_rate)
    time = check_int("pts", pts, least=-_MAX_TIME, most=_MAX_TIME)
    shown = as_array("array", array)
    check_dtype("array", shown.dtype, name, pix_fmt, ArrayMismatchError)
    pictures = PIXEL_FORMATS[name]
    sides = (*shown.shape, 1) if pictures.channels == 1 and shown.ndim == 3 else shown.shape  # noqa: PLR2004 - N, H, W.
    fits = len(sides) == 4 and sides[1 if pictures.planar else 3] == pictures.channels  # noqa: PLR2004 - and channels.
    height, width = (sides[2:] if pictures.planar else sides[1:3]) if fits else (0, 0)
    if not (fits and 1 <= sides[0] <= _MAX_INT and 1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        shape = pictures.shape.replace("(", "(N, ")
        accepted = f"of shape {shape}, sides from 1 to {MAX_SIDE}, for the pixel format {pix_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, shown.shape)
    return native.reference_video(_bytes_of(shown), name, width, height, sides[0], rate, time)


def create_reference_audio_frame(array: Any, sample_fmt: str, sample_rate: int, pts: int) -> AudioFrames:
    """Make frames that show sound in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later is heard in them. An array
    that is not C-contiguous, such as a transposed one, is copied once, and what is written to it later is not heard.

    Args:
        array: An array in main memory: (samples, channels), or (channels, samples) if the name of the
            format ends in p. The formats are ``"u8"`` (uint8), ``"s16"`` (int16), ``"s32"`` (int32), ``"s64"`` (int64),
            ``"flt"`` (float32) and ``"dbl"`` (float64), and ``"u8p"``, ``"s16p"`` and so on.
        sample_fmt: The sample format by FFmpeg's name.
        sample_rate: The samples per second.
        pts: The number of the first sample, from which its time follows: ``pts / sample_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is not an array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `sample_fmt`, or an argument is out of range.

    Example:
        >>> frames = create_reference_audio_frame(np.zeros((2, 800), np.float32), "fltp", 8000, 0)
        >>> len(frames), frames.num_channels, frames.sample_fmt
        (800, 2, 'fltp')
    """
    dtype = _SAMPLES.get(check_str("sample_fmt", sample_fmt).removesuffix("p"))
    if dtype is None:
        names = ", ".join([*_SAMPLES, *(f"{name}p" for name in _SAMPLES)])
        refuse(ArrayMismatchError, "sample_fmt", f"one of {names}", sample_fmt)
    rate = check_int("sample_rate", sample_rate, least=1, most=_MAX_INT)
    time = check_int("pts", pts, least=-_MAX_TIME, most=_MAX_TIME)
    heard = as_array("array", array)
    if heard.dtype != dtype:
        refuse(ArrayMismatchError, "array", f"of dtype {dtype} for {sample_fmt!r}", heard.dtype)
    planar = sample_fmt.endswith("p")
    channels, samples = (heard.shape if planar else heard.shape[::-1]) if heard.ndim == 2 else (0, 0)  # noqa: PLR2004
    if not (1 <= channels <= _MAX_CHANNELS and 1 <= samples <= _MAX_INT):
        order = "(channels, samples)" if planar else "(samples, channels)"
        accepted = f"of shape {order}, 1 to {_MAX_CHANNELS} channels, at least 1 sample, for {sample_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, heard.shape)
    return native.reference_audio(_bytes_of(heard), sample_fmt, channels, samples, rate, time)


def _bytes_of(array: Array) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

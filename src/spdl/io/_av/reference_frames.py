"""Frames that show an array of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._check import check_int, check_str, refuse
from spdl.io._av.frame_rate import parse_frame_rate
from spdl.io._common.native import native
from spdl.io._image.resize import MAX_SIDE

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._av.frame_rate import FrameRate
    from spdl.io._native import AudioFrames, VideoFrames

    Array = np.ndarray[Any, Any]


class ArrayMismatchError(ValueError, RuntimeError):
    """Raised for an array or a format that frames cannot be made of.

    It is a `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises.
    """


class _Pictures(NamedTuple):
    """How the pictures of a pixel format lie in an array."""

    channels: int  # 0: there is no axis for channels.
    planar: bool = False
    dtype: str = "uint8"

    @property
    def shape(self) -> str:
        if self.channels == 0:
            return "(N, H, W)"
        return f"(N, {self.channels}, H, W)" if self.planar else f"(N, H, W, {self.channels})"


_PICTURES = {
    "rgb24": _Pictures(3),
    "bgr24": _Pictures(3),
    "rgba": _Pictures(4),
    "bgra": _Pictures(4),
    "gray": _Pictures(0),
    "gray8": _Pictures(0),
    "gray16": _Pictures(0, dtype="uint16"),
    "gray16le": _Pictures(0, dtype="<u2"),
    "gray16be": _Pictures(0, dtype=">u2"),
    "yuv444p": _Pictures(3, planar=True),
}
_SAMPLES = {"u8": "uint8", "s16": "int16", "s32": "int32", "s64": "int64", "flt": "float32", "dbl": "float64"}
_MAX_TIME = 2**40
_MAX_INT = 2**31 - 1
_MAX_CHANNELS = 64
_NO_COPY = "The frames show the array without a copy: pass np.ascontiguousarray(array)."


def create_reference_video_frame(array: Any, pix_fmt: str, frame_rate: FrameRate, pts: int) -> VideoFrames:
    """Make frames that show pictures in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later shows in them.

    Args:
        array: A C-contiguous array of N pictures in main memory: uint8 (N, H, W, 3) for ``"rgb24"`` and ``"bgr24"``,
            (N, H, W, 4) for ``"rgba"`` and ``"bgra"``, (N, H, W) for ``"gray"`` (or ``"gray8"``), (N, 3, H, W) for
            ``"yuv444p"``; uint16 (N, H, W) for ``"gray16"``, and in a given byte order for ``"gray16le"`` and
            ``"gray16be"``.
        pix_fmt: The pixel format by FFmpeg's name.
        frame_rate: The frames per second: ``(30000, 1001)``, a ``Fraction`` or an int.
        pts: The number of the first frame, from which its time follows: ``pts / frame_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is no array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `pix_fmt` or is not contiguous, or an argument is out of range.

    Example:
        >>> frames = create_reference_video_frame(np.zeros((5, 48, 64, 3), np.uint8), "rgb24", (10, 1), 20)
        >>> len(frames), frames.width, frames.height, frames.get_timestamps()[:2]
        (5, 64, 48, [2.0, 2.1])
    """
    pictures = _PICTURES.get(check_str("pix_fmt", pix_fmt))
    if pictures is None:
        refuse(ArrayMismatchError, "pix_fmt", f"one of {', '.join(_PICTURES)}", pix_fmt)
    rate = parse_frame_rate("frame_rate", frame_rate)
    time = check_int("pts", pts, least=-_MAX_TIME, most=_MAX_TIME)
    shown = _as_array(array, pictures.dtype, pix_fmt)
    sides = shown.shape
    axes = 3 if pictures.channels == 0 else 4
    channel_axis = 1 if pictures.planar else 3
    fits = len(sides) == axes and (axes == 3 or sides[channel_axis] == pictures.channels)  # noqa: PLR2004 - axes.
    height, width = (sides[2:4] if pictures.planar else sides[1:3]) if fits else (0, 0)
    if not (fits and 1 <= sides[0] <= _MAX_INT and 1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        accepted = f"of shape {pictures.shape}, sides from 1 to {MAX_SIDE}, for the pixel format {pix_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, sides)
    return native.reference_video(_bytes_of(shown), pix_fmt, width, height, sides[0], rate, time)


def create_reference_audio_frame(array: Any, sample_fmt: str, sample_rate: int, pts: int) -> AudioFrames:
    """Make frames that show sound in an array, without a copy.

    The frames keep the array alive. Nothing writes to it, but what is written to it later is heard in them.

    Args:
        array: A C-contiguous array in main memory: (samples, channels), or (channels, samples) if the name of the
            format ends in p. The formats are ``"u8"`` (uint8), ``"s16"`` (int16), ``"s32"`` (int32), ``"s64"`` (int64),
            ``"flt"`` (float32) and ``"dbl"`` (float64), and ``"u8p"``, ``"s16p"`` and so on.
        sample_fmt: The sample format by FFmpeg's name.
        sample_rate: The samples per second.
        pts: The number of the first sample, from which its time follows: ``pts / sample_rate`` seconds.

    Returns:
        The frames.

    Raises:
        TypeError: If `array` is no array in main memory, or another argument has the wrong type.
        ValueError: If the array does not match `sample_fmt` or is not contiguous, or an argument is out of range.

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
    heard = _as_array(array, dtype, sample_fmt)
    planar = sample_fmt.endswith("p")
    channels, samples = (heard.shape if planar else heard.shape[::-1]) if heard.ndim == 2 else (0, 0)  # noqa: PLR2004
    if not (1 <= channels <= _MAX_CHANNELS and 1 <= samples <= _MAX_INT):
        order = "(channels, samples)" if planar else "(samples, channels)"
        accepted = f"of shape {order}, 1 to {_MAX_CHANNELS} channels, at least 1 sample, for {sample_fmt!r}"
        refuse(ArrayMismatchError, "array", accepted, heard.shape)
    return native.reference_audio(_bytes_of(heard), sample_fmt, channels, samples, rate, time)


def _as_array(array: Any, dtype: str, format_name: str) -> Array:
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    if hasattr(array, "__cuda_array_interface__"):
        remedy = "It is on a GPU: copy it first, with `transfer_buffer_cpu` or the tensor's own `cpu()`."
        refuse(TypeError, "array", "in main memory", array, remedy)
    if not (hasattr(array, "__array_interface__") or hasattr(array, "__array__") or isinstance(array, memoryview)):
        accepted = "an array (NumPy, PyTorch, a CPUBuffer, or anything with `__array_interface__` or `__array__`)"
        refuse(TypeError, "array", accepted, array)
    shown: Array = np.asarray(array)
    if shown.dtype != np.dtype(dtype):
        refuse(ArrayMismatchError, "array", f"of dtype {np.dtype(dtype)} for {format_name!r}", shown.dtype)
    if not shown.flags.c_contiguous:
        refuse(
            ArrayMismatchError, "array", "C-contiguous", f"strides {shown.strides} for shape {shown.shape}", _NO_COPY
        )
    return shown


def _bytes_of(array: Array) -> Any:
    import numpy as np  # noqa: PLC0415

    return array.reshape(-1).view(np.uint8)

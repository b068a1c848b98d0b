"""Which part of a file is read: windows of time, and the frames of clips, spread over it or drawn at random."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, TypeAlias

from spdl._check import check_int, check_number, refuse

Seconds: TypeAlias = float | Fraction | Decimal | str
"""A moment in seconds: a number, or the text of one, such as ``"1/30"``."""

_ACCEPTED = "a moment in seconds: a number, Fraction, Decimal or str"
_FLOAT_DENOMINATOR = 1_000_000
_DENOMINATOR = 1_000_000_000
_LARGEST_SECONDS = 1_000_000_000  # More than thirty years; its numerator has 60 bits.


class EmptyWindowError(ValueError, IndexError):
    """Raised for a window that ends at its start or before it.

    It is a `ValueError`, and also an `IndexError`, which spdl 0.8.0 raises.
    """


Window: TypeAlias = tuple[tuple[int, int] | None, tuple[int, int] | None]
"""The start and the end as (numerator, denominator); None without a bound."""


def parse_window(argument: str, window: Sequence[Seconds] | None) -> Window:
    """Return a window ``(start, end)`` as native code takes it.

    A float stands for the nearest fraction with a denominator of at most 10**6: 1001 / 30000 is then the same moment as
    the Fraction.
    """
    if window is None:
        return None, None
    accepted = "a pair (start, end) in seconds or None"
    if isinstance(window, (str, bytes)) or not hasattr(window, "__len__"):
        refuse(TypeError, argument, accepted, window)
    if len(window) != 2:  # noqa: PLR2004 - a pair.
        refuse(ValueError, argument, accepted, window)
    start, end = (parse_moment(f"{argument}[{i}]", value) for i, value in enumerate(window))
    if start == math.inf or end == -math.inf or not start < end:
        refuse(EmptyWindowError, argument, "a window that starts before it ends", window)
    return _ratio(start), _ratio(end)


def parse_moment(argument: str, value: Any) -> Fraction | float:
    """Return a moment as a fraction; as a float if it is infinite."""
    if isinstance(value, bool):
        refuse(TypeError, argument, _ACCEPTED, value)
    try:
        if isinstance(value, str):
            value = Fraction(value) if "/" in value else Decimal(value.strip())
        if isinstance(value, (Rational, Decimal)) and not (isinstance(value, Decimal) and not value.is_finite()):
            moment = Fraction(value).limit_denominator(_DENOMINATOR)
        elif isinstance(value, (Real, Decimal)) or hasattr(type(value), "__float__"):
            number = float(value)
            if math.isinf(number):
                return number
            moment = Fraction(number).limit_denominator(_FLOAT_DENOMINATOR)
        else:
            refuse(TypeError, argument, _ACCEPTED, value)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        refuse(ValueError, argument, _ACCEPTED, value)
    if abs(moment) > _LARGEST_SECONDS:
        refuse(ValueError, argument, f"at most {_LARGEST_SECONDS} seconds, or infinite", value)
    return moment


def _ratio(moment: Fraction | float) -> tuple[int, int] | None:
    return moment.as_integer_ratio() if isinstance(moment, Fraction) else None


def parse_windows(timestamps: Iterable[Sequence[Seconds] | None] | None, count: int) -> list[Any]:
    """Return the windows of some inputs, as `parse_window` does. None is the whole of each."""
    if timestamps is None:
        return [(None, None)] * count
    accepted = f"a window (start, end) or None for each of the {count} inputs"
    if isinstance(timestamps, (str, bytes)) or not isinstance(timestamps, Iterable):
        refuse(TypeError, "timestamps", accepted, timestamps)
    given = itertools.islice(timestamps, count + 1)
    windows = [parse_window(f"timestamps[{i}]", window) for i, window in enumerate(given)]
    if len(windows) != count:
        refuse(ValueError, "timestamps", accepted, timestamps)
    return windows


_MOST = 2**31 - 1


def uniform_clips(length: int, *, num_clips: int, num_frames: int, step: float = 1) -> list[list[int]]:
    """Return the frames of clips that are spread over a video evenly.

    The clips begin at equal distances: the first clip with the first frame, the last one as late as it can. A single
    clip lies in the middle.

    Args:
        length: The number of frames of the video, ``len(reader)``.
        num_clips: The number of clips.
        num_frames: The number of frames of each.
        step: The distance from one frame of a clip to the next: 1 is every frame; ``reader.fps / 8`` makes 8 frames per
            second.

    Returns:
        The indices of the frames of each clip, for `VideoReader.read_frames`. A clip that is longer than the video goes
        on with the last frame.

    Raises:
        TypeError, ValueError: If an argument has the wrong type, or is out of range.

    Example:
        >>> uniform_clips(100, num_clips=3, num_frames=2)
        [[0, 1], [49, 50], [98, 99]]
    """
    last_start = _last_start(length, num_clips, num_frames, step)
    if num_clips == 1:
        return [_clip(last_start / 2, num_frames, step, length)]
    return [_clip(i * last_start / (num_clips - 1), num_frames, step, length) for i in range(num_clips)]


def random_clips(
    length: int, *, num_clips: int, num_frames: int, step: float = 1, seed: int, epoch: int, index: int
) -> list[list[int]]:
    """Return the frames of clips that begin at random places, which depend only on a seed, an epoch and an index.

    So a run can be repeated and resumed, whatever thread or process loads which video.

    Args:
        length, num_clips, num_frames, step: As for `uniform_clips`.
        seed, epoch, index: The seed of the run, the number of the pass over the data, and the index of the video in the
            dataset.

    Returns:
        The indices of the frames of each clip, for `VideoReader.read_frames`, in the order of their beginnings. A clip
        that is longer than the video repeats the last frame.

    Raises:
        TypeError, ValueError: If an argument has the wrong type, or is out of range.

    Example:
        >>> (clip,) = random_clips(100, num_clips=1, num_frames=4, step=2, seed=1, epoch=0, index=7)
        >>> [frame - clip[0] for frame in clip]
        [0, 2, 4, 6]
    """
    last_start = _last_start(length, num_clips, num_frames, step)
    key = [check_int(name, value, least=None) for name, value in (("seed", seed), ("epoch", epoch), ("index", index))]
    # A text as the seed gives the same numbers in every version of Python.
    generator = random.Random("/".join(map(str, key)))  # noqa: S311 - samples, no secrets.
    starts = sorted(int(generator.random() * (int(last_start) + 1)) for _ in range(num_clips))
    return [_clip(start, num_frames, step, length) for start in starts]


def _last_start(length: int, num_clips: int, num_frames: int, step: float) -> float:
    check_int("length", length, least=1, most=_MOST)
    check_int("num_clips", num_clips, least=1, most=_MOST)
    check_int("num_frames", num_frames, least=1, most=_MOST)
    if num_clips * num_frames > _MOST:
        refuse(ValueError, "num_clips", f"such that there are at most {_MOST} frames in all", num_clips)
    if not 0 < check_number("step", step, "a number above 0") < float("inf"):
        refuse(ValueError, "step", "a number above 0", step)
    return max(length - 1 - (num_frames - 1) * step, 0)


def _clip(start: float, num_frames: int, step: float, length: int) -> list[int]:
    # The smaller of the two first: the other may be infinite.
    return [int(min(start + i * step + 1e-9, length - 1)) for i in range(num_frames)]

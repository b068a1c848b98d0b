"""Frame rates, as users write them and as native code takes them."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

from spdl._check import check_int, refuse

FrameRate: TypeAlias = tuple[int, int] | Fraction | int
"""Frames per second: a pair (numerator, denominator), a Fraction or an int."""

_ACCEPTED = "frames per second as (numerator, denominator), a Fraction or an int, above 0"
_LARGEST = 2**31 - 1


def parse_frame_rate(argument: str, rate: Any) -> tuple[int, int]:
    """Return a frame rate in lowest terms.

    Raises:
        TypeError: If it is not a frame rate.
        ValueError: If it is not above 0, or too large for FFmpeg.
    """
    if isinstance(rate, Rational) and not isinstance(rate, bool):
        parts = (rate.numerator, rate.denominator)
    elif isinstance(rate, (tuple, list)) and len(rate) == 2:  # noqa: PLR2004 - a pair.
        parts = (rate[0], rate[1])
    else:
        refuse(TypeError, argument, _ACCEPTED, rate)
    numerator, denominator = (
        check_int(f"{argument}[{i}]", part, least=1, most=_LARGEST, accepted=_ACCEPTED) for i, part in enumerate(parts)
    )
    return Fraction(numerator, denominator).as_integer_ratio()

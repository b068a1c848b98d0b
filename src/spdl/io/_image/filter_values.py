"""Values in descriptions of filters: each is checked, so that none ends its filter and begins another."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from spdl._check import check_int, check_number, check_str, refuse

_NAMES = re.compile(r"\w+(?:[+|]\w+)*", re.ASCII)
_COLOR = re.compile(r"#?\w+(?:@[\w.]+)?", re.ASCII)
_MAX = 2**31 - 1


def names(argument: str, value: Any) -> str:
    """Return names of FFmpeg's, such as ``"rgb24"``, ``"rgb24|gray"`` or ``"bicubic+accurate_rnd"``.

    Raises:
        TypeError: If it is not a str.
        ValueError: If it holds anything else than names.
    """
    if _NAMES.fullmatch(check_str(argument, value)) is None:
        refuse(ValueError, argument, "a name of letters, digits and underscores", value)
    return str(value)


def color(argument: str, value: Any) -> str:
    """Return an FFmpeg colour, such as ``"black"``, ``"#ff8000"`` or ``"red@0.5"``.

    Raises:
        TypeError: If it is not a str.
        ValueError: If it holds anything else.
    """
    if _COLOR.fullmatch(check_str(argument, value)) is None:
        refuse(ValueError, argument, 'a colour of FFmpeg\'s, such as "black", "#ff8000" or "red@0.5"', value)
    return str(value)


def count(argument: str, value: Any, *, least: int = 1) -> int:
    """Return a number of pixels, frames, samples or channels.

    Raises:
        TypeError: If it is not an int.
        ValueError: If it is out of range.
    """
    return check_int(argument, value, least=least, most=_MAX)


def rate(argument: str, value: Any) -> str:
    """Return a rate, given as (numerator, denominator), as FFmpeg writes it.

    Raises:
        TypeError: If it is neither a pair of ints, nor a Fraction, nor an int.
        ValueError: If it is not above 0.
    """
    accepted = "a rate above 0 as (numerator, denominator), a Fraction or an int"
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        value = value.as_integer_ratio()
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != 2:  # noqa: PLR2004 - a pair.
        refuse(TypeError, argument, accepted, value)
    numerator, denominator = (check_int(argument, each, least=1, most=_MAX, accepted=accepted) for each in value)
    return f"{numerator}/{denominator}"


def window(argument: str, value: Any) -> list[str]:
    """Return the bounds of a window in seconds as options of trim and atrim. Infinite ones are left out.

    Raises:
        TypeError: If it is not a pair of numbers.
        ValueError: If a bound is NaN, or the window is empty.
    """
    accepted = "a pair of seconds (start, end)"
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        refuse(TypeError, argument, accepted, value)
    if len(value) != 2:  # noqa: PLR2004 - a pair.
        refuse(ValueError, argument, accepted, value)
    start, end = (check_number(f"{argument}[{i}]", each, "a number of seconds") for i, each in enumerate(value))
    if not start < end:
        refuse(ValueError, argument, "a window that starts before it ends", value)
    return [
        f"{name}={_seconds(each)}" for name, each in zip(("start", "end"), value, strict=True) if not math.isinf(each)
    ]


def _seconds(value: Any) -> str:
    text = str(value) if isinstance(value, int) else repr(float(value))
    # FFmpeg reads no exponents here, and counts in microseconds.
    return f"{float(value):.6f}" if "e" in text else text

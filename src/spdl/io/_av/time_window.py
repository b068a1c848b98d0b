"""Windows of time, as users write them and as native code takes them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, TypeAlias

from spdl._check import refuse

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

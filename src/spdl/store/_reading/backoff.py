"""How long to wait before a request is repeated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

__all__ = ["full_jitter", "retry_after"]

_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 10.0
_LONGEST_WISH = 3600.0


def full_jitter(failures: int, random: Callable[[], float]) -> float:
    """Return seconds between 0 and a bound that doubles with each failure, so that clients do not come back together.

    Args:
        failures: How many attempts have failed, at least 1.
        random: Returns a number from 0 to 1.
    """
    return random() * min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures - 1, 30))


def retry_after(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Return the seconds that the header ``Retry-After`` asks to wait, an hour at most; None if none can be read.

    Args:
        headers: The headers, whose names are in lower case.
        now: Returns the time in UTC: the header may name a date.
    """
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers name a date.

        try:
            seconds = (parsedate_to_datetime(text) - now()).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, seconds), _LONGEST_WISH) if math.isfinite(seconds) else None

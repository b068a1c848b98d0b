"""Asks for verdicts on programs until they say what is expected: other programs of the machine hide it for a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ask_until"]

Answer = TypeVar("Answer")

_SECONDS = 90


def ask_until(ask: Callable[[], Answer], is_right: Callable[[Answer], bool]) -> Answer:
    """Return the first answer that is right, or the last one after a long time. A defect gives no right one at all."""
    deadline = time.monotonic() + _SECONDS
    while not is_right(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer

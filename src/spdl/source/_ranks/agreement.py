"""What ranks need to agree on a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, SupportsIndex, TypeAlias

from spdl._check import refuse

__all__ = ["Agree", "Agreement", "number_of"]


class Agreement(Protocol):
    """A number that is not known yet. A `concurrent.futures.Future` is one."""

    def result(self) -> int:
        """Wait for the number, and return it."""


# Called by every rank with a number of its own. What it returns tells each of them the least of all these numbers.
Agree: TypeAlias = Callable[[int], Agreement | SupportsIndex]


def number_of(answer: Agreement | SupportsIndex) -> int:
    """Wait for the number, if it is not known yet, and return it.

    Raises:
        TypeError: If the answer is something else.
    """
    if hasattr(answer, "__index__"):
        return answer.__index__()
    if not callable(getattr(answer, "result", None)):
        refuse(TypeError, "agree", "a function that returns an int or a future", answer)
    return answer.result()

"""What ranks need to agree on a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

__all__ = ["Agree", "Agreement"]


class Agreement(Protocol):
    """A number that is not known yet. A `concurrent.futures.Future` is one."""

    def result(self) -> int:
        """Wait for the number, and return it."""


# Called by every rank with a number of its own. What it returns tells each of them the least of all these numbers.
Agree: TypeAlias = Callable[[int], Agreement]

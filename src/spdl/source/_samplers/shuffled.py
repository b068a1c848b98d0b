"""Shuffling of lists by a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from spdl._check import check_int

if TYPE_CHECKING:
    from spdl._type_vars import T

__all__ = ["shuffled"]


def shuffled(items: list[T], seed: int) -> list[T]:
    """Return a shuffled copy. A pass over the old list that has begun keeps its order."""
    result = items.copy()
    random.Random(check_int("seed", seed, least=None)).shuffle(result)  # noqa: S311 - no secret.
    return result

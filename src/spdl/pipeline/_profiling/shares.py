"""Divides items among measurements, for stages that can take each item only once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["shares_of"]


def shares_of(items: Sequence[Any], concurrencies: Sequence[int]) -> list[list[Any]]:
    """Divide items so that each concurrency gets a share in proportion to it, and thus the same number of rounds.

    Each share has items from the whole sequence, even if it is sorted, and at least one item if there are enough.
    """
    shares: list[list[Any]] = [[] for _ in concurrencies]
    for item, index in zip(items, _turns(concurrencies), strict=False):
        shares[index].append(item)
    return shares


def _turns(concurrencies: Sequence[int]) -> Iterator[int]:
    yield from range(len(concurrencies))
    # The turns of each measurement are evenly spaced.
    turns = [((turn + 0.5) / count, index) for index, count in enumerate(concurrencies) for turn in range(count)]
    yield from itertools.cycle([index for _, index in sorted(turns)])

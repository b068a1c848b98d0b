"""Shares items out among measurements, for stages that can be given each of them only once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["shares_of"]


def shares_of(items: Sequence[Any], concurrencies: Sequence[int]) -> list[list[Any]]:
    """Share items out such that each concurrency gets as many of them as it takes for as many rounds.

    Sorted or not, each share holds items from everywhere, and each at least one if there are enough.
    """
    shares: list[list[Any]] = [[] for _ in concurrencies]
    for item, index in zip(items, _turns(concurrencies), strict=False):
        shares[index].append(item)
    return shares


def _turns(concurrencies: Sequence[int]) -> Iterator[int]:
    yield from range(len(concurrencies))
    # Each one's turns at even distances.
    places = [((turn + 0.5) / slots, index) for index, slots in enumerate(concurrencies) for turn in range(slots)]
    yield from itertools.cycle([index for _, index in sorted(places)])

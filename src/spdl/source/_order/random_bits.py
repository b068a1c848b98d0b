"""Random numbers by their position: splitmix64 as a counter-based generator, in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["random_bits", "random_order"]


def random_bits(key: int, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each position, which depend on the key and the position alone."""
    bits = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def random_order(key: int, size: int) -> NDArray[np.int64]:
    """Return the numbers below `size` in a random order, each order being equally likely."""
    bits = random_bits(key, np.arange(size, dtype=np.int64))
    return np.argsort(bits, kind="stable").astype(np.int64, copy=False)

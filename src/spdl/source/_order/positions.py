"""The check of positions that orders are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["check_positions"]


def check_positions(positions: NDArray[np.int64], size: int) -> None:
    """Raise IndexError unless all positions are below the size and none is negative."""
    if positions.size and not (positions.min() >= 0 and positions.max() < size):
        raise IndexError(f"positions must be from 0 to {size - 1}, got {positions.min()} to {positions.max()}")

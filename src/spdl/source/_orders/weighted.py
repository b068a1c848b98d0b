"""An order that draws items by their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_flag, check_int, positive, refuse, refuse_masked
from spdl._random_key import random_key
from spdl.source._orders.order import LARGEST, Order, Recent, check_positions, digest, random_bits

_LN2 = float.fromhex("0x1.62e42fefa39efp-1")


class WeightedOrder(Order):
    """Items drawn at random, the more often the higher their weight: for rare classes, say.

    With replacement, each draw is independent of the others, so an item may come several times in an epoch and another
    not at all. Without, the items are drawn one after the other from those that are left (P. Efraimidis and
    P. Spirakis, 2006), so likely ones tend to come early and each comes once at most. Each epoch draws again. The draws
    are the same on every machine. They need some memory for each weight, and none for each draw, save without
    replacement.

    Args:
        weights: The chance of each item to be drawn, in any unit: numbers of at least 0.
        num_draws: How many items an epoch has. None stands for the number of items; without replacement, of the items
            with a weight above 0.
        replacement: Whether an item can be drawn again.
        seed: The run. Any int.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `weights` is empty, if one is negative, infinite or NaN, if all are 0, or if more items are to
            be drawn without replacement than have a weight above 0.

    Example:
        >>> from spdl.source import EpochSampler, WeightedOrder
        >>> sampler = EpochSampler(WeightedOrder([1, 0, 3], num_draws=4000, seed=1), rank=0, world_size=1)
        >>> drawn = list(sampler)
        >>> drawn.count(1), 2900 < drawn.count(2) < 3100
        (0, True)
    """

    _kind = "weighted"

    def __init__(
        self,
        weights: Sequence[float] | NDArray[np.float64],
        /,
        *,
        num_draws: int | None = None,
        replacement: bool = True,
        seed: int = 0,
    ) -> None:
        self._weights = to_weights(weights)
        self.replacement = check_flag("replacement", replacement)
        self.seed = check_int("seed", seed, least=None)
        likely = int(np.count_nonzero(self._weights))
        available = self._weights.size if self.replacement else likely
        self._size = available if num_draws is None else positive("num_draws", num_draws)
        if not self.replacement and self._size > likely:
            refuse(ValueError, "num_draws", f"at most {likely}, the items with a weight above 0", num_draws)
        if self._size > LARGEST:
            refuse(ValueError, "num_draws", f"at most {LARGEST}", num_draws)
        # Divided by the largest first, since the sum of finite numbers may be infinite.
        self._sums = np.cumsum(self._weights / self._weights.max())
        self._last = int(np.flatnonzero(self._weights)[-1])
        self._drawn = Recent(self._draw, kept=2)
        weighed = f"by weights {digest(self._weights.astype('<f8').tobytes())}"
        with_or_without = "with" if self.replacement else "without"
        self._name = f"{self._size} of {self._weights.size} {weighed}, {with_or_without} replacement, seed={self.seed}"

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return int(self._weights.size)

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        check_positions(positions, self._size)
        if not self.replacement:
            return self._drawn(epoch)[positions]
        bits = random_bits(random_key(self.seed, epoch, -9), positions)
        drawn = np.searchsorted(self._sums, _to_fractions(bits) * self._sums[-1], side="right")
        # Rounded up to the sum itself, a number would be beyond the last item.
        items: NDArray[np.int64] = np.minimum(drawn, self._last).astype(np.int64, copy=False)
        return items

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        likely = np.flatnonzero(self._weights)
        bits = random_bits(random_key(self.seed, epoch, -9), likely)
        # The items come after waiting times, each exponential with its item's weight as rate.
        # The least likely may have to wait forever, and come last.
        with np.errstate(all="ignore"):
            times = -_log(1 - _to_fractions(bits)) / (self._weights[likely] / self._weights.max())
        return likely[np.argsort(times, kind="stable")[: self._size]].astype(np.int64, copy=False)


def to_weights(weights: object, size: int | None = None, of: str = "item") -> NDArray[np.float64]:
    refuse_masked("weights", weights)
    try:
        values = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        accepted = "a sequence of numbers" if size is None else f"a sequence of {size} numbers"
        refuse(TypeError, "weights", accepted, weights, f"NumPy says: {error}.")
    if size is not None and values.shape != (size,):
        refuse(ValueError, "weights", f"{size} numbers, one for each {of}", weights, f"The shape is {values.shape}.")
    if values.ndim != 1 or not values.size:
        refuse(ValueError, "weights", "at least one number, in one dimension", weights)
    if (bad := np.flatnonzero(~(np.isfinite(values) & (values >= 0)))).size:
        refuse(ValueError, f"weights[{bad[0]}]", "finite and at least 0", float(values[bad[0]]))
    if not values.any():
        refuse(ValueError, "weights", "numbers, at least one above 0", weights)
    return values


def _to_fractions(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithms that are the same on every machine: libraries differ in the last bit, which may swap items."""
    mantissas, exponents = np.frexp(values)
    small = mantissas < 0.7071067811865476  # noqa: PLR2004 - the square root of a half.
    mantissas = np.where(small, mantissas * 2, mantissas)
    exponents = exponents - small
    ratio = (mantissas - 1) / (mantissas + 1)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for odd in range(23, 0, -2):
        series = series * square + 1.0 / odd
    logarithms: NDArray[np.float64] = exponents * _LN2 + 2 * ratio * series
    return logarithms

"""The order of the samples of each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["make_order"]


def make_order(size: int, *, shuffle: bool, seed: int, epoch: int) -> Callable[[Iterable[int]], list[int]]:
    """Return a function that turns places in the order of an epoch into indices of samples."""
    if not shuffle:
        return list
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    order = np.random.default_rng([seed, epoch]).permutation(size)
    return lambda places: order[list(places)].tolist()

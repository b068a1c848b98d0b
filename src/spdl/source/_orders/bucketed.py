"""An order in which the items of a batch are about equally long."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from spdl._check import check_int, positive, refuse
from spdl._random_key import random_key
from spdl.source._orders.order import KeyedPermutation, Recent, check_positions, random_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BucketedOrder:
    """A shuffled order in which the items of a group have similar lengths, so that little is lost to padding.

    The items are shuffled. In each `window` of groups, the items are sorted by length and cut into groups, and the
    groups are shuffled. So the groups of a window come in a random order, an item meets other ones in each epoch, and
    the length of what comes next says nothing.

    Make a group as large as the batches of all ranks together, ``world_size * batch_size``: then all ranks have items
    of similar length in the same step, and none waits for another that has longer ones. If a run is continued with
    another number of ranks or another batch size, keep the group's size, since it is a part of the order.

    Args:
        lengths: The length of each item, in any unit: ints or floats.
        group: The number of items of a group.
        window: How many groups are sorted together. With more, lengths within a group differ less.
        seed: The run. Any int.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `lengths` is empty, if one is NaN, or if `group` or `window` is less than 1.

    Example:
        >>> from spdl.source import BucketedOrder, EpochSampler
        >>> order = BucketedOrder([9, 1, 8, 2, 7, 1], group=2, seed=1)
        >>> sampler = EpochSampler(order, batch_size=2, rank=0, world_size=1)
        >>> sorted(sorted(batch) for batch in sampler.batch_sampler)
        [[0, 2], [1, 5], [3, 4]]
    """

    def __init__(self, lengths: Sequence[float], /, *, group: int, window: int = 100, seed: int = 0) -> None:
        try:
            self._lengths = np.array(lengths)
        except ValueError as error:
            refuse(TypeError, "lengths", "a sequence of numbers", lengths, f"NumPy says: {error}.")
        if self._lengths.ndim != 1 or not self._lengths.size:
            refuse(ValueError, "lengths", "at least one number, in one dimension", lengths)
        if self._lengths.dtype.kind not in "iuf":
            refuse(TypeError, "lengths", "a sequence of numbers", lengths)
        if np.isnan(self._lengths).any():
            refuse(ValueError, f"lengths[{int(np.isnan(self._lengths).argmax())}]", "a number", float("nan"))
        self._group = positive("group", group)
        self._window = positive("window", window)
        self.seed = check_int("seed", seed, least=None)
        self._shuffled = Recent(self._shuffle)
        self._sorted = Recent(self._sort, kept=8)
        as_bytes = self._lengths.astype(self._lengths.dtype.newbyteorder("<")).tobytes()
        digest = blake2b(as_bytes, digest_size=6).hexdigest()
        self._name = f"{self._lengths.size} by lengths {digest}, group={self._group}, window={self._window}"

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        return f"bucketed({self._name}, seed={self.seed})"

    def __len__(self) -> int:
        return int(self._lengths.size)

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others.
        """
        check_positions(positions, len(self))
        length = self._group * self._window
        windows = positions // length
        found = np.empty_like(positions)
        for window in np.unique(windows).tolist():
            here = windows == window
            found[here] = self._sorted(epoch, window)[positions[here] - window * length]
        return found

    def _shuffle(self, epoch: int) -> KeyedPermutation:
        return KeyedPermutation(len(self), seed=self.seed, epoch=epoch)

    def _sort(self, epoch: int, window: int) -> NDArray[np.int64]:
        start = window * self._group * self._window
        stop = min(start + self._group * self._window, len(self))
        items = self._shuffled(epoch).take(np.arange(start, stop, dtype=np.int64))
        items = items[np.argsort(self._lengths[items], kind="stable")]
        # Only the last window may have a group that is not full. It has items of any one length, and comes last.
        full, rest = divmod(items.size, self._group)
        key = random_key(random_key(self.seed, epoch, -10), window, 0)
        begin = key % (full + 1) * self._group
        kept = np.concatenate([items[:begin], items[begin + rest :]])
        groups = kept.reshape(full, self._group)[random_order(key, full)]
        return np.concatenate([groups.reshape(-1), items[begin : begin + rest]])

    def __repr__(self) -> str:
        return f"BucketedOrder({self._name}, seed={self.seed})"

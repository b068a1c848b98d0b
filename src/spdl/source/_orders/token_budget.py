"""Batches of documents under a budget of tokens."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_choice, check_number, positive, refuse
from spdl._random_key import random_key
from spdl.source._orders.order import KeyedPermutation, Recent, check_positions, digest, random_bits

Cost: TypeAlias = Literal["linear", "quadratic"]
TooLong: TypeAlias = Literal["error", "drop"]


class BudgetBatches:
    """The batches of an epoch: which documents each holds, and the order of the batches; see `BucketedOrder`.

    The documents are sorted by length, longest first, and cut into buckets of similar length. All batches of a bucket
    have the same number of documents, give or take one, so their number does not depend on the epoch. An epoch shuffles
    the documents within each bucket, and the groups of batches.
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],
        budget: int,
        *,
        group: int,
        multiple: int,
        max_padding: float,
        cost: Cost,
        too_long: TooLong,
        seed: int,
    ) -> None:
        self._seed = seed
        budget, multiple = positive("tokens_per_batch", budget), positive("multiple", multiple)
        accepted = "a number from 0 to 1, 1 excluded"
        if not 0 <= check_number("max_padding", max_padding, accepted) < 1:
            refuse(ValueError, "max_padding", accepted, max_padding)
        check_choice("cost", cost, get_args(Cost))
        check_choice("too_long", too_long, get_args(TooLong))
        if lengths.dtype.kind not in "iu":
            refuse(TypeError, "lengths", "a sequence of ints with `tokens_per_batch`", lengths)
        if lengths.min() < 0:
            refuse(ValueError, f"lengths[{int(lengths.argmin())}]", "at least 0", int(lengths.min()))
        # An empty document takes a place as well.
        padded = -(-np.maximum(lengths.astype(np.int64, copy=False), 1) // multiple) * multiple
        self.dropped = np.flatnonzero(padded > budget).astype(np.int64, copy=False)
        if self.dropped.size and too_long == "error":
            first = int(self.dropped[0])
            refuse(
                ValueError,
                f"lengths[{first}]",
                f"at most {budget} after padding to a multiple of {multiple}, the budget of a batch",
                int(lengths[first]),
                f'{self.dropped.size} documents are longer: cut them, or pass too_long="drop" to leave them out.',
            )
        order = np.argsort(-padded, kind="stable")[self.dropped.size :]
        if not order.size:
            refuse(ValueError, "tokens_per_batch", "enough for at least one document", budget)
        self._documents = order.astype(np.int32) if lengths.size < 2**31 else order
        # The first document of each bucket in that order, its first batch, and how long its documents become.
        starts, batches, longest = _make_buckets(padded[order], budget, max_padding)
        _split(batches, np.diff(starts), -int(batches.sum()) % group)
        self._starts, self._firsts = starts, np.concatenate([[0], np.cumsum(batches)])
        self._longest = longest
        self._sorted = self._sort_by_cost(cost)
        self._group = group
        self._permutations = Recent(self._permute_bucket, kept=64)
        self._groups = Recent(self._permute_groups)
        as_bytes = lengths.astype("<i8", copy=False).tobytes()
        self.name = (
            f"{lengths.size} by lengths {digest(as_bytes)}, tokens_per_batch={budget}, "
            f"multiple={multiple}, group={group}, max_padding={max_padding}, cost={cost}"
        )

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def take(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        check_positions(positions, len(self))
        groups, slots = np.divmod(positions, self._group)
        rest = len(self) % self._group
        places = np.empty_like(positions)
        # Only if there are too few documents, the last group is not full. It has the batches that cost most.
        full = groups < len(self) // self._group
        if full.any():
            chosen, turns = groups[full], self._groups(epoch).take(groups[full])
            turned = random_bits(random_key(self._seed, epoch, -15), chosen) % np.uint64(self._group)
            slots[full] = (slots[full] + turned.astype(np.int64)) % self._group
            places[full] = rest + turns * self._group + slots[full]
        places[~full] = slots[~full]
        return self._sorted[places]

    def batch(self, number: int, epoch: int) -> NDArray[np.int64]:
        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} is out of range for {len(self)} batches")
        bucket = int(np.searchsorted(self._firsts, number, side="right")) - 1
        start, first = int(self._starts[bucket]), int(self._firsts[bucket])
        count, batches = int(self._starts[bucket + 1]) - start, int(self._firsts[bucket + 1]) - first
        begin, end = (each * count // batches for each in (number - first, number - first + 1))
        places = self._permutations(bucket, epoch).take(np.arange(begin, end, dtype=np.int64))
        return self._documents[start + places].astype(np.int64, copy=False)

    def _permute_bucket(self, bucket: int, epoch: int) -> KeyedPermutation:
        count = int(self._starts[bucket + 1] - self._starts[bucket])
        return KeyedPermutation(count, seed=random_key(self._seed, -14, bucket), epoch=epoch)

    def _permute_groups(self, epoch: int) -> KeyedPermutation:
        return KeyedPermutation(len(self) // self._group, seed=random_key(self._seed, -16, 0), epoch=epoch)

    def _sort_by_cost(self, cost: Cost) -> NDArray[np.int64]:
        """From the one that costs most to the one that costs least; equal ones in a random order."""
        batches = np.diff(self._firsts)
        # The largest batch of a bucket stands for all of them.
        costs = -(-np.diff(self._starts) // batches) * self._longest
        if cost == "quadratic":
            costs *= self._longest
        levels = np.repeat(np.searchsorted(_make_levels(int(costs.max())), costs), batches)
        random = random_bits(random_key(self._seed, -17, 0), np.arange(len(self), dtype=np.int64))
        return np.lexsort((random, -levels)).astype(np.int64, copy=False)


def _make_buckets(
    padded: NDArray[np.int64], budget: int, max_padding: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cut lengths in falling order into buckets of as many full batches as `max_padding` allows, at least one."""
    sums = np.concatenate([[0], np.cumsum(padded)])
    bounds, batches, longest = [0], [], []
    while (start := bounds[-1]) < padded.size:
        length = int(padded[start])
        size = budget // length
        # The share of padding only grows with the number of documents.
        low, high = 1, padded.size - start
        while low < high:
            middle = (low + high + 1) // 2
            if int(sums[start + middle] - sums[start]) >= (1 - max_padding) * middle * length:
                low = middle
            else:
                high = middle - 1
        count = min(max(low // size, 1) * size, padded.size - start)
        if start + low == padded.size:
            count = low
        bounds.append(start + count)
        batches.append(-(-count // size))
        longest.append(length)
    return (
        np.array(bounds, dtype=np.int64),
        np.array(batches, dtype=np.int64),
        np.array(longest, dtype=np.int64),
    )


def _split(batches: NDArray[np.int64], documents: NDArray[np.int64], more: int) -> None:
    """Make some more batches of the same documents, in the buckets that have most batches for each new one.

    Nothing is changed if there are too few documents.
    """
    if int((documents - batches).sum()) < more:
        return
    before = batches.copy()
    for _ in range(more):
        ratios = np.where(batches < documents, before / (1 + batches - before), -1)
        batches[int(ratios.argmax())] += 1


def _make_levels(most: int) -> NDArray[np.int64]:
    """Return costs, each some 2 % above the one before. Logarithms would differ between machines."""
    levels = [1]
    while levels[-1] < most:
        levels.append(max(levels[-1] + 1, levels[-1] * 51 // 50))
    return np.array(levels, dtype=np.int64)

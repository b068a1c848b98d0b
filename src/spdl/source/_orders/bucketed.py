"""An order in which the items of a batch are about equally long, and batches under a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_choice, check_int, check_number, positive, refuse
from spdl._random_key import random_key
from spdl.source._orders.order import (
    KeyedPermutation,
    Order,
    Recent,
    check_positions,
    digest,
    random_bits,
    random_order,
    to_numbers,
)

_ONLY_WITH_BUDGET = {"multiple": 1, "max_padding": 0.02, "cost": "linear", "too_long": "error"}


class BucketedOrder(Order):
    """A shuffled order in which the items of a group have similar lengths, so that little is lost to padding.

    The items are shuffled. In each `window` of groups, the items are sorted by length and cut into groups, and the
    groups are shuffled. So the groups of a window come in a random order, an item meets other ones in each epoch, and
    the length of what comes next says nothing.

    Make a group as large as the batches of all ranks together, ``world_size * batch_size``: then all ranks have items
    of similar length in the same step, and none waits for another that has longer ones. If a run is continued with
    another number of ranks or another batch size, keep the group's size, since it is a part of the order.

    **Batches under a budget.** With `tokens_per_batch`, the order makes the batches: each holds as many documents as
    fit. A batch of n documents takes n times its longest one, padding included. The positions of the order are
    then batches, and `EpochSampler.batch_sampler` yields their documents, a list of varying size for each step. The
    number of batches depends on the lengths and the arguments alone, so it is the same in every epoch and all ranks
    take equally many steps. Documents are sorted by length once, when the order is made, which takes about a second for
    ten million. They are then shuffled among others of similar length, and the batches are shuffled.

    Args:
        lengths: The length of each item, in any unit: ints or floats. With a budget, in tokens: ints of at least 0.
        group: The number of items of a group. With a budget, the number of batches that have a similar cost and that
            the ranks take in the same step: make it the number of ranks. Their number is then a multiple of it, so no
            rank repeats a batch at the end of an epoch, unless that would take more batches than there are documents.
            None is 1 with a budget, and must be given without one.
        window: How many groups are sorted together. With more, lengths within a group differ less. None is 100. Not
            with a budget.
        seed: The run. Any int.
        tokens_per_batch: The most tokens of a batch after padding. None makes no batches.
        multiple: Only with a budget: lengths are padded to a multiple of this, as `spdl.io.pad` does it.
        max_padding: Only with a budget: how much of a batch may be padding for the sake of shuffling. With more,
            documents meet more different ones. If documents are few, batches may have more padding than that.
        cost: Only with a budget: the batches of a group have a similar cost. ``"linear"`` is the number of tokens with
            padding, ``"quadratic"`` that number times the padded length, as in attention over padded rows.
        too_long: Only with a budget: ``"error"`` refuses documents that exceed the budget alone, ``"drop"`` leaves them
            out. `dropped` has them.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `lengths` is empty, if one is NaN or, with a budget, negative or too long, or if another argument
            is out of range.

    Example:
        >>> from spdl.source import BucketedOrder, EpochSampler
        >>> order = BucketedOrder([9, 1, 8, 2, 7, 1], group=2, seed=1)
        >>> sampler = EpochSampler(order, batch_size=2, rank=0, world_size=1)
        >>> sorted(sorted(batch) for batch in sampler.batch_sampler)
        [[0, 2], [1, 5], [3, 4]]

        At most 16 tokens in a batch:

        >>> order = BucketedOrder([9, 1, 8, 2, 7, 1], tokens_per_batch=16, seed=1)
        >>> sampler = EpochSampler(order, rank=0, world_size=1)
        >>> sorted(sorted(batch) for batch in sampler.batch_sampler)
        [[0], [1, 3, 5], [2, 4]]
    """

    _kind = "bucketed"

    def __init__(
        self,
        lengths: Sequence[float] | NDArray[np.generic],
        /,
        *,
        group: int | None = None,
        window: int | None = None,
        seed: int = 0,
        tokens_per_batch: int | None = None,
        multiple: int = 1,
        max_padding: float = 0.02,
        cost: Cost = "linear",
        too_long: TooLong = "error",
    ) -> None:
        # A copy, since a later change would be another order.
        self._lengths: NDArray[Any] = np.array(to_numbers(lengths, "iuf", "a sequence of numbers"))
        if self._lengths.dtype.kind == "f" and np.isnan(self._lengths).any():
            refuse(ValueError, f"lengths[{int(np.isnan(self._lengths).argmax())}]", "a number", float("nan"))
        self._size = self._num_items = int(self._lengths.size)
        self.seed = check_int("seed", seed, least=None)
        self._batches: BudgetBatches | None = None
        if tokens_per_batch is not None:
            if window is not None:
                refuse(ValueError, "window", "None with `tokens_per_batch`, which has `max_padding`", window)
            self._batches = BudgetBatches(
                self._lengths,
                tokens_per_batch,
                group=1 if group is None else positive("group", group),
                multiple=multiple,
                max_padding=max_padding,
                cost=cost,
                too_long=too_long,
                seed=self.seed,
            )
            self._size = len(self._batches)
            self._name = f"{self._batches.name}, seed={self.seed}"
            # They are not needed any more.
            self._lengths = self._lengths[:0]
            return
        given = {"multiple": multiple, "max_padding": max_padding, "cost": cost, "too_long": too_long}
        for name, default in _ONLY_WITH_BUDGET.items():
            if given[name] != default:
                refuse(ValueError, name, f"{default!r} without `tokens_per_batch`", given[name])
        self._group = positive("group", group)
        self._window = 100 if window is None else positive("window", window)
        self._shuffled = Recent(self._shuffle)
        self._sorted = Recent(self._sort, kept=8)
        is_int = self._lengths.dtype.kind in "iu"
        as_bytes = self._lengths.astype("<i8" if is_int else self._lengths.dtype.newbyteorder("<")).tobytes()
        self._name = (
            f"{self._lengths.size} by lengths {digest(as_bytes)}, group={self._group}, window={self._window}, "
            f"seed={self.seed}"
        )

    @property
    def num_items(self) -> int:
        """The number of items, also of those that were dropped."""
        return self._num_items

    @property
    def makes_batches(self) -> bool:
        """Whether there is a budget, so that positions are batches."""
        return self._batches is not None

    @property
    def dropped(self) -> NDArray[np.int64]:
        """The documents that no batch has, since each alone exceeds `tokens_per_batch`; in rising order."""
        return np.empty(0, dtype=np.int64) if self._batches is None else self._batches.dropped

    def batch(self, number: int, epoch: int) -> NDArray[np.int64]:
        """Return the documents of a batch, in an order that is random as well.

        Args:
            number: The number of the batch, as `take` returns it for a position of this epoch.
            epoch: The pass over the data, from 0.

        Returns:
            A new array.

        Raises:
            IndexError: If there is no such batch.
            ValueError: If the order makes no batches.

        Example:
            >>> import numpy as np
            >>> from spdl.source import BucketedOrder
            >>> order = BucketedOrder([3, 3, 2, 2], tokens_per_batch=6)
            >>> numbers = order.take(0, np.arange(len(order)))
            >>> sorted(sorted(order.batch(number, 0).tolist()) for number in numbers)
            [[0, 1], [2, 3]]
        """
        if self._batches is None:
            raise ValueError("This BucketedOrder makes no batches: give it `tokens_per_batch`.")
        return self._batches.batch(check_int("number", number, least=None), epoch)

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch; with a budget, the numbers of batches.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others.
        """
        if self._batches is not None:
            return self._batches.take(epoch, positions)
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

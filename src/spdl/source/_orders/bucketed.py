"""An order in which the items of a batch are about equally long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_int, positive, refuse
from spdl._random_key import random_key
from spdl.source._orders.order import KeyedPermutation, Order, Recent, check_positions, digest, random_order, to_numbers
from spdl.source._orders.token_budget import BudgetBatches, Cost, TooLong

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

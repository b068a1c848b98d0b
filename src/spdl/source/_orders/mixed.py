"""An order that mixes several sources."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from spdl._check import check_int, check_iterable, positive, refuse
from spdl._random_key import random_key
from spdl.source._orders.order import (
    EpochOrder,
    KeyedPermutation,
    Recent,
    ShuffledOrder,
    check_positions,
    refuse_batches,
)
from spdl.source._orders.weighted import to_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LARGEST = 2**48
# How finely weights are distinguished, and how many draws hold them exactly.
_MOST_SLOTS = 65_536
_FEWEST_SLOTS = 1024
# States shall stay short.
_LONG = 300


class MixedOrder:
    """Several datasets mixed in given proportions, each of which goes through separate epochs.

    A small dataset with a high weight is gone through several times while a large one is gone through once. Nothing is
    drawn independently: in every round of 1,024 to 65,536 draws the proportions are exact, and each dataset yields each
    of its items once before it yields one again, also across the epochs of the mix. A round is short where the weights
    are small ints, such as 3 and 1, and has 65,536 draws if they are fractions, such as 0.7 and 0.3. Which dataset
    yields what is a function of the position alone. So the mix can be shared among ranks, cut and resumed like any
    other order.

    The indices are as in the datasets put one after the other, as in ``torch.utils.data.ConcatDataset``. `locate`
    returns the dataset and the item of an index.

    Args:
        parts: For each dataset its number of items, which are then shuffled, or a separate `EpochOrder`.
        sizes: How many items each dataset has. None takes the order's ``num_items``, if it has one, or the
            length of its epoch. Give it if a custom order leaves items out or repeats some, since the indices
            of the next dataset follow.
        weights: How often each dataset's turn comes, in any unit: numbers of at least 0. None takes the length of each
            one's epoch, which is its number of items unless a custom order leaves some out or repeats some.
            Weights that are not small ints are rounded to multiples of 1/65,536 of their sum, and none above 0 to 0.
        num_samples: The number of items of an epoch of the mix. None is the sum of the lengths of the epochs of all
            datasets whose weight is above 0.
        seed: The run. Any int.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `parts` is empty, if one is empty, if `sizes` are not one number for each, or if `weights` are
            not one number of at least 0 for each, with one above 0.

    Example:
        >>> from spdl.source import EpochSampler, MixedOrder
        >>> order = MixedOrder([1000, 10], weights=[3, 1], num_samples=400, seed=1)
        >>> indices = list(EpochSampler(order, rank=0, world_size=1))
        >>> [order.locate(index) for index in (5, 1005)]
        [(0, 5), (1, 5)]
        >>> sum(index >= 1000 for index in indices) in range(80, 120)
        True
    """

    def __init__(
        self,
        parts: Sequence[int | EpochOrder],
        /,
        *,
        sizes: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        num_samples: int | None = None,
        seed: int = 0,
    ) -> None:
        self.seed = check_int("seed", seed, least=None)
        check_iterable("parts", parts, "the orders of several datasets, or their numbers of items, in a list")
        self.parts = tuple(_to_order(part, number, self.seed) for number, part in enumerate(parts))
        if not self.parts:
            refuse(ValueError, "parts", "at least one dataset", parts)
        lengths = [len(part) for part in self.parts]
        shares = to_weights("weights", lengths if weights is None else weights)
        if shares.size != len(lengths):
            refuse(ValueError, "weights", f"{len(lengths)} numbers, one for each part", weights)
        self._sizes = _check_sizes(sizes, self.parts)
        self._starts = [0, *accumulate(self._sizes)]
        if self._starts[-1] > _LARGEST:
            refuse(ValueError, "parts", f"at most {_LARGEST} items in all", parts)
        self._slots = _to_slots(shares)
        self._bounds = np.cumsum(self._slots)
        self._round = int(self._bounds[-1])
        likely = sum(length for length, slots in zip(lengths, self._slots.tolist(), strict=True) if slots)
        self._size = likely if num_samples is None else positive("num_samples", num_samples)
        if self._size > _LARGEST:
            refuse(ValueError, "num_samples", f"at most {_LARGEST}", num_samples)
        self._rounds = Recent(self._make_round)

    @property
    def fingerprint(self) -> str:
        """A text that names the order."""
        parts = ", ".join(
            # The number of items is a part of what tells most orders apart.
            part.fingerprint if size == len(part) else f"{part.fingerprint} of {size} items"
            for part, size in zip(self.parts, self._sizes, strict=True)
        )
        if len(parts) > _LONG:
            parts = f"{len(self.parts)} parts {blake2b(parts.encode(), digest_size=6).hexdigest()}"
        shares = ":".join(map(str, (self._slots // _divisor(self._slots)).tolist()))
        if len(shares) > _LONG:
            shares = blake2b(shares.encode(), digest_size=6).hexdigest()
        return f"mixed(n={self._size}, {shares} of {parts}, seed={self.seed})"

    def __len__(self) -> int:
        return self._size

    @property
    def num_items(self) -> int:
        """How many items all datasets have together."""
        return self._starts[-1]

    def locate(self, index: int) -> tuple[int, int]:
        """Return the number of the dataset that an index belongs to, and the index in it.

        Args:
            index: An index that the order yielded.

        Raises:
            TypeError: If it is not an int.
            IndexError: If no dataset has it.
        """
        index = check_int("index", index, least=None)
        if not 0 <= index < self._starts[-1]:
            raise IndexError(f"index {index} is out of range for {self._starts[-1]} items of all parts")
        part = bisect_right(self._starts, index) - 1
        return part, index - self._starts[part]

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the indices of the items at some positions of an epoch.

        Args:
            epoch: The pass over the mix, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others, or if a part yields an index that its dataset does not have.
        """
        check_positions(positions, self._size)
        rounds, places = np.divmod(epoch * self._size + positions, self._round)
        chosen, draws = np.empty_like(places), np.empty_like(places)
        for number in np.unique(rounds).tolist():
            here = rounds == number
            parts, before = self._rounds(number)
            chosen[here] = parts[places[here]]
            draws[here] = before[places[here]]
        draws += rounds * self._slots[chosen]
        found = np.empty_like(places)
        for part in np.unique(chosen).tolist():
            here = chosen == part
            indices = self._take_part(self.parts[part], draws[here])
            if indices.size and (indices.min() < 0 or indices.max() >= self._sizes[part]):
                wrong = int(indices[(indices < 0) | (indices >= self._sizes[part])][0])
                raise IndexError(
                    f"parts[{part}] ({self.parts[part].fingerprint}) yielded the index {wrong}, and its dataset is "
                    f"taken to have {self._sizes[part]} items. Give `sizes`: the number of items of each dataset."
                )
            found[here] = self._starts[part] + indices
        return found

    @staticmethod
    def _take_part(order: EpochOrder, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        epochs, positions = np.divmod(draws, len(order))
        found = np.empty_like(positions)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            found[here] = order.take(epoch, positions[here])
        return found

    def _make_round(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each draw of a round whose turn it is, and how many turns in the round it has had before."""
        order = KeyedPermutation(self._round, seed=random_key(self.seed, -11, 0), epoch=number)[:]
        parts = np.searchsorted(self._bounds, order, side="right").astype(np.int64, copy=False)
        before = np.empty_like(parts)
        # Sorted by part, the draws of each part follow each other.
        before[np.argsort(parts, kind="stable")] = np.arange(self._round) - np.repeat(
            self._bounds - self._slots, self._slots
        )
        return parts, before

    def __repr__(self) -> str:
        return f"MixedOrder of {len(self.parts)} parts: {self.fingerprint}"


def _to_order(part: int | EpochOrder, number: int, seed: int) -> EpochOrder:
    if isinstance(part, EpochOrder):
        if not len(part):
            refuse(ValueError, f"parts[{number}]", "an order of at least one item", part)
        refuse_batches(f"parts[{number}]", part)
        return part
    size = check_int(f"parts[{number}]", part, least=1, accepted="a number of items of at least 1, or an EpochOrder")
    return ShuffledOrder(size, seed=random_key(seed, -12, number))


def _check_sizes(sizes: Sequence[int] | None, parts: Sequence[EpochOrder]) -> list[int]:
    if sizes is None:
        return [getattr(part, "num_items", len(part)) for part in parts]
    check_iterable("sizes", sizes, f"{len(parts)} numbers, one for each part, or None")
    given = list(sizes)
    if len(given) != len(parts):
        refuse(ValueError, "sizes", f"{len(parts)} numbers, one for each part", sizes)
    return [check_int(f"sizes[{number}]", size, least=1) for number, size in enumerate(given)]


def _divisor(slots: NDArray[np.int64]) -> int:
    return gcd(*slots.tolist())


def _to_slots(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many draws of each round belong to each dataset."""
    if (weights == np.floor(weights)).all() and weights.sum() < 2**53:
        exact = weights.astype(np.int64)
        exact //= _divisor(exact)
        if (total := int(exact.sum())) <= _MOST_SLOTS:
            # More draws than that, so that datasets do not simply take turns.
            return exact * -(-_FEWEST_SLOTS // total)
    shares = weights / weights.max()
    shares = shares / shares.sum() * _MOST_SLOTS
    slots: NDArray[np.int64] = np.maximum(np.floor(shares).astype(np.int64), (weights > 0).astype(np.int64))
    missing = _MOST_SLOTS - int(slots.sum())
    if missing > 0:
        slots[np.argsort(slots - shares, kind="stable")[:missing]] += 1
    return slots

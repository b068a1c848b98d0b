"""Whose turn it is in a mix by items."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from spdl._random_key import random_key
from spdl.source._orders.order import KeyedPermutation, Recent

if TYPE_CHECKING:
    from numpy.typing import NDArray

# How finely weights are distinguished, and how many draws hold them exactly.
_MOST_SLOTS = 65_536
_FEWEST_SLOTS = 1024


class ItemTurns:
    """Turns by items: rounds in which the proportions of draws are exact.

    Args:
        weights: How often the turn of each part comes.
        seed: The mix.
    """

    def __init__(self, weights: NDArray[np.float64], seed: int) -> None:
        self._seed = seed
        self._slots = _to_slots(weights)
        self._bounds = np.cumsum(self._slots)
        self.round = int(self._bounds[-1])
        self._rounds = Recent(self._make_round)

    @property
    def name(self) -> str:
        """The proportions, as a text."""
        return ":".join(map(str, (self._slots // gcd(*self._slots.tolist())).tolist()))

    def take(self, turns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each turn the part that has it, and how many turns that part has had before."""
        rounds, places = np.divmod(turns, self.round)
        chosen, draws = np.empty_like(places), np.empty_like(places)
        for number in np.unique(rounds).tolist():
            here = rounds == number
            parts, before = self._rounds(number)
            chosen[here] = parts[places[here]]
            draws[here] = before[places[here]]
        draws += rounds * self._slots[chosen]
        return chosen, draws

    def drawn(self, turn: int) -> NDArray[np.int64]:
        """Return how many turns each part has had before one."""
        number, place = divmod(turn, self.round)
        parts, _ = self._rounds(number)
        return number * self._slots + np.bincount(parts[:place], minlength=self._slots.size)

    def certain(self, left: NDArray[np.int64]) -> int:
        """Return a number of turns in which no part draws more than it has left."""
        return int((left[self._slots > 0] // self._slots[self._slots > 0]).min()) * self.round

    def _make_round(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each draw of a round whose turn it is, and how many turns in the round it has had before."""
        order = KeyedPermutation(self.round, seed=random_key(self._seed, -11, 0), epoch=number)[:]
        parts = np.searchsorted(self._bounds, order, side="right").astype(np.int64, copy=False)
        before = np.empty_like(parts)
        # Sorted by part, the draws of each part follow each other.
        before[np.argsort(parts, kind="stable")] = np.arange(self.round) - np.repeat(
            self._bounds - self._slots, self._slots
        )
        return parts, before


def _to_slots(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many draws of each round belong to each dataset."""
    if (weights == np.floor(weights)).all() and weights.sum() < 2**53:
        exact = weights.astype(np.int64)
        exact //= gcd(*exact.tolist())
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

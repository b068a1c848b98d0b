"""One of the datasets of a mix, which may have grown between the stages of a run."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._random_key import random_key
from spdl.source._orders.order import EpochOrder, KeyedPermutation, ShuffledOrder


class Phase(NamedTuple):
    """A part of a run in which a corpus had the same size."""

    size: int
    drawn: int
    """How many items were drawn in it; in the last phase, before the present stage."""


class Corpus:
    """Which item comes at which draw of a stage.

    A corpus yields each of its items once, a pass, before it yields one again. If it has grown, the items that were
    left of the pass under way and the new ones come first, shuffled together. Then come passes over all items.

    There is more than one phase only with `seed`, which is None if the user made the order.
    """

    def __init__(self, order: EpochOrder, phases: tuple[Phase, ...], seed: int | None) -> None:
        self.order = order
        self.phases = phases
        self._seed = seed
        # For each phase: its order; how many items were left of the former's last pass and are new; the number of its
        # first whole pass.
        self._orders = [order]
        if seed is not None:
            self._orders = [*(ShuffledOrder(phase.size, seed=seed) for phase in phases[:-1]), order]
        self._heads, self._passes = [0], [0]
        for number, (before, phase) in enumerate(pairwise(phases)):
            whole = max(before.drawn - self._heads[number], 0)
            self._heads.append(self._left(number) + phase.size - before.size)
            self._passes.append(self._passes[number] - (-whole // before.size))

    @property
    def left(self) -> int:
        """How many items the stage can draw before one comes again."""
        return self._left(len(self.phases) - 1)

    def take(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        last = len(self.phases) - 1
        return self._take(last, draws + self.phases[last].drawn)

    def _take(self, number: int, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        head = self._heads[number]
        found = np.empty_like(draws)
        passes, positions = np.divmod(draws - head, len(self._orders[number]))
        for each in np.unique(passes[draws >= head]).tolist():
            here = (passes == each) & (draws >= head)
            found[here] = self._orders[number].take(self._passes[number] + each, positions[here])
        if (first := draws < head).any():
            shuffled = KeyedPermutation(head, seed=random_key(self._seed or 0, -13, number))
            found[first] = self._take_left(number - 1, shuffled.take(draws[first]))
        return found

    def _take_left(self, number: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some of the items that a phase has left of its last pass, or that have come since."""
        size, drawn = self.phases[number]
        left = self._left(number)
        found = places - left + size
        if (old := places < left).any():
            found[old] = self._take(number, drawn + places[old])
        return found

    def _left(self, number: int) -> int:
        drawn, head = self.phases[number].drawn, self._heads[number]
        size = len(self._orders[number])
        if drawn < head:
            return head - drawn
        # At the very end of a pass nothing is left of it.
        return 0 if drawn and (drawn - head) % size == 0 else size - (drawn - head) % size

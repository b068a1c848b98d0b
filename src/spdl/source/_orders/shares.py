"""Which positions of an epoch each rank has, as runs of integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._ranges import Ranges

EMPTY = Ranges()


class Sharing(NamedTuple):
    world_size: int
    batch_size: int
    drop_last: bool
    even_batches: bool


class Plan:
    """The positions of an epoch that are not delivered yet, shared among the ranks.

    The positions form a line without those that were delivered before. In step s, rank r of W takes the B positions
    from ``(s*W + r) * B`` on. So after any number of steps, what all ranks together took is the beginning of the line,
    whatever W and B are. If fewer than W*B are left for the last step, the ranks share them evenly.
    """

    def __init__(self, size: int, delivered: Ranges, sharing: Sharing) -> None:
        self.size = size
        self.delivered = delivered
        self.sharing = sharing
        self._line = delivered.complement(size)
        step = sharing.world_size * sharing.batch_size
        self.full_steps, self.rest = divmod(len(self._line), step)

    @cached_property
    def steps(self) -> int:
        """The number of batches of each rank; without ``even_batches``, some ranks may have one less."""
        return self.full_steps + bool(self.rest and not self.sharing.drop_last)

    def count(self, rank: int) -> int:
        full = self.full_steps * self.sharing.batch_size
        if self.sharing.drop_last or not self.rest:
            return full
        start, stop = self._share(rank)
        return full + max(stop - start, int(self.sharing.even_batches))

    def ends_with_others(self, rank: int) -> bool:
        """Return whether a rank has a part in the last step. Otherwise, others have one more."""
        return not self._short or self.count(rank) > self.full_steps * self.sharing.batch_size

    def repeats(self, rank: int) -> int:
        start, stop = self._share(rank)
        return self.count(rank) - self.full_steps * self.sharing.batch_size - (stop - start) if self._short else 0

    @property
    def _short(self) -> bool:
        return self.rest > 0 and not self.sharing.drop_last

    def _share(self, rank: int) -> tuple[int, int]:
        world_size = self.sharing.world_size
        return self.rest * rank // world_size, self.rest * (rank + 1) // world_size

    def positions(self, rank: int, turns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in the epoch of a rank's items, by their numbers among all that it takes."""
        world_size, size, _, _ = self.sharing
        steps = turns // size
        line = turns + (steps * (world_size - 1) + rank) * size
        if turns.size and turns.max() >= self.full_steps * size:
            # The last step is short: the first turn in it belongs to the first position of the rank's share.
            last = turns >= self.full_steps * size
            first = self.full_steps * world_size * size
            start, stop = self._share(rank)
            line[last] = turns[last] - self.full_steps * size + first + start
            if start == stop:
                # One of this very step: any other would depend on where the epoch was cut.
                line[last] = first + rank % self.rest
        return self._line.select(line)

    def same_steps(self, rank: int, turns: int, other: int) -> Ranges:
        """Return the first items of another rank, in as many steps as a rank needed for a number of items.

        The last step is over for all ranks when it is for one, though they take different numbers of items in it. A
        rank without items in the last step does not know whether others have taken theirs: they take them again.
        """
        full = self.full_steps * self.sharing.batch_size
        over = turns == self.count(rank) > full
        return Ranges([(0, self.count(other) if over else min(turns, self.count(other)))])

    def taken(self, turns: Sequence[Ranges]) -> Ranges:
        """Return the positions that were delivered before or that the ranks have taken, each some of its turns."""
        world_size, size, _, _ = self.sharing
        full = self.full_steps * size
        # The steps that all ranks have completed are one range, however many there are.
        common = min([self.full_steps, *(each.watermark // size for each in turns)])
        line = [(0, common * world_size * size)]
        for rank, runs in enumerate(turns):
            for start, stop in runs.runs:
                line += self._pieces(rank, max(start, common * size), min(stop, full))
                if stop > full:
                    line += self._pieces_of_share(rank, max(start, full) - full, stop - full)
        return self.delivered.union(self._line.parts(line))

    def taken_by_all(self, rank: int, turns: int) -> Ranges:
        """Return the same as `taken` if all ranks have taken as many steps as one needed for a number of items.

        That is one range however many ranks there are. If the ranks are within a step, it is one for each.
        """
        world_size, size, _, _ = self.sharing
        full = self.full_steps * size
        if turns == self.count(rank) > full:
            return self.delivered.union(self._line)
        steps, more = divmod(min(turns, full), size)
        at = steps * world_size * size
        line = [(0, at)]
        if more:
            line += [(start, start + more) for start in range(at, at + world_size * size, size)]
        elif turns > full:
            # A rank that is within the last step has two items in it or more, so no rank has none.
            first, more = full * world_size, turns - full
            starts = [first + self.rest * other // world_size for other in range(world_size + 1)]
            line += [(start, min(start + more, stop)) for start, stop in pairwise(starts)]
        return self.delivered.union(self._line.parts(line))

    def _pieces(self, rank: int, start: int, stop: int) -> list[tuple[int, int]]:
        world_size, size, _, _ = self.sharing
        if world_size == 1:
            return [(start, stop)]
        pieces = []
        while start < stop:
            step = start // size
            end = min(stop, (step + 1) * size)
            offset = (step * (world_size - 1) + rank) * size
            pieces.append((start + offset, end + offset))
            start = end
        return pieces

    def _pieces_of_share(self, rank: int, start: int, stop: int) -> list[tuple[int, int]]:
        share_start, share_stop = self._share(rank)
        first = self.full_steps * self.sharing.world_size * self.sharing.batch_size
        # An item that the rank repeats is another rank's.
        return [(first + share_start + start, first + min(share_start + stop, share_stop))]

"""Which samples each rank loads in each step of an epoch: a pure function of a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.dataloader._media.world import World

__all__ = ["EpochSteps", "Step"]


class Step(NamedTuple):
    """What one rank loads in one step."""

    places: list[int]
    """The places in the epoch's order that this rank takes."""
    end: int
    """How many places of the order all ranks have taken after this step."""


@dataclass(frozen=True)
class EpochSteps:
    """The steps of an epoch from a place in its order on.

    In each step all ranks together take the next ``world.size * batch_size`` places, each rank a block of its own. So
    one number says what is left, whatever the number of ranks and the size of the batches are from then on, and all
    ranks take equally many steps.

    Args:
        size: The number of samples of the epoch.
        batch_size: The samples of a batch of one rank.
        drop_last: Whether to leave out the last step if there are not enough samples for full batches on all ranks.
            If not, the ranks share the rest evenly; where it is fewer samples than ranks, some are taken twice.
        world: This rank, and how many there are.
        start: The place in the order to begin at.
    """

    size: int
    batch_size: int
    drop_last: bool
    world: World
    start: int = 0

    def __len__(self) -> int:
        together = self.batch_size * self.world.size
        left = self.size - self.start
        return left // together if self.drop_last else -(-left // together)

    def __iter__(self) -> Iterator[Step]:
        together = self.batch_size * self.world.size
        steps = len(self)
        for number in range(steps):
            first = self.start + number * together
            end = self.size if number == steps - 1 else first + together
            yield Step(self._own_part(first, min(together, self.size - first)), end)

    def _own_part(self, first: int, count: int) -> list[int]:
        rank, ranks = self.world
        if count < ranks:
            return [first + rank % count]
        if count == self.batch_size * ranks:
            return list(range(first + rank * self.batch_size, first + (rank + 1) * self.batch_size))
        return list(range(first + rank * count // ranks, first + (rank + 1) * count // ranks))

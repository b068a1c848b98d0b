"""Which samples one rank loads in each step of an epoch, from any place in its order on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl.source._order.plan import Plan, Sharing
from spdl.source._order.runs import EMPTY, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spdl.dataloader._media.world import World
    from spdl.source import EpochOrder

__all__ = ["EpochSteps", "Step"]


class Step(NamedTuple):
    """What one rank loads in one step."""

    indices: list[int]
    """The samples."""
    positions: list[int]
    """Their places in the epoch's order."""
    end: int
    """How many places of the epoch's order all ranks have taken after this step."""


class EpochSteps:
    """The steps of an epoch from a place in its order on, shared among ranks as `spdl.source.EpochSampler` does.

    In each step all ranks together take the next ``world.size * batch_size`` places, each rank a block of its own. So
    one number says what is left, whatever the number of ranks and the size of the batches are from then on.

    Args:
        order: The order of the samples.
        batch_size: The samples of a batch of one rank.
        drop_last: Whether to leave out the last step if there are not enough samples for full batches on all ranks.
        even_batches: Whether a rank that would have nothing in the last step repeats a sample, so that all take equally
            many steps.
        world: This rank, and how many there are.
        start: The place in the order to begin at.
    """

    def __init__(
        self,
        order: EpochOrder,
        batch_size: int,
        world: World,
        *,
        drop_last: bool,
        even_batches: bool,
        start: int = 0,
    ) -> None:
        self.world = world
        self.even_batches = even_batches
        self._order = order
        self._batch_size = batch_size
        self._start = start
        self._size = len(order)
        sharing = Sharing(world.size, batch_size, drop_last, even_batches)
        self._plan = Plan(self._size, Runs([(0, start)]) if start else EMPTY, sharing)

    @property
    def most(self) -> int:
        """The number of steps of the ranks that take most."""
        return self._plan.steps

    def __len__(self) -> int:
        """Return the number of steps of this rank."""
        full, rest = divmod(self._plan.count(self.world.rank), self._batch_size)
        return full + bool(rest)

    def read(self, epoch: int) -> Iterator[Step]:
        """Yield the steps of an epoch."""
        together = self._batch_size * self.world.size
        count = self._plan.count(self.world.rank)
        for number in range(len(self)):
            first = number * self._batch_size
            turns = np.arange(first, min(first + self._batch_size, count), dtype=np.int64)
            positions = self._plan.positions(self.world.rank, turns)
            indices = _checked(self._order.take(epoch, positions), positions.size, self._order)
            last = number == self.most - 1
            end = self._size if last else self._start + (number + 1) * together
            yield Step(indices.tolist(), positions.tolist(), end)


def _checked(indices: Any, count: int, order: EpochOrder) -> NDArray[np.int64]:
    """Return what an order gave for so many positions.

    Raises:
        TypeError: If it is not as many integers.
        IndexError: If one is negative, which would be counted from the source's end.
    """
    found = np.asarray(indices)
    if found.shape != (count,) or found.dtype.kind not in "iu":
        raise TypeError(
            f"`take` of the order {order.fingerprint!r} must return {count} integers for {count} positions, got "
            f"{found.dtype} in the shape {found.shape}."
        )
    if found.min() < 0:
        raise IndexError(f"`take` of the order {order.fingerprint!r} returned the negative position {found.min()}.")
    return found

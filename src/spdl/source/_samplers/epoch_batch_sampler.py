"""The batches of an epoch, shared among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_int, refuse
from spdl.source._order.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl.source._samplers.epoch_pass import Passes
    from spdl.source._samplers.epoch_sampler import EpochSampler

__all__ = ["EpochBatchSampler"]


class EpochBatchSampler:
    """The indices of an `EpochSampler` as lists, a list for each step. It shares the sampler's epoch and state.

    All lists have ``batch_size`` indices, save the last and, where a pass was cut, the first.
    `EpochSampler.batch_sampler` makes it.

    Example:
        >>> from spdl.source import EpochSampler
        >>> list(EpochSampler(5, batch_size=2, shuffle=False, rank=0, world_size=1).batch_sampler)
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: EpochSampler, passes: Passes) -> None:
        self.sampler = sampler
        self._passes = passes

    @property
    def batch_size(self) -> int:
        """The number of indices of a full batch."""
        return self.sampler.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether items that do not fill a batch on every rank are left out."""
        return self.sampler.drop_last

    def __len__(self) -> int:
        """Return the number of batches of this rank in a whole epoch."""
        return self.sampler.num_batches

    def __iter__(self) -> Iterator[list[int]]:
        """Begin the next pass and return an iterator over its batches."""
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[list[int]]:
        """Begin the next pass at a batch of it; see `EpochSampler.iterate_from`.

        Args:
            position: How many batches of the pass to leave out.

        Returns:
            An iterator.

        Raises:
            TypeError, ValueError: If `position` is no int of at least 0.
        """
        position = check_int("position", position, least=0)
        return self._passes.begin().iterate_batches(position)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; see `EpochSampler.set_epoch`.

        Args:
            epoch: An int of at least 0.

        Raises:
            TypeError, ValueError: If it is no such int.
        """
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return which batches were yielded; see `EpochSampler.state_dict`."""
        return self.sampler.state_dict()

    def state_at(self, epoch: int, received: int, beyond: Iterable[tuple[int, int]] = ()) -> dict[str, Any]:
        """Return the state of a consumer that has received some batches; see `EpochSampler.state_at`.

        Args:
            epoch: The epoch of the pass.
            received: How many batches from the beginning of the pass on were received.
            beyond: Ranges of batches that were received besides: the first and the one after the last.

        Raises:
            TypeError, ValueError: If the pass has no such batches.
        """
        begun = self._passes.get(check_int("epoch", epoch, least=0))
        taken = Runs([(0, check_int("received", received, least=0)), *beyond])
        if taken.stop > begun.count_batches():
            refuse(ValueError, "received", f"at most {begun.count_batches()}, the batches of the pass", taken.stop)
        items = begun.places_of_batches(taken)
        return self.sampler.state_at(epoch, items.watermark, items.ranges)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass yield what a state does not say was received; see `EpochSampler.load_state_dict`.

        Args:
            state: What `state_dict` returned here or elsewhere, or `merge_states`.

        Raises:
            TypeError, ValueError: If it cannot be loaded here.
        """
        self.sampler.load_state_dict(state)

"""The batches of an epoch, shared among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_int
from spdl.source._samplers.epoch_pass import pass_of_state, to_places
from spdl.source._samplers.epoch_state import merge_states, read_state

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
        """Return an iterator that begins the next pass when its first batch is taken."""
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[list[int]]:
        """Return an iterator that begins the next pass at a batch of it; see `EpochSampler.iterate_from`.

        Args:
            position: How many batches of the pass to leave out.

        Returns:
            An iterator.

        Raises:
            TypeError, ValueError: If `position` is no int of at least 0.
        """
        position = check_int("position", position, least=0)
        return self._passes.iterate_batches(position)

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

    def advance_state(
        self, state: dict[str, Any], received: int, beyond: Iterable[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """Return the state of a consumer that has received some batches; see `EpochSampler.advance_state`.

        Args:
            state: What `state_dict` returned before the pass, here or on another rank.
            received: How many batches from the beginning of the pass on were received.
            beyond: Ranges of batches that were received besides: the first and the one after the last.

        Returns:
            A new state.

        Raises:
            TypeError, ValueError: If it is no state of one rank, or the pass has no such batches.
        """
        read = read_state(state)
        begun = pass_of_state(self.sampler.order, read)
        numbers = to_places(received, beyond, begun.count_batches(), "batches")
        return begun.state(read.fingerprint, begun.places_of_batches(numbers))

    def next_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the pass that follows; see `EpochSampler.next_state`.

        Args:
            state: What `state_dict` returned before the pass.

        Returns:
            A new state.

        Raises:
            TypeError, ValueError: If it is no state of one rank.
        """
        return self.sampler.next_state(state)

    # What loads the states of pipelines calls it for the sampler's.
    merge_states = staticmethod(merge_states)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass yield what a state does not say was received; see `EpochSampler.load_state_dict`.

        Args:
            state: What `state_dict` returned here or elsewhere, or `merge_states`.

        Raises:
            TypeError, ValueError: If it cannot be loaded here.
        """
        self.sampler.load_state_dict(state)

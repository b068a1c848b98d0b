"""One pass of one rank over its part of an epoch, or over what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int, refuse
from spdl.source._order.base import ranges_of_chunks
from spdl.source._order.shares import EMPTY, Runs
from spdl.source._samplers.distributed import check_rank_found
from spdl.source._samplers.epoch_state import EpochState, write_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl.source._order.base import EpochOrder
    from spdl.source._order.shares import Plan

__all__ = ["EpochPass", "Passes", "pass_of_state", "to_places"]


class EpochPass:
    """The items that a rank takes in an epoch and that it had not received when the pass began.

    An item has two numbers: its turn among all that the plan gives to the rank, and its place in this pass.

    Args:
        order: Which index comes at which position of the epoch.
        epoch: The epoch.
        plan: Which positions the rank takes.
        rank: The rank.
        received: The turns of the items that the rank has received before.
        others_behind: Whether others may have a batch left of the epoch before, which this rank has ended.
    """

    def __init__(
        self, order: EpochOrder, epoch: int, plan: Plan, rank: int, received: Runs, *, others_behind: bool = False
    ) -> None:
        self.order = order
        self.epoch = epoch
        self.plan = plan
        self.rank = rank
        self.others_behind = others_behind
        self._received = received
        self._turns = received.complement(plan.count(rank))
        # How many items of the pass were yielded, and whether the iterator has said that there are no more.
        self.taken = 0
        self.ended = False

    def __len__(self) -> int:
        return self._turns.count

    def state(self, fingerprint: str, places: Runs) -> dict[str, Any]:
        """Return the state of a consumer that has received the items at some places of the pass."""
        received = self._received.union(*(self._turns.part(start, stop) for start, stop in places.ranges))
        return write_state(
            EpochState(
                fingerprint,
                self.plan.size,
                self.epoch,
                self.plan.sharing,
                self.rank,
                self.plan.delivered,
                received,
                # Whoever has begun an epoch together has ended the one before.
                self.others_behind and not received.count,
            )
        )

    def iterate(self, place: int) -> Iterator[int]:
        """Yield the indices of the items from a place on."""
        self.taken = min(place, len(self))
        for start, stop in ranges_of_chunks(len(self), place):
            for index in self._indices(start, stop):
                self.taken += 1
                yield index
        self.ended = True

    def iterate_batches(self, number: int) -> Iterator[list[int]]:
        """Yield a list of indices for each step, from the pass's batch of a number on."""
        steps = self._steps()
        places = self.places_of_batches(Runs([(0, number)]))
        self.taken = places.stop
        for first, last in ranges_of_chunks(steps.count, number):
            numbers = steps.part(first, last)
            # Where each batch of this chunk begins among the items of the pass.
            starts = [self._turns.count_below(step * self.plan.sharing.batch_size) for step in numbers]
            stops = [*starts[1:], self._turns.count_below(numbers.stop * self.plan.sharing.batch_size)]
            indices = self._indices(starts[0], stops[-1])
            for start, stop in zip(starts, stops, strict=True):
                self.taken = stop
                yield indices[start - starts[0] : stop - starts[0]]
        self.ended = True

    def places_of_batches(self, numbers: Runs) -> Runs:
        """Return the places of the items that the pass's batches of some numbers hold."""
        size = self.plan.sharing.batch_size
        steps = self._steps()
        found = []
        for first, last in numbers.ranges:
            for start, stop in steps.part(first, last).ranges:
                found.append((self._turns.count_below(start * size), self._turns.count_below(stop * size)))
        return Runs(found)

    def count_batches(self) -> int:
        """Return the number of batches of the pass."""
        return self._steps().count

    def _steps(self) -> Runs:
        """Return the steps of the plan that have items in this pass."""
        size = self.plan.sharing.batch_size
        return Runs((start // size, (stop - 1) // size + 1) for start, stop in self._turns.ranges)

    def _indices(self, start: int, stop: int) -> list[int]:
        turns = self._turns.select(np.arange(start, stop, dtype=np.int64))
        # A list of Python ints is iterated several times as quickly as an array, and its items are keys everywhere.
        indices: list[int] = self.order.take(self.epoch, self.plan.positions(self.rank, turns)).tolist()
        return indices


def pass_of_state(order: EpochOrder, state: EpochState) -> EpochPass:
    """Return the pass that a rank's state begins.

    Raises:
        ValueError: If it is not the state of one rank.
    """
    if state.rank is None:
        raise ValueError("`state` must be one that state_dict() returned, not what merge_states() made of several.")
    return EpochPass(order, state.epoch, state.plan, state.rank, state.received, others_behind=state.others_behind)


def to_places(received: int, beyond: Iterable[tuple[int, int]], length: int, unit: str) -> Runs:
    """Return the set of the first places and some ranges.

    Raises:
        TypeError, ValueError: If they are no ints, or not below `length`.
    """
    ranges = [(check_int("beyond", start, least=0), check_int("beyond", stop, least=0)) for start, stop in beyond]
    places = Runs([(0, check_int("received", received, least=0)), *ranges])
    if places.stop > length:
        refuse(ValueError, "beyond" if ranges else "received", f"at most {length}, the {unit} of the pass", places.stop)
    return places


class Passes:
    """The passes of one rank, epoch after epoch: which one is under way and which one begins next.

    Args:
        order: Which index comes at which position of an epoch.
        plan: Which positions the rank takes of a whole epoch.
        rank: The rank.
        found_rank: Whether the rank was found and not given, so that it may turn out to be another.
    """

    def __init__(self, order: EpochOrder, plan: Plan, rank: int, *, found_rank: bool) -> None:
        self._order = order
        self._plan = plan
        self._rank = rank
        self._found_rank = found_rank
        self._next = self._make(0)
        self._current: EpochPass | None = None
        # Whether `choose` or `resume` has said what is next.
        self._chosen = False
        # The pass that was under way when an iterator over the next one was asked for, and how far it was. If it is no
        # further, it was left.
        self._before: tuple[EpochPass, int] | None = None

    @property
    def shown(self) -> EpochPass:
        """The pass under way, or the next one if none is, or if an iterator over that one was asked for."""
        current = self._current
        return self._next if current is None or current.ended or self._before == (current, current.taken) else current

    def begin(self) -> EpochPass:
        """Begin the next pass."""
        if self._found_rank:
            check_rank_found(self._rank, self._plan.sharing.world_size)
        begun = self._current = self._next
        self._next = self._make(begun.epoch + 1)
        self._chosen = False
        return begun

    def following(self, ended: EpochPass) -> EpochPass:
        """Return the pass that follows one, whatever other iterators have begun since."""
        if self._chosen:
            return self._next
        return self._make(ended.epoch + 1, others_behind=not ended.plan.ends_with_others(self._rank))

    def iterate(self, place: int) -> Iterator[int]:
        """Return an iterator that begins the next pass when its first index is taken, from a place on."""
        self._announce()
        return self._iterate(place)

    def iterate_batches(self, number: int) -> Iterator[list[int]]:
        """Return an iterator that begins the next pass when its first batch is taken, from one on."""
        self._announce()
        return self._iterate_batches(number)

    def choose(self, epoch: int) -> None:
        """Make the next pass one of an epoch: a whole one, unless a part of the epoch is next already."""
        if self._current is not None or epoch != self._next.epoch:
            self._next = self._make(epoch, others_behind=self._next.others_behind)
        self._current = None
        self._chosen = True

    def resume(self, epoch: int, plan: Plan, received: Runs, *, others_behind: bool) -> None:
        """Make the next pass one over a part of an epoch."""
        self._next = EpochPass(self._order, epoch, plan, self._rank, received, others_behind=others_behind)
        self._current = None
        self._chosen = True

    def _announce(self) -> None:
        self._before = None if self._current is None else (self._current, self._current.taken)

    def _iterate(self, place: int) -> Iterator[int]:
        begun = self.begin()
        yield from begun.iterate(place)
        self._note_end(begun)

    def _iterate_batches(self, number: int) -> Iterator[list[int]]:
        begun = self.begin()
        yield from begun.iterate_batches(number)
        self._note_end(begun)

    def _note_end(self, ended: EpochPass) -> None:
        if ended is self._current and not ended.plan.ends_with_others(self._rank):
            self._next = self._make(self._next.epoch, others_behind=True)

    def _make(self, epoch: int, *, others_behind: bool = False) -> EpochPass:
        return EpochPass(self._order, epoch, self._plan, self._rank, EMPTY, others_behind=others_behind)

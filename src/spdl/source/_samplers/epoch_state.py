"""How far ranks have come in an epoch, and states that say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spdl._check import check_int, check_iterable, refuse, show
from spdl._ranges import Ranges
from spdl._sealed import check_state, sealed
from spdl.source._orders.mix_stages import progress_of
from spdl.source._orders.mixed import MixedOrder
from spdl.source._orders.order import EpochOrder, makes_batches, ranges_of_chunks
from spdl.source._orders.shares import EMPTY, Plan, Sharing
from spdl.source._samplers.distributed import check_rank_found

T = TypeVar("T")


class EpochPass:
    """The items that a rank takes in an epoch and that it had not received when the pass began.

    An item has two numbers: its turn among all that the plan gives to the rank, and its place in this pass. `received`
    are turns. Others may be behind: they may have a batch left of the epoch before, which this rank has ended.
    """

    def __init__(
        self, order: EpochOrder, epoch: int, plan: Plan, rank: int, received: Ranges, *, others_behind: bool = False
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
        return len(self._turns)

    def state(self, fingerprint: str, places: Ranges, former: EpochState | None = None) -> dict[str, Any]:
        """Return the state of a consumer that has received some places of the pass, which the `former` state began."""
        received = self._received.union(*(self._turns.parts([(start, stop)]) for start, stop in places.runs))
        return write_state(
            EpochState(
                fingerprint,
                self.plan.size,
                self.epoch,
                self.plan.sharing,
                self.rank,
                self.plan.delivered,
                received,
                # Ranks that have begun an epoch together have ended the one before.
                self.others_behind and not received,
                self._describe_mix(received, former),
            )
        )

    def _describe_mix(self, received: Ranges, former: EpochState | None) -> dict[str, Any] | None:
        if not isinstance(self.order, MixedOrder):
            return None
        if former is not None and not former.fingerprint.startswith(self.order.fingerprint):
            return former.mix
        # If the ranks take their steps together, all have come at least as far.
        world_size, size, _, _ = self.plan.sharing
        position = self.plan.delivered.watermark + received.watermark // size * size * world_size
        return progress_of(self.order, self.epoch, min(position, self.plan.size)).write()

    def iterate(self, place: int) -> Iterator[int]:
        self.taken = min(place, len(self))
        for start, stop in ranges_of_chunks(len(self), place):
            for index in self._indices(start, stop):
                self.taken += 1
                yield index
        self.ended = True

    def iterate_batches(self, number: int) -> Iterator[list[int]]:
        steps = self._steps()
        places = self.places_of_batches(Ranges([(0, number)]))
        together = makes_batches(self.order)
        self.taken = places.stop
        for first, last in ranges_of_chunks(len(steps), number):
            numbers = steps.parts([(first, last)])
            # The beginning of each batch of this chunk among the items of the pass.
            starts = [self._turns.count_below(step * self.plan.sharing.batch_size) for step in numbers]
            stops = [*starts[1:], self._turns.count_below(numbers.stop * self.plan.sharing.batch_size)]
            indices = self._indices(starts[0], stops[-1])
            for start, stop in zip(starts, stops, strict=True):
                self.taken = stop
                batch = indices[start - starts[0] : stop - starts[0]]
                yield self._documents(batch[0]) if together else batch
        self.ended = True

    def places_of_batches(self, numbers: Ranges) -> Ranges:
        size = self.plan.sharing.batch_size
        steps = self._steps()
        found = []
        for first, last in numbers.runs:
            for start, stop in steps.parts([(first, last)]).runs:
                found.append((self._turns.count_below(start * size), self._turns.count_below(stop * size)))
        return Ranges(found)

    def count_batches(self) -> int:
        return len(self._steps())

    def _steps(self) -> Ranges:
        size = self.plan.sharing.batch_size
        return Ranges((start // size, (stop - 1) // size + 1) for start, stop in self._turns.runs)

    def _documents(self, number: int) -> list[int]:
        order: Any = self.order
        documents: list[int] = order.batch(number, self.epoch).tolist()
        return documents

    def _indices(self, start: int, stop: int) -> list[int]:
        turns = self._turns.select(np.arange(start, stop, dtype=np.int64))
        # A list of Python ints is iterated several times as quickly as an array, and its items are keys everywhere.
        indices: list[int] = self.order.take(self.epoch, self.plan.positions(self.rank, turns)).tolist()
        return indices


def delivered_by_all(state: EpochState) -> Ranges:
    """Return the positions that all ranks have received, if they have taken the same steps as the state's rank."""
    plan, rank = state.plan, state.rank
    if rank is None:
        return plan.delivered
    if state.sharing.world_size == 1:
        return plan.taken([state.received])
    return plan.taken_by_all(rank, len(state.received))


def pass_of_state(order: EpochOrder, state: EpochState) -> EpochPass:
    if state.rank is None:
        raise ValueError("`state` must be one that state_dict() returned, not what merge_states() made of several.")
    return EpochPass(order, state.epoch, state.plan, state.rank, state.received, others_behind=state.others_behind)


def to_places(received: int, beyond: Iterable[tuple[int, int]], length: int, unit: str) -> Ranges:
    ranges = [(check_int("beyond", start, least=0), check_int("beyond", stop, least=0)) for start, stop in beyond]
    places = Ranges([(0, check_int("received", received, least=0)), *ranges])
    if places.stop > length:
        refuse(ValueError, "beyond" if ranges else "received", f"at most {length}, the {unit} of the pass", places.stop)
    return places


class SamplerPasses:
    """The passes of one rank, epoch after epoch: which one is under way and which one begins next.

    A rank that was found, and not given, may turn out to be another.
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

    def following(self, ended: EpochPass) -> EpochPass:
        """Return the pass that follows one, whatever other iterators have begun since."""
        if self._chosen:
            return self._next
        return self._make(ended.epoch + 1, others_behind=not ended.plan.ends_with_others(self._rank))

    def iterate(self, read: Callable[[EpochPass], Iterator[T]]) -> Iterator[T]:
        """Return an iterator that begins the next pass when what is read of it is first asked for."""
        self._before = None if self._current is None else (self._current, self._current.taken)
        return self._iterate(read)

    def _iterate(self, read: Callable[[EpochPass], Iterator[T]]) -> Iterator[T]:
        if self._found_rank:
            check_rank_found(self._rank, self._plan.sharing.world_size)
        begun = self._current = self._next
        self._next = self._make(begun.epoch + 1)
        self._chosen = False
        yield from read(begun)
        if begun is self._current and not begun.plan.ends_with_others(self._rank):
            self._next = self._make(self._next.epoch, others_behind=True)

    def choose(self, epoch: int) -> None:
        """Make the next pass one of an epoch: a whole one, unless a part of the epoch is next already."""
        if self._current is not None or epoch != self._next.epoch:
            self._next = self._make(epoch, others_behind=self._next.others_behind)
        self._current = None
        self._chosen = True

    def change_order(self, order: EpochOrder, plan: Plan) -> None:
        """Take another order from the next pass on, which must be resumed or chosen then."""
        self._order, self._plan = order, plan

    def resume(self, epoch: int, plan: Plan, received: Ranges, *, others_behind: bool) -> None:
        self._next = EpochPass(self._order, epoch, plan, self._rank, received, others_behind=others_behind)
        self._current = None
        self._chosen = True

    def _make(self, epoch: int, *, others_behind: bool = False) -> EpochPass:
        return EpochPass(self._order, epoch, self._plan, self._rank, EMPTY, others_behind=others_behind)


_KIND = "EpochSampler"


class EpochState(NamedTuple):
    fingerprint: str
    size: int
    epoch: int
    sharing: Sharing
    """How the ranks share the positions that are not in `delivered`."""
    rank: int | None
    """Whose items `received` counts; None if `delivered` says everything."""
    delivered: Ranges
    """The positions of the epoch that were delivered before that sharing began."""
    received: Ranges
    """The items that the rank has received since then, by their numbers among all that it takes."""
    others_behind: bool = False
    """Whether other ranks may have a batch left of the epoch before, which had one less on this rank."""
    mix: dict[str, Any] | None = None
    """The order's record of a stage of a mix, if it is one."""

    @property
    def plan(self) -> Plan:
        return Plan(self.size, self.delivered, self.sharing)


def write_state(state: EpochState) -> dict[str, Any]:
    written = {
        "fingerprint": state.fingerprint,
        "size": state.size,
        "epoch": state.epoch,
        **state.sharing._asdict(),
        "rank": state.rank,
        "delivered": state.delivered.to_state(),
        "received": state.received.to_state(),
    }
    if state.others_behind:
        written["others_behind"] = True
    if state.mix is not None:
        written["mix"] = state.mix
    return sealed(_KIND, written)


def read_state(state: object, argument: str = "state") -> EpochState:
    """Return what `write_state` wrote. TypeError or ValueError if it is the state of something else, or damaged."""
    check_state(argument, state, _KIND)
    assert isinstance(state, dict)
    return EpochState(
        state["fingerprint"],
        state["size"],
        state["epoch"],
        Sharing(*(state[name] for name in Sharing._fields)),
        state["rank"],
        Ranges.from_state(state["delivered"]),
        Ranges.from_state(state["received"]),
        state.get("others_behind", False),
        state.get("mix"),
    )


def merge_states(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one state that says what all ranks together have received.

    It restores any number of ranks with any batch size. In training in which all ranks take a step together, one rank's
    state says as much, so there is nothing to merge. Merge where ranks progress independently, or where items arrive in
    the order in which they are finished.

    Args:
        states: What ``state_dict()`` returned in each rank, in any order: the state of a sampler, a pipeline or
            `DataLoader` whose source is an `EpochSampler`.

    Raises:
        TypeError: If it is not a list of dicts.
        ValueError: If the states are not from all ranks of one run, each once, or if some ranks have begun an epoch
            that others have not.

    Example:
        >>> from spdl.source import EpochSampler, merge_states
        >>> ranks = [EpochSampler(10, shuffle=False, rank=rank, world_size=2) for rank in range(2)]
        >>> for sampler, received in zip(ranks, (3, 1)):
        ...     _ = list(zip(range(received), sampler))
        >>> alone = EpochSampler(10, shuffle=False, rank=0, world_size=1)
        >>> alone.load_state_dict(merge_states([sampler.state_dict() for sampler in ranks]))
        >>> list(alone)
        [3, 5, 6, 7, 8, 9]
    """
    check_iterable("states", states, "the states of all ranks, in a list")
    given: list[Any] = list(states)
    if given and all(isinstance(state, dict) and state.get("spdl") not in (None, _KIND) for state in given):
        return _merge_loaders(given)
    read = [read_state(state, f"states[{number}]") for number, state in enumerate(given)]
    if not read:
        raise ValueError("`states` must hold the state of each rank, got none.")
    first = read[0]
    if len(read) == 1 and first.rank is None:
        return write_state(first)
    for number, state in enumerate(read):
        _compare(first, state, number)
    ranks = [state.rank for state in read]
    if sorted(rank for rank in ranks if rank is not None) != list(range(first.sharing.world_size)):
        raise ValueError(
            f"`states` must hold one state of each of the {first.sharing.world_size} ranks, got the states of the "
            f"ranks {show(ranks)}."
        )
    epoch = min(state.epoch for state in read)
    plan = next(state for state in read if state.epoch == epoch).plan
    received = [EMPTY] * plan.sharing.world_size
    for state in read:
        rank = state.rank or 0
        if state.epoch == epoch:
            received[rank] = state.received
        elif state.epoch > epoch + 1 or state.received:
            raise ValueError(
                f"`states` must be of one epoch, but the rank {rank} has begun epoch {state.epoch} while others are in "
                f"epoch {epoch}: save the states of all ranks after the same step."
            )
        else:
            received[rank] = Ranges([(0, plan.count(rank))])
    return write_state(
        EpochState(
            first.fingerprint, first.size, epoch, first.sharing, None, plan.taken(received), EMPTY, mix=first.mix
        )
    )


def _merge_loaders(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the states of pipelines or loaders side by side: what loads them knows the sampler, and merges its."""
    kinds = {state["spdl"] for state in states}
    if len(kinds) > 1 or any("ranks" in state for state in states):
        raise ValueError(
            f"`states` must come from one kind of loader, each of one rank, got {sorted(map(str, kinds))}."
        )
    return {"spdl": states[0]["spdl"], "version": states[0].get("version"), "ranks": list(states)}


def _compare(first: EpochState, state: EpochState, number: int) -> None:
    ours = (first.fingerprint, first.size, first.sharing)
    theirs = (state.fingerprint, state.size, state.sharing)
    same_start = state.epoch != first.epoch or state.delivered == first.delivered
    if ours != theirs or not same_start:
        what = "began at other positions" if ours == theirs else f"{_describe(first)} and {_describe(state)}"
        raise ValueError(f"`states[0]` and `states[{number}]` must be of one run, but they differ: {what}.")


def _describe(state: EpochState) -> str:
    return f"{state.fingerprint} with {', '.join(f'{name}={value}' for name, value in state.sharing._asdict().items())}"

"""Where items come from that are not simply an item of a source: batches, their elements, results of generators."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from .position_set import PositionSet
from .runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .records import Record

__all__ = ["LISTED", "Foreign", "Form", "Gathering", "Group", "Packed", "Result", "Results", "Root", "origin_of"]

# Positions of one item that a report lists. What an item was made of may be as long as the dataset.
LISTED = 1_000

# A gathering packs so many of its roots at a time: short work, since the engine's lock is held.
_PACKED_AT_ONCE = 64

# How an item is made of the very items that went into it: it is the only one, it is a list of them, or they are
# somewhere in it.
Form: TypeAlias = Literal["item", "list", "nest"]


class Group:
    """The origin of a batch, or of the several results of one item. `Lineage` makes and counts groups.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

    # True if somebody is told when the group is consumed.
    observed: ClassVar[bool] = False
    # True if it is one item made of others, be it of a single one.
    is_gathered: ClassVar[bool] = False

    __slots__ = ("parents", "pending")

    def __init__(self, parents: list[Root], pending: int) -> None:
        self.parents = parents
        self.pending = pending

    def share(self) -> Root:
        """Return the group as the origin of one more descendant. Called with the engine's lock held."""
        self.pending += 1
        return self

    def consumed(self) -> None:
        """Called with the engine's lock held when no descendant is left."""

    def packed(self) -> Packed | None:
        """Return the parents that are not in the list, if there are any."""
        return None

    def add_results_to(self, found: dict[Results, set[int]]) -> None:
        """Add the results that it is or has packed, by their numbers."""

    def origins(self) -> Iterator[Root]:
        """Yield all parents."""
        yield from self.parents


class Results(Group):
    """The origin of the several results of one item. Each has a number, by which it is known again after a resume."""

    __slots__ = ("_below", "_beyond", "_live", "_skipped", "made", "parents_of_each", "record")

    def __init__(self, root: Root, live: dict[Results, None], record: Record | None) -> None:
        self.parents = [root]
        # The op itself counts, until it has no more results.
        self.pending = 1
        # How many results there were so far. Those below a number have been consumed, and these beyond it.
        self.made = 0
        self._below = 0
        self._beyond: Runs | None = None
        # What is known from an earlier run, and the results that were consumed there.
        self.record = record
        self._skipped: list[tuple[int, int]] = []
        if record is not None:
            record.meet()
            if record.done:
                self._skipped = record.done.pairs()[::-1]
                self._beyond = record.done.copy()
                self._below = self._beyond.end_of_run(0)
                self._beyond.remove_run(0)
        self.parents_of_each: list[Root] = [self]
        self._live = live
        live[self] = None

    def next_result(self) -> Result | None:
        """Count one more result. Return its root, or None if it was consumed in an earlier run."""
        number = self.made
        self.made = number + 1
        if self._skipped and number >= self._skipped[-1][0]:
            if number + 1 == self._skipped[-1][1]:
                self._skipped.pop()
            return None
        self.pending += 1
        return Result(self.parents_of_each, number)

    def numbered_result(self, number: int) -> Result | None:
        """Count a result whose number was given elsewhere. Return as `next_result` does."""
        self.made = max(self.made, number + 1)
        if any(first <= number < end for first, end in self._skipped):
            return None
        self.pending += 1
        return Result(self.parents_of_each, number)

    def result_consumed(self, number: int) -> int:
        """Note that a result was consumed. Return how many descendants are left."""
        self.note_done(number)
        self.pending -= 1
        return self.pending

    def note_done(self, number: int) -> None:
        """Note that a result was consumed, without counting it."""
        if number == self._below:
            # Nearly always: results keep their order unless a later stage changes it.
            if self._beyond is None:
                self._below = number + 1
                return
            # In this order: if a Ctrl-C comes in between, some numbers are in both.
            self._below = self._beyond.end_of_run(number + 1)
            self._beyond.remove_run(number + 1)
            return
        if self._beyond is None:
            self._beyond = Runs()
        self._beyond.add(number)

    def done(self) -> list[int]:
        """Return the numbers of the results that have been consumed, in order."""
        return [*range(self._below), *(number for number in self._beyond or () if number >= self._below)]

    def is_begun(self) -> bool:
        """Return whether a result has been consumed."""
        return bool(self._below or self._beyond)

    def consumed(self) -> None:
        # It may have been packed as a whole before.
        self._live.pop(self, None)


class Result(Group):
    """One of the several results of one item."""

    __slots__ = ("number",)

    def __init__(self, parents: list[Root], number: int) -> None:
        self.parents = parents
        self.pending = 1
        self.number = number

    @property
    def results(self) -> Results:
        """All results of that item."""
        results = self.parents[0]
        assert isinstance(results, Results)
        return results

    def consumed(self) -> None:
        self.results.note_done(self.number)

    def add_results_to(self, found: dict[Results, set[int]]) -> None:
        found.setdefault(self.results, set()).add(self.number)


class Gathering(Group):
    """The origin of an item that is made of any number of others, as an aggregator makes it.

    The first parents are in a list, in the order of their arrival. The others are packed, or a rare batch of millions
    would cost more memory than what it holds.
    """

    is_gathered = True

    __slots__ = ("_pack_at", "_packed", "form", "record")

    def __init__(self, record: Record | None = None) -> None:
        super().__init__([], 1)
        # Known if the engine can make it without the aggregator, or if nobody can make it again. Then its parents are
        # in the order of its parts.
        self.form: Form | None = None
        self._packed: Packed | None = None
        self._pack_at = LISTED + _PACKED_AT_ONCE
        # What is known of this batch from an earlier run.
        self.record = record

    def packed(self) -> Packed | None:
        return self._packed

    def origins(self) -> Iterator[Root]:
        packed = self._packed
        if packed is None:
            yield from self.parents
            return
        # In the order of their arrival, if that is the source's: packed ones are in between.
        yield from islice(self.parents, LISTED)
        yield from packed.roots()
        yield from packed.groups.copy()
        yield from islice(self.parents, LISTED, None)

    def recognise(self, record: Record) -> None:
        """Note that it is a batch of an earlier run."""
        self.record = record

    def note_form(self, form: Form | None) -> None:
        """Note how it is made of its parents."""
        self.form = form

    def add_results_to(self, found: dict[Results, set[int]]) -> None:
        if self._packed is not None:
            for results, numbers in self._packed.results.items():
                found.setdefault(results, set()).update(numbers)

    def is_long(self) -> bool:
        """Return whether some parents should be packed now."""
        return len(self.parents) >= self._pack_at

    def unlist(self, packed: Packed) -> list[Root]:
        """Take out of the list, and return, what goes into ``packed``."""
        self._packed = packed
        rest = self.parents[LISTED:]
        del self.parents[LISTED:]
        return rest

    def note_packed(self, packed: Packed) -> None:
        """Note what is left to be looked at when parents are packed again."""
        # As many again: looking at all of them costs each new one a constant time.
        self._pack_at = LISTED + max(_PACKED_AT_ONCE, len(packed.groups))


class Foreign(Group):
    """The origin of what a worker has made of one item or several: it is known what went in, and no more.

    So a state cannot name it: if such an item is taken apart and consumed in part, all of it comes again. So do results
    of a generator that are in it, until all of the generator's are consumed.
    """

    __slots__ = ()


Root: TypeAlias = int | Group


def origin_of(root: Root) -> int:
    """Return what tells others where an item comes from: its root, or of a group -1 minus the first root in it."""
    if not isinstance(root, Group):
        return root
    first: Root = root
    while isinstance(first, Group):
        first = first.parents[0] if first.parents else 0
    return -1 - first


class Packed:
    """Parents of a group in no order: the positions, how often each group occurs, and which results of an item."""

    __slots__ = ("groups", "positions", "results")

    def __init__(self, sources: int) -> None:
        self.positions = [PositionSet() for _ in range(sources)]
        self.groups: dict[Group, int] = {}
        # Which results of an item there are; how many is also in `groups`.
        self.results: dict[Results, Runs] = {}

    def __len__(self) -> int:
        return sum(map(len, self.positions))

    def roots(self) -> Iterator[int]:
        """Yield the roots of the positions."""
        sources = len(self.positions)
        for source, positions in enumerate(self.positions):
            yield from (position * sources + source for position in positions)

    def add(self, root: int) -> None:
        """Add a position, given as a root."""
        position, source = divmod(root, len(self.positions))
        self.positions[source].add(position)

    def add_groups(self, groups: Iterable[tuple[Group, int]]) -> None:
        """Add groups, each of which occurs so often."""
        for group, count in groups:
            self.groups[group] = self.groups.get(group, 0) + count

    def add_group(self, group: Group) -> None:
        """Add a group, or one of the results of an item."""
        if isinstance(group, Result):
            results = group.results
            self.results.setdefault(results, Runs()).add(group.number)
            group = results
        self.groups[group] = self.groups.get(group, 0) + 1

    def take_over(self, other: Packed) -> None:
        """Add all of another's parents."""
        for mine, others in zip(self.positions, other.positions, strict=True):
            mine.take_over(others)
        self.add_groups(other.groups.items())
        for results, numbers in other.results.items():
            self.results.setdefault(results, Runs()).take_over(numbers)

    def pop_if_whole(self, group: Group) -> bool:
        """Take a group out if nothing descends from it but what is in here. Return whether that was so."""
        if group.observed or self.groups.get(group) != group.pending:
            return False
        if isinstance(group, Results):
            if group.is_begun():
                # It must still be known which results are not in here.
                return False
            group.consumed()
            self.results.pop(group, None)
        del self.groups[group]
        return True

    def note_done(self) -> None:
        """Note that the results in here are consumed."""
        for results, numbers in self.results.items():
            for number in numbers:
                results.note_done(number)

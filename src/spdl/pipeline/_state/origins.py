"""The origins of items that are not simply an item of a source: batches, their elements, results of generators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from spdl._ranges import Ranges
from spdl.pipeline._declare.op import ItemContext
from spdl.pipeline._state.positions import PositionSet

if TYPE_CHECKING:
    from spdl.pipeline._state.partial import Batch, Record

    # Returns the context of a source's item, by its root.
    Locate: TypeAlias = Callable[[int], ItemContext]

# How many positions of one item a report lists. An item may be made of the whole dataset.
LISTED = 1_000

# A gathering packs that many of its roots at a time: short work, since the engine's lock is held.
_PACKED_AT_ONCE = 64

# How an item is made of the very items that went into it: it is the only one, it is a list of them, or they are
# somewhere in it.
Form: TypeAlias = Literal["item", "list", "nest"]


class Group:
    """The origin of a batch, or of the several results of one item. `Lineage` makes and counts groups.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

    # True if a callback is called when the group is consumed.
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
    """The origin of the several results of one item. Each result has a number, which identifies it after a resume."""

    __slots__ = ("_below", "_consumed", "_live", "_skipped", "made", "parents_of_each", "record")

    def __init__(self, root: Root, live: dict[Results, None], record: Record | None) -> None:
        self.parents = [root]
        # The op itself counts, until it has no more results.
        self.pending = 1
        # How many results there were so far.
        self.made = 0
        # The numbers of the consumed ones: all below this, while they are consumed in order.
        self._below = 0
        self._consumed: Ranges | None = None
        # The record of an earlier run, and the results that were consumed there.
        self.record = record
        self._skipped: list[tuple[int, int]] = []
        if record is not None:
            record.meet()
            if record.done:
                self._skipped = record.done.runs[::-1]
                self._consumed = Ranges(record.done.runs)
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
        if self._consumed is None:
            if number == self._below:
                # Nearly always: results keep their order unless a later stage changes it.
                self._below = number + 1
                return
            self._consumed = Ranges([(0, self._below)])
        self._consumed.add(number, number + 1)

    def done(self) -> list[int]:
        """Return the numbers of the results that have been consumed, in order."""
        return list(range(self._below) if self._consumed is None else self._consumed)

    def is_begun(self) -> bool:
        """Return whether a result has been consumed."""
        return bool(self._below or self._consumed)

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
        # Known if the engine can make it without the aggregator, or if it cannot be made again. Then its parents are
        # in the order of its parts.
        self.form: Form | None = None
        self._packed: Packed | None = None
        self._pack_at = LISTED + _PACKED_AT_ONCE
        # The record of this batch from an earlier run.
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
    """Return a number for an item's origin: its root, or for a group -1 minus the first root in it."""
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
        self.results: dict[Results, Ranges] = {}

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
        """Add groups with the number of times that each occurs."""
        for group, count in groups:
            self.groups[group] = self.groups.get(group, 0) + count

    def add_group(self, group: Group) -> None:
        """Add a group, or one of the results of an item."""
        if isinstance(group, Result):
            results = group.results
            self.results.setdefault(results, Ranges()).add(group.number, group.number + 1)
            group = results
        self.groups[group] = self.groups.get(group, 0) + 1

    def take_over(self, other: Packed) -> None:
        """Add all of another's parents."""
        for mine, others in zip(self.positions, other.positions, strict=True):
            mine.take_over(others)
        self.add_groups(other.groups.items())
        for results, numbers in other.results.items():
            self.results[results] = self.results.get(results, Ranges()).union(numbers)

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


class AggregatorLeftover(NamedTuple):
    """The leftover of an aggregator at some moment, and the number of the epoch at that moment."""

    left: Any
    epoch: int


class RepeatedResult(NamedTuple):
    """A result of an earlier run that has to be made again of the same items and the same leftover.

    Attributes:
        place: The place of its items among the batches of that run's state.
        leftover: The leftover before it, and its epoch.
    """

    place: int
    batch: Batch
    leftover: AggregatorLeftover


class AggregatorResult(Gathering):
    """The origin of one result: the items that came since the one before, and what that one has left over."""

    # Each result needs its leftover, so it is not packed with its items.
    observed: ClassVar[bool] = True

    __slots__ = ("history", "leftover", "number", "place")

    def __init__(self, history: AggregatorHistory, record: Record | None = None) -> None:
        super().__init__(record)
        self.history = history
        self.number = -1
        self.leftover = AggregatorLeftover(None, 0)
        # Its items' place among the batches of an earlier run's state, if it was made again.
        self.place: int | None = None

    def join(self, number: int, leftover: AggregatorLeftover, place: int | None) -> None:
        """Note its number among the results, what was left over before it, and its place in the state."""
        self.number, self.leftover, self.place = number, leftover, place

    def consumed(self) -> None:
        self.history.live.pop(self, None)


class AggregatorCut(NamedTuple):
    """The point from which an aggregator continues.

    Attributes:
        again: The results that were not consumed though a later one was, or only a part was: each is made by itself.
        leftover: The leftovers for all that follows.
    """

    again: list[AggregatorResult]
    leftover: AggregatorLeftover


class AggregatorHistory:
    """The results of one aggregator that says what it has left over. Guarded by the engine's lock.

    Attributes:
        again: The results of an earlier run that have to be made again.
        leftover: That run's leftover, until it is loaded.
        epoch: The number of the next item's epoch.
    """

    __slots__ = ("_floor", "_left", "_made", "again", "epoch", "leftover", "live")

    def __init__(self) -> None:
        self.live: dict[AggregatorResult, None] = {}
        self.again: list[RepeatedResult] = []
        self.leftover: AggregatorLeftover | None = None
        self.epoch = 0
        self._left: Any = None
        # How many results there were, and how many before the leftover was loaded.
        self._made = 0
        self._floor = 0

    def begin(self, left: Any, epoch: int) -> None:
        """Note what is left over from before the start."""
        self._left, self.epoch = left, epoch

    def resume(self, leftover: AggregatorLeftover, again: list[RepeatedResult], epoch: int) -> None:
        """Continue at the state of an earlier run, before anything runs."""
        self.leftover, self.again, self.epoch = leftover, again, epoch

    def take_leftover(self) -> Any:
        """Return what the earlier run had left over, which is loaded now."""
        assert self.leftover is not None
        self._left, self.leftover = self.leftover.left, None
        self._floor = self._made
        return self._left

    def emitted(self, result: AggregatorResult, left: Any) -> None:
        """Note a result, and what is left over now."""
        if result.record is None:
            result.join(self._made, AggregatorLeftover(self._left, self.epoch), None)
        else:
            again = self.again_of(result.record)
            self.again.remove(again)
            result.join(self._made, AggregatorLeftover(again.leftover.left, self.epoch), again.place)
        self.live[result] = None
        self._made += 1
        self._left = left

    def end_epoch(self, left: Any) -> None:
        """Note that an epoch was flushed, here or in an earlier run, and what is left over then."""
        self._left = left
        self.epoch += 1

    def again_of(self, record: Record) -> RepeatedResult:
        """Return what should be made again, by its record."""
        return next(each for each in self.again if each.batch.record is record)

    def cut(self, undone: Iterable[AggregatorResult], referred: Collection[AggregatorResult]) -> AggregatorCut:
        """Return where another run has to continue.

        Args:
            undone: Results that count as not consumed, apart from those that are not.
            referred: The results that were consumed in part.
        """
        unconsumed = {each.number: each for each in (*self.live, *(each for each in undone if each.history is self))}
        first = self._made
        if self.leftover is not None:
            return AggregatorCut([each for _, each in sorted(unconsumed.items())], self.leftover)
        while first > self._floor and first - 1 in unconsumed and unconsumed[first - 1] not in referred:
            first -= 1
        leftover = unconsumed[first].leftover if first in unconsumed else AggregatorLeftover(self._left, self.epoch)
        return AggregatorCut([each for number, each in sorted(unconsumed.items()) if number < first], leftover)


def result_path(root: Root) -> tuple[int, ...] | None:
    """Return the position of the item that a result comes from, and the numbers of the results on the way to it.

    Returns:
        The position alone if it is the item's only result; None if several items went into it, as into a batch.
    """
    path: list[int] = []
    while isinstance(root, Group):
        if isinstance(root, Result):
            path.append(root.number)
            root = root.results.parents[0]
        elif type(root) is Group and len(root.parents) == 1:
            # A batch that was taken apart and put together again is the same item.
            root = root.parents[0]
        else:
            return None
    return (root, *reversed(path))


class ItemWithContext:
    """An item on its way to an op that asks for its context, which is made there, or where the item is pickled."""

    __slots__ = ("_locate", "_root", "item")

    def __init__(self, item: Any, locate: Locate | None, root: Any) -> None:
        self.item = item
        # In another process nothing is located, and the root is the context.
        self._locate = locate
        self._root = root

    def context(self) -> ItemContext:
        """Return the context. Called without the lock."""
        if self._locate is None:
            context: ItemContext = self._root
            return context
        return context_of(self._locate, self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemWithContext, (self.item, None, self.context())

    def __repr__(self) -> str:
        return repr(self.item)


def without_context(item: Any) -> Any:
    return item.item if type(item) is ItemWithContext else item


def context_of(locate: Locate, root: Root) -> ItemContext:
    """Return the context of an item that is in flight. Called without the lock."""
    results: list[int] = []
    while isinstance(root, Group):
        if isinstance(root, Result):
            results.append(root.number)
            root = root.results.parents[0]
        elif len(root.parents) == 1 and root.packed() is None and not root.is_gathered:
            root = root.parents[0]
        else:
            members = tuple(context_of(locate, member) for member in root.origins())
            if not members:
                return ItemContext(0, -1, -1, 0, tuple(reversed(results)))
            first = members[0]
            numbers = tuple(reversed(results))
            return ItemContext(first.epoch, first.position, first.index, first.source, numbers, members)
    base = locate(root)
    # An item of a region's source may already be a result or a batch.
    numbers = (*base.results, *reversed(results))
    return ItemContext(base.epoch, base.position, base.index, base.source, numbers, base.members)


def ancestry(root: Root) -> Iterator[Root]:
    """Yield a root and all that it descends from, each once."""
    # The items of a batch that was taken apart share one group, and so do the items of a batch of such items. Each
    # group is looked at once, or the work would be multiplied at each stage.
    seen: set[Root] = set()
    pending: list[Iterator[Root]] = [iter([root])]
    while pending:
        current = next(pending[-1], None)
        if current is None:
            pending.pop()
        elif current not in seen:
            seen.add(current)
            yield current
            if isinstance(current, Group):
                pending.append(current.origins())


def origins(root: Root) -> tuple[int, ...]:
    """Return the roots of the source items that an item in flight came from: the first thousand, each once."""
    if not isinstance(root, Group):
        return (root,)
    found: dict[int, None] = {}
    # Many ways may lead to the same one.
    seen: set[Root] = set()
    pending: list[Root] = [root]
    while pending and len(found) < LISTED:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if not isinstance(each, Group):
            found[each] = None
        elif isinstance(each, Result):
            pending.append(each.results.parents[0])
        else:
            # The first ones first.
            pending += reversed(list(islice(each.origins(), LISTED)))
    return tuple(found)

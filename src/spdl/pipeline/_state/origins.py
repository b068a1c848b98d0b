"""The origins of items that are not simply an item of a source: batches, their elements, results of generators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from spdl._ranges import Ranges
from spdl.pipeline._declare.op import ItemContext

if TYPE_CHECKING:
    from spdl.pipeline._state.partial import Batch, Record

    # Returns the context of a source's item, by its root.
    Locate: TypeAlias = Callable[[int], ItemContext]

# How many positions of one item a report lists. An item may be made of the whole dataset.
LISTED = 1_000

# How an item is made of the very items that went into it: it is the only one, it is a list of them, or they are
# somewhere in it.
Form: TypeAlias = Literal["item", "list", "nest"]


class Group:
    """The origin of a batch, or of the several results of one item. `Lineage` makes and counts groups.

    A group is consumed when the last of its ``pending`` descendants is, and then each of its parents loses one
    descendant. Nesting groups keeps the cost of a release independent of how many items a batch holds.
    """

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


class Results(Group):
    """The origin of the several results of one item. Each result has a number, which identifies it after a resume."""

    __slots__ = ("_below", "_consumed", "_live", "made", "parents_of_each", "record")

    def __init__(self, root: Root, live: dict[Results, None], record: Record | None) -> None:
        self.parents = [root]
        # The op itself counts, until it has no more results.
        self.pending = 1
        # How many results there were so far.
        self.made = 0
        # The numbers of the consumed ones: all below this, while they are consumed in order.
        self._below = 0
        self._consumed: Ranges | None = None
        # The record of an earlier run, whose consumed results are not made again.
        self.record = record
        if record is not None:
            record.meet()
            if record.done:
                self._consumed = Ranges(record.done.runs)
        self.parents_of_each: list[Root] = [self]
        self._live = live
        live[self] = None

    def next_result(self) -> Result | None:
        """Count one more result. Return its root, or None if it was consumed in an earlier run."""
        number = self.made
        self.made = number + 1
        if self.record is not None and number in self.record.done:
            return None
        self.pending += 1
        return Result(self.parents_of_each, number)

    def numbered_result(self, number: int) -> Result | None:
        """Count a result whose number was given elsewhere. Return as `next_result` does."""
        self.made = max(self.made, number + 1)
        if self.record is not None and number in self.record.done:
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
        return list(range(self._below) if self._consumed is None else self._consumed)

    def is_begun(self) -> bool:
        return bool(self._below or self._consumed)

    def consumed(self) -> None:
        self._live.pop(self, None)


class Result(Group):
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


class Gathering(Group):
    """The origin of an item that is made of any number of others, as an aggregator makes it.

    The parents are in the order of their arrival.
    """

    __slots__ = ("form", "record")

    def __init__(self, record: Record | None = None) -> None:
        super().__init__([], 1)
        # Known if the engine can make it without the aggregator, or if it cannot be made again. Then its parents are
        # in the order of its parts.
        self.form: Form | None = None
        # The record of this batch from an earlier run.
        self.record = record

    def recognise(self, record: Record) -> None:
        self.record = record

    def note_form(self, form: Form | None) -> None:
        self.form = form


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


class AggregatorLeftover(NamedTuple):
    """The leftover of an aggregator at some moment, and the number of the epoch at that moment."""

    left: Any
    epoch: int


class RepeatedResult(NamedTuple):
    """A result of an earlier run that has to be made again of the same items and the same leftover.

    ``place`` is that of its items among the batches of that run's state.
    """

    place: int
    batch: Batch
    leftover: AggregatorLeftover


class AggregatorResult(Gathering):
    """The origin of one result: the items that came since the one before, and what that one has left over."""

    __slots__ = ("history", "leftover", "number", "place")

    def __init__(self, history: AggregatorHistory, record: Record | None = None) -> None:
        super().__init__(record)
        self.history = history
        self.number = -1
        self.leftover = AggregatorLeftover(None, 0)
        # Its items' place among the batches of an earlier run's state, if it was made again.
        self.place: int | None = None

    def join(self, number: int, leftover: AggregatorLeftover, place: int | None) -> None:
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

    Results ``again`` of an earlier run have to be made again. ``leftover`` is that run's, until it is loaded.
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
        self._left, self.epoch = left, epoch

    def resume(self, leftover: AggregatorLeftover, again: list[RepeatedResult], epoch: int) -> None:
        self.leftover, self.again, self.epoch = leftover, again, epoch

    def take_leftover(self) -> Any:
        """Return what the earlier run had left over, which is loaded now."""
        assert self.leftover is not None
        self._left, self.leftover = self.leftover.left, None
        self._floor = self._made
        return self._left

    def emitted(self, result: AggregatorResult, left: Any) -> None:
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
        self._left = left
        self.epoch += 1

    def again_of(self, record: Record) -> RepeatedResult:
        return next(each for each in self.again if each.batch.record is record)

    def cut(self, undone: Iterable[AggregatorResult], referred: Collection[AggregatorResult]) -> AggregatorCut:
        """Return where another run has to continue, beside results that are not consumed.

        Results that are ``undone`` count as not consumed; those ``referred`` to were consumed in part.
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
    """Return the position of a result's item, and the numbers of the results on the way to it.

    The position is alone if that is the item's only result. None if several items went into it, as into a batch.
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
        elif len(root.parents) == 1 and not isinstance(root, Gathering):
            root = root.parents[0]
        else:
            members = tuple(context_of(locate, member) for member in root.parents)
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
                pending.append(iter(current.parents))


def origins(root: Root, most: int = LISTED) -> tuple[int, ...]:
    """Return the roots of the source items that an item in flight came from, each once: the first of them, if many."""
    if not isinstance(root, Group):
        return (root,)
    return tuple(islice((each for each in ancestry(root) if not isinstance(each, Group)), most))

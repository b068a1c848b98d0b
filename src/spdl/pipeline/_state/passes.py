"""The passes over a source: which items are in flight, where to continue after an earlier run, and one rank's share."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self


class Interruptible:
    """An iterator whose reader another thread can wake: the iterator of a pipeline that feeds another one."""

    __slots__ = ()

    def interrupt(self) -> None:
        """Make the thread in ``next()`` return at once. Needs no lock. The item that it waited for stays to be read."""
        raise NotImplementedError


class OnePass:
    """An iterator that is not the iterable itself, or a pass without items would look like an exhausted source."""

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._take()


class Pass:
    """One pass over a source.

    Attributes:
        epoch: Its number. A source that is not continuous has only number 0.
        begin: The position of its first item. Positions count on from pass to pass.
        end: The position after its last item; None while it is under way.
        state: The part that the source's own ``state_dict()`` returned before the pass, if it has one.
        first: A mark of its first item, which differs if the order differs; None for items without a mark.
    """

    __slots__ = ("begin", "end", "epoch", "first", "state")

    def __init__(self, epoch: int, begin: int, state: Any, first: str | None = None, end: int | None = None) -> None:
        self.epoch = epoch
        self.begin = begin
        self.end = end
        self.state = state
        self.first = first

    def finish(self, end: int) -> None:
        self.end = end

    def note_first(self, item: object) -> None:
        self.first = mark_of(item)


class Passes:
    """The passes over one source, oldest first, that the consumer is not done with.

    Added to and finished by the thread that has the source's token; a pass is forgotten when the next one begins.
    Anybody may look in the meantime, without a lock.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # The passes, and the number of the next one. Both change in one step: a state may be taken at any time.
        self._known: tuple[list[Pass], int] = ([], 0)

    def known(self) -> tuple[list[Pass], int]:
        return self._known

    def begin(self, position: int, state: Any, *, epochs_read: int, lowest_out: int) -> Pass:
        """Note that a pass begins. Forget those that the consumer has read to their end, and of which no item is out.

        One more is kept: a signal handler may come before the consumer has really seen the end of an epoch.
        """
        passes, number = self._known
        begun = Pass(number, position, state)
        kept = [each for each in passes if each.epoch >= epochs_read - 1 or lowest_out < (each.end or 0)]
        self._known = ([*kept, begun], number + 1)
        return begun

    def restore(self, passes: list[Pass], following: int) -> None:
        self._known = (passes, following)

    def locate(self, position: int) -> tuple[int, int]:
        """Return the epoch of a position that is out, and where in that pass it is."""
        for each in reversed(self._known[0]):
            if position >= each.begin:
                return each.epoch, position - each.begin
        return 0, position


def mark_of(item: Any, depth: int = 0) -> str | None:
    """Return a short text that differs for most items; None for objects without such a text.

    Deeply nested sequences have none either, since a list may contain itself.
    """
    if type(item) in (tuple, list) and len(item) <= _MOST_PARTS and depth < _DEEPEST:
        marks = [mark_of(part, depth + 1) for part in item]
        return None if None in marks else _short(f"({','.join(map(str, marks))})")
    if type(item) is int and item.bit_length() > _LONGEST:
        # Python writes no longer ones in decimal digits, as the program has set it.
        return _short(hex(item))
    if item is None or type(item) in (int, bool, float, str, bytes):
        return _short(repr(item[:_LONGEST] if type(item) in (str, bytes) else item))
    return None


_MOST_PARTS = 8
_DEEPEST = 5
_LONGEST = 1_000


def _short(text: str) -> str:
    if len(text) <= _SHORT:
        return text
    from zlib import crc32  # noqa: PLC0415 - rarely needed.

    return f"{text[:_SHORT]}...{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


_SHORT = 40


# A gap that is shorter is passed item by item: seeking may have to open a file.
_NEAR = 64

# Iterators of these types can be set to an index.
_BUILT_IN = (list, tuple, range, str, bytes)


class Leg(NamedTuple):
    """The rest of one pass.

    Attributes:
        holes: The positions that were handed out and not consumed, in order.
        following: The position at which the pass continues; None if it had ended.
        read: Whether the consumer has seen the end of this epoch.
    """

    of: Pass
    holes: list[int]
    following: int | None
    read: bool


class Resumption:
    """The legs that are left, and the source's state after them."""

    __slots__ = ("_legs", "state")

    def __init__(self, legs: Sequence[Leg], state: Any) -> None:
        self._legs = deque(legs)
        self.state = state

    def goes_on(self) -> bool:
        """Return whether items of a begun pass should be pulled that are not its first ones."""
        return any(
            leg.holes[-1:] > [leg.of.begin] or (leg.following is not None and leg.following > leg.of.begin)
            for leg in self._legs
        )

    def is_over(self) -> bool:
        return not self._legs

    def next_leg(self) -> Leg | None:
        return self._legs.popleft() if self._legs else None


def offers(source: object, *names: str) -> bool:
    """Return whether a source has methods.

    Its class defines them: one that passes every name on to another object may change the items on their way. An object
    of the class may still lack them, if they are properties that raise AttributeError.
    """
    kind = type(source)
    return all(hasattr(kind, name) and callable(getattr(source, name, None)) for name in names)


def knows_states(kind: type, name: str) -> bool:
    """Return whether a class has a method that knows how its objects are iterated and saved.

    A subclass may do that in another way, and has only inherited the method.
    """
    owner = _place_of(kind, name)
    others = (_place_of(kind, name) for name in ("__iter__", "iterate_from", "state_dict", "load_state_dict"))
    return owner is not None and all(place is None or place >= owner for place in others)


def _place_of(kind: type, name: str) -> int | None:
    return next((place for place, base in enumerate(kind.__mro__) if name in vars(base)), None)


def how_to_seek(source: object) -> str:
    """Return how a source is brought to a position: ``"iterate_from"``, ``"index"`` or ``"replay"``."""
    if offers(source, "iterate_from"):
        return "iterate_from"
    return "index" if isinstance(source, Sequence) else "replay"


def has_state(source: object) -> bool:
    """Return whether a source tells its state and takes it back, even if it was iterated before.

    A pipeline does not, since it runs once.
    """
    return not getattr(type(source), "_runs_once", False) and offers(source, "state_dict", "load_state_dict")


def state_of_next_pass(source: Any) -> Any:
    """Return a source's own state before a pass; None if it says nothing. Runs user code."""
    if not has_state(source):
        return None
    if offers(source, "advance_state"):
        # For a sampler, a pass that was left is under way until an iterator over the next one is asked for.
        iter(source)
    return source.state_dict()


def load_state(source: Any, state: Any) -> None:
    """Give a source its own state back, if it had one. Runs user code."""
    if state is not None and has_state(source):
        source.load_state_dict(state)


def state_behind(source: Any, before: Any) -> Any:
    """Return a source's own state after the pass that a state begins. Runs user code.

    Others may iterate over the same source, so what it says now may be of their passes: one that can tell by the state
    is asked to.
    """
    if before is not None and offers(source, "next_state") and knows_states(type(source), "next_state"):
        return source.next_state(before)
    return state_of_next_pass(source)


class ResumedIterator(Interruptible):
    """An iterator over the rest of a pass.

    Attributes:
        taken: The position of the item that was returned last, if it was out; None once the pass continues.
        rest: The function that returns the further items then.
    """

    __slots__ = ("_holes", "_interrupted", "_leg", "_seeker", "rest", "taken")

    def __init__(self, source: Any, leg: Leg) -> None:
        self._leg = leg
        self._holes = deque(leg.holes)
        self._seeker: Seeker = seeker_in(source, leg)
        self.rest: Iterator[Any] = iter(())
        self.taken: int | None = None
        self._interrupted = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._next()
        except RuntimeError as error:
            if self._interrupted and isinstance(error, TooShortError):
                raise StopIteration from None
            raise

    def _next(self) -> Any:
        if self._holes:
            position = self._holes.popleft()
            item = self._seeker.item(position - self._leg.of.begin)
            self.taken = position
            return item
        if self._leg.following is None:
            self._seeker.finish()
            raise StopIteration
        self.taken = None
        self.rest = self._seeker.rest(self._leg.following - self._leg.of.begin)
        return next(self.rest)

    def close(self) -> None:
        self._seeker.close()

    def interrupt(self) -> None:
        """Interrupt the source's own iterator, if it can be interrupted. Takes no lock."""
        # The interrupted iteration ends early.
        self._interrupted = True
        iterator = self._seeker.iterator
        if issubclass(type(iterator), Interruptible):
            iterator.interrupt()


class TooShortError(RuntimeError):
    """A source has ended before a position that a state says it has handed out."""


class Seeker:
    """Brings a source to the items of one pass that are asked for, each further on than the one before."""

    def __init__(self, source: Any, leg: Leg) -> None:
        self.source = source
        self.leg = leg
        self.iterator: Any = None
        # The offset of what the iterator returns next.
        self.at = 0

    def item(self, offset: int) -> Any:
        for item in islice(self.rest(offset), 1):
            self.at = offset + 1
            return item
        raise TooShortError(_too_short(self.source, self.leg, offset))

    def rest(self, offset: int) -> Iterator[Any]:
        raise NotImplementedError

    def finish(self) -> None:
        """Leave a pass that has ended and will not be read again."""
        self.close()

    def skip(self, count: int) -> None:
        skipped = sum(1 for _ in islice(self.iterator, count))
        if skipped < count:
            raise TooShortError(_too_short(self.source, self.leg, self.at + count))
        self.at += count

    def close(self) -> None:
        if hasattr(self.iterator, "close"):
            self.iterator.close()


class _Indexed(Seeker):
    def finish(self) -> None:
        _check_length(self.source, self.leg, len(self.source))

    def rest(self, offset: int) -> Iterator[Any]:
        source = self.source
        size = len(source)
        if offset > size:
            raise TooShortError(_too_short(source, self.leg, offset))
        if type(source) in _BUILT_IN:
            iterator: Any = iter(source)
            iterator.__setstate__(offset)
            return iterator  # type: ignore[no-any-return]
        return map(source.__getitem__, range(offset, size))


class _FromPosition(Seeker):
    def rest(self, offset: int) -> Iterator[Any]:
        if self.iterator is None or not self.at <= offset <= self.at + _NEAR:
            if self.iterator is not None:
                self.close()
                # It would begin the pass after the one that was just begun.
                load_state(self.source, self.leg.of.state)
            self.iterator = iter(self.source.iterate_from(offset))
            self.at = offset
        else:
            self.skip(offset - self.at)
        return self.iterator  # type: ignore[no-any-return]


class _Replayed(Seeker):
    def rest(self, offset: int) -> Iterator[Any]:
        if self.iterator is None:
            self._begin()
        self.skip(offset - self.at)
        return self.iterator  # type: ignore[no-any-return]

    def finish(self) -> None:
        # The next pass may depend on what this one has done at its end.
        if self.iterator is None:
            self._begin()
        _check_length(self.source, self.leg, self.at + sum(1 for _ in self.iterator))

    def _begin(self) -> None:
        """Find the pass: it begins with the item that it began with."""
        attempts = _attempts(self.source, self.leg)
        first: list[Any] = []
        for _ in range(attempts):
            self.iterator = iter(self.source)
            first = list(islice(self.iterator, 1))
            if _begins_like(self.leg, first):
                self.iterator = _ChainedIterator(first, self.iterator)
                return
            for _ in self.iterator:
                pass
        raise RuntimeError(_another_order(self.source, self.leg, first, attempts))


class _ChainedIterator(Interruptible):
    def __init__(self, first: list[Any], iterator: Any) -> None:
        self.first = first
        self.iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.first.pop() if self.first else next(self.iterator)

    def close(self) -> None:
        if hasattr(self.iterator, "close"):
            self.iterator.close()

    def interrupt(self) -> None:
        if issubclass(type(self.iterator), Interruptible):
            self.iterator.interrupt()


_SEEKERS = {"index": _Indexed, "iterate_from": _FromPosition, "replay": _Replayed}


def seeker_in(source: Any, leg: Leg) -> Seeker:
    return _SEEKERS[how_to_seek(source)](source, leg)


async def resumed_async(  # noqa: C901 - what several classes do for iterators.
    source: Any, leg: Leg
) -> AsyncIterator[tuple[int | None, Any]]:
    """Yield the items of the rest of a pass over an async source, each with its position if it was out."""
    begin = leg.of.begin
    if how_to_seek(source) == "iterate_from":
        at = leg.holes[0] if leg.holes else leg.following
        if at is None:
            return
        iterator, first = aiter(source.iterate_from(at - begin)), list[Any]()
    else:
        at = begin
        iterator, first = await _begin_async(source, leg)
    try:
        holes = deque(leg.holes)
        while holes or leg.following is not None:
            try:
                item = first.pop() if first else await anext(iterator)
            except StopAsyncIteration:
                if holes or (leg.following is not None and at < leg.following):
                    raise TooShortError(_too_short(source, leg, at - begin)) from None
                return
            if holes and at == holes[0]:
                yield holes.popleft(), item
            elif leg.following is not None and at >= leg.following:
                yield None, item
            at += 1
        if how_to_seek(source) == "replay":
            # The next pass may depend on what this one has done at its end.
            at += len(first)
            async for _ in iterator:
                at += 1
            _check_length(source, leg, at - begin)
    finally:
        if hasattr(iterator, "aclose"):
            await iterator.aclose()


async def _begin_async(source: Any, leg: Leg) -> tuple[AsyncIterator[Any], list[Any]]:
    attempts = _attempts(source, leg)
    first: list[Any] = []
    for _ in range(attempts):
        iterator = aiter(source)
        first = []
        async for item in iterator:
            first.append(item)
            break
        if _begins_like(leg, first):
            return iterator, first
        async for _ in iterator:
            pass
    raise RuntimeError(_another_order(source, leg, first, attempts))


def _attempts(source: object, leg: Leg) -> int:
    """Return how many passes may have to be looked at until one begins as it should."""
    # A source that has another order in each pass is brought to this one. Its state says which pass is next.
    return 1 if leg.of.state is not None and has_state(source) else leg.of.epoch + 1


def _begins_like(leg: Leg, first: list[Any]) -> bool:
    if leg.of.first is None or not first:
        # A missing item is noticed later.
        return True
    mark = mark_of(first[0])
    return mark is None or mark == leg.of.first


def _too_short(source: object, leg: Leg, offset: int) -> str:
    return (
        f"The source {type(source).__name__!r} has ended before item {offset} of epoch {leg.of.epoch}, which the state "
        "says it has handed out: it is not the source that the state was taken from, or it was made shorter since."
    )


def _check_length(source: object, leg: Leg, length: int) -> None:
    """Refuse a pass that is longer or shorter than the one that had ended."""
    had = length if leg.of.end is None else leg.of.end - leg.of.begin
    if length != had:
        kind = TooShortError if length < had else RuntimeError
        raise kind(
            f"The source {type(source).__name__!r} has {length} items in epoch {leg.of.epoch}, which had ended after "
            f"{had} when the state was taken: it is not the source that the state was taken from, or it was changed "
            "since. The state of one of several ranks is for that rank alone, unless the source is a sampler such as "
            "`EpochSampler`."
        )


def _another_order(source: object, leg: Leg, first: list[Any], attempts: int) -> str:
    passes = "it" if attempts == 1 else f"each of {attempts} passes over it"
    return (
        f"The source {type(source).__name__!r} has another order than when the state was taken: epoch {leg.of.epoch} "
        f"began with {leg.of.first}, and {passes} begins with something else, at last with {mark_of(first[0])}. An "
        "order that is drawn from a global random state cannot be resumed: seed it again for each epoch, take a "
        "sampler of `spdl.source`, or give the source `state_dict` and `load_state_dict`."
    )


class ReceivedPositions(NamedTuple):
    """What a source's ``state_dict()`` returned before a pass, and which items of the pass were received.

    From the first one on, ``first`` items have no gap; ``beyond`` has ranges of others: the first and the one after the
    last.
    """

    before: Any
    first: int
    beyond: tuple[tuple[int, int], ...]


def has_another_share(source: Any, before: Any) -> bool:
    """Return whether a pass was another share of the data than this source would yield now. Changes its state."""
    if before is None or not (has_state(source) and offers(source, "advance_state")):
        return False
    source.load_state_dict(before)
    # As JSON brings it back.
    return bool(json.loads(json.dumps(source.state_dict())) != json.loads(json.dumps(before)))


def is_of_all_ranks(source: Any, before: Any) -> bool:
    """Return whether what a source said about itself tells what all ranks have received, since there was only one."""
    try:
        source.merge_states([before])
    except (AttributeError, ValueError):
        return False
    return True


def can_merge(source: object) -> bool:
    """Return whether a source can share again what several ranks have left."""
    return has_state(source) and offers(source, "advance_state", "merge_states")

"""One pass over the source: grants it to the actors, and collects what they return."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from spdl._check import refuse
from spdl.pipeline._declare.records import PipelineConfig, SourceConfig
from spdl.pipeline._state.passes import has_state, how_to_seek, load_state, offers, state_of_next_pass
from spdl.ray._actor import ActorReport, ActorResult, ActorWork, Begin, Grant
from spdl.ray._crew import ActorCrew, ActorLostError, ActorMember, Entry, Loss, Stretch
from spdl.ray._leases import LeaseTable, PartlyReceived, Undelivered


class InArrivalOrder:
    """Gives what has come first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    def begin_stretch(self, start: int) -> Stretch | None:  # noqa: ARG002 - as the other one.
        """Note that a range is granted. Return the place for its results, if they are kept apart from others."""
        return None

    def add(self, entry: Entry, stretch: Stretch | None) -> None:  # noqa: ARG002 - as the other one.
        self._entries.append(entry)

    def take(self, next_free: int | None) -> Entry | None:  # noqa: ARG002 - as the other one.
        """Return what comes next; None if nothing does now."""
        return self._entries.popleft() if self._entries else None


class InPositionOrder:
    """Gives what comes of one granted range after the other, however they arrive."""

    def __init__(self) -> None:
        # The rest of a lost range may begin at the position where another range began.
        self._stretches: list[tuple[int, int, Stretch]] = []
        self._numbers = count()

    def begin_stretch(self, start: int) -> Stretch | None:
        stretch = Stretch()
        heappush(self._stretches, (start, next(self._numbers), stretch))
        return stretch

    def add(self, entry: Entry, stretch: Stretch | None) -> None:
        assert stretch is not None
        stretch.entries.append(entry)

    def take(self, next_free: int | None) -> Entry | None:
        """Return what comes next; None if nothing does now. `next_free` is the lowest position that is not granted."""
        while self._stretches:
            start, _, stretch = self._stretches[0]
            if next_free is not None and next_free < start:
                return None
            if stretch.entries:
                return stretch.entries.popleft()
            if not stretch.over:
                return None
            heappop(self._stretches)
        return None


# No pass has such a position.
_BEYOND = 1 << 60


def seekable_source(config: PipelineConfig[Any]) -> Any:
    """Return the source of a pipeline. ValueError if there are several, or if it cannot begin at any position."""
    if not isinstance(config.src, SourceConfig):
        remedy = "Merge the sources below the pipeline, by `MergeIterator` or `MixedOrder` of spdl.source."
        refuse(ValueError, "config", "a pipeline with one source", config.src, remedy)
    source = config.src.source
    if hasattr(source, "__aiter__") or how_to_seek(source) == "replay":
        refuse(
            ValueError,
            "config",
            "a pipeline whose source can begin at any position, since each actor takes a part of the positions: a "
            "sequence, or an iterable with a method `iterate_from(position)`, such as EpochSampler",
            source,
            "" if not hasattr(source, "__len__") or isinstance(source, Sequence) else "If it is short, make a list.",
        )
    return source


class SourcePasses:
    """The source's state before each pass."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def state(self) -> Any:
        """Return the source's state before the next pass; None if it has none."""
        return state_of_next_pass(self.source)

    def load(self, state: Any) -> None:
        load_state(self.source, state)

    def advance(self, state: Any) -> None:
        """Bring the source from the state before a pass to the state after it."""
        if not has_state(self.source):
            return
        self.load(state)
        # A pass that begins after its last item ends at once, and the source has got through it.
        if offers(self.source, "iterate_from", "advance_state"):
            rest = self.source.iterate_from(_BEYOND)
        elif offers(self.source, "iterate_from", "__len__"):
            rest = self.source.iterate_from(len(self.source))
        else:
            rest = self.source
        for _ in rest:
            pass


_LOG = logging.getLogger("spdl.ray")

T = TypeVar("T")

# With the order of the input, each actor may be this many leases ahead of the consumer.
_AHEAD = 4

# This many actors may end without having returned anything, plus two for each wanted actor, while nothing
# arrives from others: it is their work that ends them.
_FRUITLESS = 4


class EpochRun:
    """A pass, from its first result to its last.

    Ctrl-C may interrupt it anywhere. While it waits, that changes nothing. Interrupted in the middle of something else,
    it is torn: it begins again with what is not delivered, and with other actors.

    Args:
        parts: The delivered parts of items that are not delivered as a whole.
        begin: The number of the pass, and the source's state before it.
        prefetch: How many calls to an actor are under way.
        ordered: Whether results come in the order of their positions.
        reassign: Whether others take over what a lost actor had.

    Attributes:
        delivered: How many settled results the consumer has.
        lost: How many actors were lost.
        returned: How many positions these had been granted and had not sent.
    """

    def __init__(
        self,
        table: LeaseTable,
        parts: PartlyReceived,
        crew: ActorCrew,
        begin: Begin,
        *,
        prefetch: int,
        ordered: bool,
        reassign: bool,
    ) -> None:
        self.table = table
        self.parts = parts
        self.begin = begin
        self.delivered = self.lost = self.returned = 0
        self._crew = crew
        self._prefetch = prefetch
        self._ordered = ordered
        self._reassign = reassign
        self._line = self._empty_line()
        self._fruitless = 0
        # The result that the consumer got last.
        self._handed: ActorResult | None = None
        self._torn = False

    # ---- for the consumer ----

    def next_result(self) -> ActorResult | None:
        """Wait for the next result and return it; None at the end. `hand_over` has to follow.

        ActorLostError if an actor was lost and no other actor takes over; the exception of a pipeline.
        """
        if self._torn:
            self.stop()
        self.settle()
        self._torn = True
        while True:
            entry = self._line.take(self.table.next_free())
            if isinstance(entry, ActorResult):
                return entry
            if entry is not None:
                self._deliver(entry)
            elif self._is_over():
                return None
            else:
                self._step()

    def hand_over(self, result: ActorResult, value: T) -> T:
        """Return the value of a result to the consumer, which has it then."""
        # Python interrupts where something is called or a loop goes back: not between here and the consumer's variable.
        self._handed = result
        self._torn = False
        return value

    def settle(self) -> None:
        """Count the result that was handed over as delivered. To do it again after an interrupt changes nothing."""
        if (result := self._handed) is not None:
            self.parts.deliver(result.parts)
            self._deliver(result.done)
            self.delivered, self._handed = self.delivered + 1, None

    def undelivered(self) -> Undelivered:
        self.settle()
        return self.table.undelivered()

    def _deliver(self, ranges: list[tuple[int, int]]) -> None:
        self.table.deliver(ranges)
        self.parts.forget(ranges)

    def stop(self) -> None:
        """Stop the actors, and take back their grants. Results that have arrived are kept, if it is not torn."""
        torn, self._torn = self._torn, True
        if torn:
            self._crew.stop()
            self._begin_again()
        else:
            for member in self._crew.members:
                self._take_back(member)
            self._crew.stop()
        self._torn = False

    def _begin_again(self) -> None:
        self.settle()
        table, parts = self.table.renew(), PartlyReceived(self.parts.to_state())
        self.table, self.parts, self._line = table, parts, self._empty_line()

    def _empty_line(self) -> InArrivalOrder | InPositionOrder:
        return InPositionOrder() if self._ordered else InArrivalOrder()

    # ---- work ----

    def _is_over(self) -> bool:
        return self.table.is_over() and not any(
            member.flushes_pending() or member.must_flush for member in self._crew.members
        )

    def _step(self) -> None:
        crew = self._crew
        crew.fill_up()
        for member in list(crew.members):
            if member.place is not None:
                self._employ(member)
        self._torn = False
        member, answer = crew.wait()
        self._torn = True
        if isinstance(answer, ActorReport):
            self._received(member, answer)
        elif isinstance(answer, Loss):
            self._lost(member, answer)
        else:
            member.note_begun(answer)

    def _employ(self, member: ActorMember) -> None:
        grants = [] if member.retiring else self._grants(member)
        begins = bool(grants) and member.epoch != self.begin.epoch
        for grant in grants:
            stretch = self._line.begin_stretch(grant.start)
            member.note_grant(self.begin.epoch, grant.start, grant.stop, stretch)
        flush = member.must_flush and (member.retiring or self.table.next_free() is None)
        if flush:
            member.note_flush()
        if grants or flush:
            self._crew.send(member, ActorWork(self.begin if begins else None, grants, flush))
        if self.table.held_by(member.number) or member.flushes_pending():
            while len(member.calls) < self._prefetch:
                self._crew.call(member)
        elif member.retiring and not member.calls:
            self._crew.stop_one(member)

    def _grants(self, member: ActorMember) -> list[Grant]:
        table = self.table
        grants: list[Grant] = []
        unfed = member.unfed()
        while (free := table.next_free()) is not None:
            if self._ordered and free >= table.lowest() + _AHEAD * table.lease * max(1, self._crew.size):
                break
            # Towards the end every actor gets less, so that all end at the same time.
            left = table.num_free()
            most = table.lease if left is None else max(1, min(table.lease, left // (2 * max(1, self._crew.size))))
            if unfed > most // 2:
                break
            granted = table.grant(member.number, most)
            assert granted is not None
            grants.append(Grant(*granted, self.parts.received_of(*granted)))
            unfed += granted[1] - granted[0]
        return grants

    def _received(self, member: ActorMember, report: ActorReport) -> None:
        before = member.flushed
        member.calls.popleft()
        member.note_report(report)
        if member.useful:
            self._fruitless = 0
        stretches = member.stretches
        for result in report.results:
            self.table.receive(member.number, result.done)
            self.parts.receive(result.parts)
            self._line.add(result, stretches[result.stretch - before] if stretches else None)
        if report.done:
            self.table.receive(member.number, report.done)
            last = min(report.flushed - before, len(stretches) - 1)
            self._line.add(report.done, stretches[last] if stretches else None)
        for _ in range(min(report.flushed - before, len(stretches))):
            stretches.popleft().end()
        if report.end is not None and report.epoch == self.begin.epoch:
            self.table.end_at(report.end)

    def _lost(self, member: ActorMember, loss: Loss) -> None:
        self._crew.drop(member)
        had = self._take_back(member)
        self.lost += 1
        self.returned += had
        place = "" if member.place is None else f" (process {member.place.pid} on {member.place.node})"
        what = f"Actor {member.number}{place} is lost, with {had} positions that it had not sent: {loss.reason}"
        if not self._reassign:
            raise ActorLostError(what)
        self._fruitless = 0 if member.useful else self._fruitless + 1
        if self._fruitless > 2 * self._crew.size + _FRUITLESS:
            raise ActorLostError(f"{self._fruitless} actors in a row have ended without having sent anything. {what}")
        _LOG.warning("%s. They are granted to others, and another actor is started.", what)

    def _take_back(self, member: ActorMember) -> int:
        for stretch in member.stretches:
            stretch.end()
        member.stretches.clear()
        return sum(stop - start for start, stop in self.table.lose(member.number))

"""The places of a program where items lie, from the sources to the consumer, and how many have come to each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .program import Aggregate, Fork, Pipe, Program, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .item import Key
    from .lab import SourceRecord

# Where an item stands in the order of its only source: its position, and the numbers of the results that it comes of.
Rank: TypeAlias = tuple[int, ...]


def rank_of(key: Key) -> Rank:
    """Return where an item stands in the order of its only source."""
    _, position, trail = key
    return (position, *(int(step.partition(".")[2] or 0) for step in trail))


@dataclass(eq=False)
class Task:
    """An item that a stage has taken.

    Attributes:
        number: How many the stage had taken before.
        rank: Where the item stands, if its stage keeps an order that is known.
        inside: Whether its op runs now.
        parked: Whether it is a generator between two results.
        results: How many it has given.
        attempts: How often its op has failed.
        due: When it is tried again, if it waits for that.
        since: When its op began or went on.
        doomed: Whether it takes so long that its item is given up.
    """

    number: int
    rank: Rank
    inside: bool = True
    parked: bool = False
    results: int = 0
    attempts: int = 0
    due: float | None = None
    since: float = 0.0
    doomed: bool = False


class Place:
    """A source, a stage or the consumer.

    Attributes:
        name: What findings call it.
        feeders: Where its items come from.
        following: Where its items go.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.feeders: list[Place] = []
        self.following: Place | None = None

    def outflow(self) -> int | None:
        """Return how many items have left it, None if nobody counts them."""
        return None

    def taken(self) -> int | None:
        """Return how many items it has taken, None if nobody counts them."""
        return None

    def inflow(self) -> int | None:
        """Return how many items have come to it."""
        total = 0
        for feeder in self.feeders:
            flow = feeder.outflow()
            if flow is None:
                return None
            total += flow
        return total

    def waiting(self) -> int | None:
        """Return how many items wait in front of it."""
        inflow, taken = self.inflow(), self.taken()
        return None if inflow is None or taken is None else inflow - taken

    def pending(self) -> int | None:
        """Return how many of its results wait in front of the next place."""
        following = self.following
        if following is None:
            return None
        if len(following.feeders) == 1 and following.taken() is not None:
            return following.waiting()
        # Somewhere in a merge or in a batch: it is known only that nothing is there.
        while following.taken() is None:
            if not isinstance(following, GatheringPlace) or following.following is None:
                return None
            following = following.following
        return 0 if following.waiting() == 0 else None

    def results_are_seen(self) -> bool:
        """Return whether it is always known how many of its results wait."""
        following = self.following
        return following is not None and len(following.feeders) == 1 and following.taken() is not None

    def is_finished(self) -> bool:
        """Return whether it is known that nothing more comes out of it."""
        return bool(self.feeders) and all(feeder.is_finished() for feeder in self.feeders)


class SourcePlace(Place):
    """A source whose pulls are counted."""

    def __init__(self, name: str, record: SourceRecord, size: int, *, tells_end: bool) -> None:
        super().__init__(name)
        self.record = record
        self.size = size
        # Whether it is seen that it has no more.
        self.tells_end = tells_end
        self.seconds = 0.0

    def outflow(self) -> int | None:
        return self.record.pulled

    def is_finished(self) -> bool:
        return bool(self.record.exhausted) if self.tells_end else self.record.pulled == self.size


class GatheringPlace(Place):
    """A stage that makes lists of ``n`` at once."""

    def __init__(self, name: str, n: int) -> None:
        super().__init__(name)
        self.n = n

    def outflow(self) -> int | None:
        inflow = self.inflow()
        if inflow is None or (inflow % self.n and self.is_finished()):
            # What is left at the end comes out when it has a place.
            return None
        return inflow // self.n


@dataclass(eq=False)
class _Ticket:
    rank: Rank
    results: int = 0
    done: bool = False


class PipePlace(Place):
    """A stage whose op is seen.

    Attributes:
        pipe: What it is.
        concurrency: How many items it may work on now.
        begun: How many items it has taken.
        tasks: Those that it works on, each by the identity of its item.
        begun_at: When it last took one.
        seconds: How long its ops have run, and how long it has been starved, blocked and held.
    """

    def __init__(self, pipe: Pipe, *, order_known: bool) -> None:
        super().__init__(pipe.name)
        self.pipe = pipe
        self.concurrency = pipe.concurrency
        self.begun = 0
        self.emitted = 0
        self.tasks: dict[int, Task] = {}
        self.began = False
        self.lowered_at: float | None = None
        # Ops that run on although their items were given up, by the identity of these.
        self.abandoned: set[int] = set()
        self.seconds = dict.fromkeys(("busy", "starved", "blocked", "held"), 0.0)
        self._order_known = order_known
        # Those whose results have not all left, in the order in which they leave.
        self._tickets: list[_Ticket] = []
        self._released = 0

    def engaged(self) -> int:
        """Return how many slots are in use, at most: generators may have been made that were asked for nothing yet."""
        if not self.pipe.op.is_generator:
            return len(self.tasks)
        waiting = self.waiting()
        unseen = self.concurrency if waiting is None else max(0, waiting)
        return max(len(self.tasks), min(self.concurrency, len(self.tasks) + unseen))

    @property
    def in_worker(self) -> bool:
        """Whether the pipeline's own threads run it."""
        return not self.pipe.pool and not self.pipe.op.form.startswith("async")

    def taken(self) -> int | None:
        return self.begun

    def outflow(self) -> int | None:
        if not self.pipe.ordered:
            return self.emitted
        if not self._order_known:
            return None
        return self._released + (self._tickets[0].results if self._tickets else 0)

    def is_finished(self) -> bool:
        return super().is_finished() and not self.tasks and (self.waiting() or 0) <= 0

    def parked(self) -> int:
        """Return how many generators wait between two results."""
        return sum(task.parked for task in self.tasks.values())

    def inside(self) -> int:
        """Return how many ops run."""
        return sum(task.inside for task in self.tasks.values())

    # ---- what happens ----

    def begin(self, value: int, rank: Rank, now: float) -> None:
        """Note that its op begins with an item, for the first time or again."""
        task = self.tasks.get(value)
        if task is not None:
            task.inside, task.due, task.since = True, None, now
            return
        self.tasks[value] = Task(self.begun, rank, since=now)
        self.begun += 1
        self.began = True
        if self.pipe.ordered:
            self._tickets.append(_Ticket(rank))
            if self._order_known:
                self._tickets.sort(key=lambda ticket: ticket.rank)

    def give(self, value: int, *, more: bool) -> None:
        """Note that an op gives a result; and whether more may come."""
        task = self.tasks.get(value)
        if task is None or task.doomed:
            return
        if more:
            task.inside, task.parked = False, True
        task.results += 1
        self._emit(task)

    def go_on(self, value: int, now: float) -> None:
        """Note that a generator goes on."""
        task = self.tasks.get(value)
        if task is not None:
            task.inside, task.parked, task.since = True, False, now

    def doom(self, value: int) -> None:
        """Note that an op will take so long that its item is given up."""
        self.tasks[value].doomed = True

    def is_being_abandoned(self, now: float, moment: float) -> bool:
        """Return whether an op's time is up at this very moment."""
        return any(task.doomed and abs(now - task.since - self.pipe.timeout) <= moment for task in self.tasks.values())

    def abandon(self, now: float) -> int:
        """Let go of the ops that take too long. Return how many these are."""
        overdue = [value for value, task in self.tasks.items() if task.doomed and now >= task.since + self.pipe.timeout]
        for value in overdue:
            self.abandoned.add(value)
            self._end(value)
        return len(overdue)

    def wait_until(self, value: int, due: float) -> None:
        """Note that an attempt has failed, and when the next one is due."""
        task = self.tasks.get(value)
        if task is None:
            return
        task.inside, task.due = False, due
        task.attempts += 1

    def leave(self, value: int) -> None:
        """Note that an op has ended, and that nothing is left of its item here unless it is tried again."""
        self.abandoned.discard(value)
        task = self.tasks.get(value)
        if task is not None and task.due is None:
            self._end(value)

    def forget(self, value: int) -> None:
        """Note that it is not known what becomes of an item. Another one may have its identity soon."""
        if self.tasks.pop(value, None) is not None:
            self.lose_order()

    def _end(self, value: int) -> None:
        task = self.tasks.pop(value)
        if self.pipe.ordered and self._order_known:
            self._ticket_of(task).done = True

    def settle(self) -> None:
        """Let go of what an ordered stage passes on: which items it has taken is known while everybody waits."""
        while self._tickets and self._tickets[0].done:
            self._released += self._tickets.pop(0).results

    def _emit(self, task: Task) -> None:
        self.emitted += 1
        if self.pipe.ordered and self._order_known:
            self._ticket_of(task).results += 1

    def _ticket_of(self, task: Task) -> _Ticket:
        return next(ticket for ticket in self._tickets if ticket.rank == task.rank and not ticket.done)

    # ---- order ----

    def lose_order(self) -> None:
        """Note that an item came of which nobody knows where it stands."""
        self._order_known = False

    def order_is_seen(self) -> bool:
        """Return whether it keeps no order, or one that is known."""
        return self._order_known or not self.pipe.ordered

    def tickets(self) -> int:
        """Return how many items it has taken since the oldest one that holds the others up, with that."""
        return len(self._tickets) if self._order_known else 0

    def kept_back(self) -> int:
        """Return how many results wait for an earlier item."""
        return sum(ticket.results for ticket in self._tickets[1:]) if self._order_known else 0

    def is_head(self, task: Task) -> bool:
        """Return whether no other item holds up its results."""
        return not self.pipe.ordered or self._tickets[0].rank == task.rank


@dataclass(eq=False)
class SinkPlace(Place):
    """The consumer.

    Attributes:
        size: How many items may lie in front of it.
        delivered: How many it has got.
        readers: How many threads of it wait for one.
        lost: How many it may have taken without getting them, since it was interrupted.
    """

    size: int
    delivered: int = 0
    readers: int = 0
    lost: int = 0
    feeders: list[Place] = field(default_factory=list)
    following: Place | None = None
    name: str = "the consumer"

    def taken(self) -> int | None:
        return self.delivered


def connect(  # noqa: C901 - a loop over the kinds of stages.
    program: Program, records: Sequence[SourceRecord]
) -> tuple[dict[str, PipePlace], list[SourcePlace], SinkPlace]:
    """Return the stages by their names, the sources, and the consumer."""
    pipes: dict[str, PipePlace] = {}
    sources: list[SourcePlace] = []
    single = len(program.sources) == 1 and not program.continuous
    moved = {deed.stage for deed in program.meddling if deed.deed == "concurrency"}

    def join(feeders: list[Place], place: Place) -> list[Place]:
        place.feeders = feeders
        for feeder in feeders:
            feeder.following = place
        return [place]

    def follow(feeders: list[Place], stages: Sequence[Stage], *, in_order: bool) -> tuple[list[Place], bool]:
        for stage in stages:
            place = Place(stage.name)
            if isinstance(stage, Pipe) and stage.pool != "process":
                place = pipes[stage.name] = PipePlace(stage, order_known=in_order)
                in_order = in_order and (stage.ordered or (stage.concurrency == 1 and stage.name not in moved))
            elif isinstance(stage, Aggregate) and not stage.seed and stage.raise_at < 0:
                place = GatheringPlace(stage.name, stage.n)
            else:
                in_order = False
            if isinstance(stage, Fork):
                for path in stage.paths:
                    follow([Place(stage.name)], path, in_order=False)
            feeders = join(feeders, place)
        return feeders, in_order

    ends: list[Place] = []
    for number, (source, record) in enumerate(zip(program.sources, records, strict=True)):
        start: Place = Place(f"source {number}")
        if source.kind != "pipeline":
            start = SourcePlace(f"source {number}", record, source.size, tells_end=source.kind != "list")
            sources.append(start)
        ends += follow([start], source.stages, in_order=False)[0] if source.stages else [start]
    last, _ = follow(ends, program.stages, in_order=single and not program.sources[0].stages)
    sink = SinkPlace(program.buffer_size)
    join(last, sink)
    return pipes, sources, sink

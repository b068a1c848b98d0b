"""Looks at a program whenever everybody waits and time passes: nothing may lie still then that could go on.

The rules are those of the documentation. A stage works on as many items as it may, as long as items wait, its results
have room and threads are free; a source is asked ahead as far as there is room; the consumer does not wait while there
is an item for it. What a stage is said to have waited for must be what it has waited for.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .places import PipePlace, Place, SourcePlace, connect, rank_of
from .program import Aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from spdl.pipeline import PipelineStatistics

    from .item import Item
    from .lab import SourceRecord
    from .program import Program

__all__ = ["Rest"]

# How many items may wait in front of a stage, and how many an ordered one takes besides those that it works on.
QUEUE = 2
AHEAD = 2
# Alarms that ring one after the other, as those who set them came one after the other, are no time that passes.
MOMENT = 1e-4
# Where pulls take less than this in the mean, nobody is woken for a pull while all threads are in ops.
SHORT = 20e-6
# How far what a stage says of its times may be from what was seen: reading a clock takes time.
TOLERANCE, INEXACT = 2.5e-3, 0.05
# How many items a merge may take from one source more than from another one that always has some: those on their way.
UNFAIR = 6
# How long it may take after the return of a merge until what it has put out has left, and its sources are given up.
DRAINED = 0.1


@dataclass
class QueueSeen:
    """What has lain in a queue.

    Attributes:
        occupied: For how many seconds something has.
        late: For how long results have waited for a place in it, all together.
    """

    occupied: float = 0.0
    late: float = 0.0

    def add(self, seconds: float, waiting: int, capacity: int) -> None:
        """Note how many items wait, and will for so many seconds."""
        self.occupied += seconds * (waiting > 0)
        self.late += seconds * max(0, waiting - capacity)


class Rest:
    """What lies where in a program that runs.

    Args:
        program: The program.
        records: What is done with its sources.
        report: Takes what is wrong.
        now: Returns the time, which does not pass by asking.

    Attributes:
        started: Whether the pipeline has been started.
        over: Whether the pipeline has been stopped or has failed, so that it need not go on.
    """

    def __init__(
        self,
        program: Program,
        records: Sequence[SourceRecord],
        report: Callable[[str], None],
        now: Callable[[], float],
    ) -> None:
        self.program = program
        self.now = now
        self.report = report
        self.started = False
        self.over = False
        self.stopped_at: float | None = None
        # Whether everybody has waited since: whoever asks for the stop may be kept from it, while others go on.
        self._stop_has_come = False
        self.failed_at: float | None = None
        # When a merge of the program's has returned, though its sources may have more.
        self.given_up_at: float | None = None
        # Whether time passes only when everybody waits.
        self.exact = False
        self.pipes, self.sources, self.sink = connect(program, records)
        # The stages that share a pool, the least urgent first.
        self.ranked = [place for place in self.pipes.values() if place.pipe.pool == "ranked"]
        # What has lain in front of each place.
        self.queues: dict[Place, QueueSeen] = {place: QueueSeen() for place in (*self.pipes.values(), self.sink)}
        self.num_threads = program.num_threads
        # Synchronous ops that run, and those among them whose items were given up and whose threads were replaced.
        self.sync_running = 0
        self._abandoned = 0
        self.capacities: dict[str, int] = {}
        # Whether limits have changed since time last passed.
        self.changed = False
        deeds = {deed.deed for deed in program.meddling}
        limited = program.max_failures or any(place.pipe.max_failures for place in self.pipes.values())
        # What gives items up or holds them up without a word to anybody here.
        self.seen = not (
            program.continuous
            or program.queue
            or program.hooks
            or program.merge
            or program.busy_pools
            or program.pools_fail_at >= 0
            or limited
            or "shut_pool" in deeds
            or any(
                (place.pipe.drop_overdue and (place.pipe.pool or place.pipe.op.edge))
                or place.pipe.on_failure == "slow"
                or place.pipe.op.by_batch
                or place.pipe.op.begins_in_thread
                or place.pipe.op.is_mixed
                for place in self.pipes.values()
            )
        )
        self.timed = self.seen and not deeds - {"statistics", "failures"}
        self.timed = self.timed and not any(place.pipe.drop_overdue for place in self.pipes.values())
        # What waits for nothing but a thread is not said to wait for anything.
        threads = sum(place.pipe.concurrency for place in self.pipes.values() if place.in_worker)
        self.waits_timed = threads <= program.num_threads and not self.ranked
        # How many items of each source have come to a stage: now, when time passed last, and when turns began to count.
        self._begun = [0] * len(program.sources)
        self._begun_before = list(self._begun)
        self._turns_since = list(self._begun)
        # How many items have waited for a stage since everybody waited last.
        self._waited: dict[Place, int] = {}
        # Tells how the pipeline describes itself, and how many items it says to have for the consumer.
        self.describe: Callable[[], str] = str
        self.ready: Callable[[], int] = int
        # What an aggregator of the program's has taken, by its name.
        self.gathered: Counter[str] = Counter()

    def take_turns(self) -> None:
        """Have threads that note something at the same time come one after the other."""
        turn = threading.RLock()

        def in_turn(note: Callable[..., None]) -> Callable[..., None]:
            def note_in_turn(*arguments: Any, **options: Any) -> None:
                with turn:
                    note(*arguments, **options)

            return note_in_turn

        for name in ("take", "doom", "give", "go_on", "try_again", "leave", "set_concurrency"):
            setattr(self, name, in_turn(getattr(self, name)))

    # ---- what happens ----

    def stop(self) -> None:
        """Note that the pipeline is asked to stop."""
        self.over = True
        if self.stopped_at is None:
            self.stopped_at = self.now()

    def fail(self) -> None:
        """Note that something raises that fails the pipeline."""
        self.over = True
        if self.failed_at is None:
            self.failed_at = self.now()

    def give_up_sources(self) -> None:
        """Note that nothing more is wanted of the sources."""
        self.given_up_at = self.now()

    def begins(self, what: str) -> None:
        """Note that something of the user's begins."""
        if not self.exact:
            return
        if self._stop_has_come and self.stopped_at is not None and self.now() > self.stopped_at + MOMENT:
            self.report(f"{what} is called {self.now() - self.stopped_at:.4f} s after the pipeline was asked to stop")
        if self.given_up_at is not None and self.now() > self.given_up_at + DRAINED and what.startswith("source"):
            self.report(f"{what} is called {self.now() - self.given_up_at:.4f} s after the merge has returned")
        if self.failed_at is not None and self.now() > self.failed_at + MOMENT and what.startswith("source"):
            self.report(f"{what} is called {self.now() - self.failed_at:.4f} s after the pipeline has failed")

    def take(self, stage: str, value: Any) -> None:
        """Note that an op begins with an item."""
        elements: list[Item] = value if isinstance(value, list) else [value]
        place = self.pipes[stage]
        self._abandon(place)
        if place in self.ranked and self.program.ranked_workers == 1:
            self._look_at_rank(place)
        # A generator that was made before begins when it is asked for its first result.
        lowered = self.seen and not place.pipe.op.is_generator
        lowered = lowered and place.lowered_at is not None and self.now() > place.lowered_at + MOMENT
        if lowered and len(place.tasks) >= place.concurrency and id(value) not in place.tasks:
            self.report(f"{stage} begins another item; it works on {len(place.tasks)} of {place.concurrency}")
        for element in elements:
            element.watched = False
        task = place.tasks.get(id(value))
        # One that a hook has not waited for runs on beside the next attempt.
        known = task is not None and self.program.hooks != "timeout"
        if known and task is not None and task.due is not None and self.now() < task.due - MOMENT:
            self.report(f"{stage} tries an item again {task.due - self.now():.4f} s too early")
        if not elements:
            place.lose_order()
        else:
            self._begun[elements[0].source] += 1
        self._waited[place] = self._waited.get(place, 0) - 1
        place.begin(id(value), rank_of(elements[0].key) if elements else (), self.now())

    def _look_at_rank(self, place: PipePlace) -> None:
        """Look whether a shared pool's only thread begins an item while a more urgent stage could go on."""
        known = self.seen and self.exact and not self.program.slow_lock
        if not known or self.over or self.changed or place.pipe.op.is_generator:
            return
        for other in self.ranked[self.ranked.index(place) + 1 :]:
            engaged, pending, waiting = other.engaged(), other.pending(), other.waiting() or 0
            plain = not (other.pipe.ordered or other.pipe.retries or other.pipe.op.is_generator)
            if not plain or pending is None or len(other.feeders) > 1:
                continue
            if other is not place.following:
                # What has just come out elsewhere may be on its way.
                waiting = min(waiting, self._waited.get(other, 0))
            room = engaged + pending < self._capacity(other.following) + other.concurrency
            if waiting > 0 and engaged < other.concurrency and room:
                self.report(
                    f"{place.name} begins an item in a shared pool while more urgent ones wait for {other.name}"
                )

    def _abandon(self, place: PipePlace) -> None:
        if place.pipe.drop_overdue:
            self._abandoned += place.abandon(self.now() + MOMENT) * place.in_worker
            if self._abandoned > 2 * self.num_threads:
                # So many are too many.
                self.fail()

    def doom(self, stage: str, value: Any) -> None:
        """Note that an op will take so long that its item is given up."""
        self.pipes[stage].doom(id(value))

    def give(self, stage: str, value: Any, *, more: bool = False) -> None:
        """Note that an op gives a result; ``more`` says that it is a generator's."""
        self.pipes[stage].give(id(value), more=more)

    def go_on(self, stage: str, value: Any) -> None:
        """Note that a generator is asked for more."""
        self.pipes[stage].go_on(id(value), self.now())

    def try_again(self, stage: str, value: Any, delay: float) -> None:
        """Note that an item is to be tried again."""
        self.pipes[stage].wait_until(id(value), self.now() + delay)

    def forget(self, stage: str, value: Any) -> None:
        """Note that it is not known what becomes of an item."""
        if (place := self.pipes.get(stage)) is not None:
            place.forget(id(value))

    def leave(self, stage: str, value: Any) -> None:
        """Note that an op has ended."""
        place = self.pipes[stage]
        if place.in_worker and id(value) in place.abandoned:
            self._abandoned -= 1
        place.leave(id(value))

    def set_concurrency(self, stage: str, concurrency: int) -> None:
        """Note how many items a stage may work on from now on."""
        place = self.pipes.get(stage)
        self.changed = True
        if place is None:
            return
        if concurrency < place.concurrency:
            place.lowered_at = self.now()
        place.concurrency = concurrency
        if place.in_worker:
            self.num_threads = max(self.num_threads, concurrency)

    def set_num_threads(self, number: int) -> None:
        """Note how many synchronous ops may run from now on."""
        self.num_threads = number

    def set_capacity(self, stage: str, capacity: int) -> None:
        """Note how many items may wait in front of a stage from now on."""
        self.changed = True
        self.capacities[stage] = capacity

    # ---- when time passes ----

    def look(self, seconds: float) -> None:
        """Called when everybody waits, and will wait for so many seconds."""
        self._stop_has_come = self.stopped_at is not None
        if not self.started or not self.seen:
            return
        unsettled = any(place.is_being_abandoned(self.now(), 2 * MOMENT) for place in self.pipes.values())
        for place in self.pipes.values():
            self._abandon(place)
            place.settle()
        if not (self.over or unsettled or self.program.slow_lock) and seconds > MOMENT:
            self._look_around()
        for source in self.sources:
            source.seconds += seconds * bool(source.record.pull.inside)
        for reader, queue in self.queues.items():
            queue.add(seconds, reader.waiting() or 0, self._capacity(reader))
        for place in self.pipes.values():
            self._add_up(place, seconds)
            place.began = place.began and seconds <= MOMENT
        self.changed = self.changed and seconds <= MOMENT
        if seconds > MOMENT:
            self._waited = {place: place.waiting() or 0 for place in self.ranked}

    def _look_around(self) -> None:
        self._look_at_end()
        if self.sink.readers and (self.sink.waiting() or 0) > self.sink.lost:
            self.report(f"the consumer waits, although {self.sink.waiting()} items are there for it")
        if self.sink.readers and self.sink.lost and self.ready():
            # One that was interrupted has kept nobody else from reading.
            self.report(f"a consumer waits, although the pipeline has {self.ready()} items for it")
        # Once it was interrupted, it is not known what lies in front of it.
        if not self.sink.lost:
            for source in self.sources:
                self._look_at_source(source)
            for place in self.pipes.values():
                self._look_at_pipe(place)
            self._look_at_merge()

    def _look_at_end(self) -> None:
        """Look whether the pipeline has come to its end: what is dropped there needs no place behind it."""
        last = self.program.stages[-1] if self.program.stages else None
        if not isinstance(last, Aggregate) or not last.drop_last or last.raise_at >= 0 or self.sink.lost:
            return
        place = self.sink.feeders[0]
        if not place.is_finished() or any(pipe.tasks or pipe.waiting() for pipe in self.pipes.values()):
            return
        inflow = place.inflow()
        # The batches that are complete need places, and one more keeps the aggregator's slot; those of the program's
        # aggregators have left if all items have come.
        has_places = (self.sink.waiting() or 0) <= self._capacity(self.sink) + 1
        taken = self.gathered[last.name] == inflow if last.seed else self.sink.waiting() is not None and has_places
        if inflow and taken and "(running)" in self.describe():
            self.report("the pipeline runs on, although nothing is left but batches for the consumer")

    def _capacity(self, place: Place | None) -> int:
        if place is self.sink:
            return self.capacities.get("sink", self.sink.size)
        return QUEUE if place is None else self.capacities.get(place.name, QUEUE)

    def _look_at_source(self, source: SourcePlace) -> None:
        following = source.following
        pulling = source.record.pull.inside
        pending = source.pending()
        if pending is None or not isinstance(following, Place):
            return
        capacity = self._capacity(following) if source.results_are_seen() else 1
        if pulling or source.record.pulled >= source.size or pending >= capacity:
            return
        in_worker = isinstance(following, PipePlace) and following.in_worker
        if in_worker and self._threads_taken() >= self.num_threads:
            # Without a free thread, only what takes long is pulled.
            kind = self.program.sources[source.record.number]
            alone = kind.dedicated or kind.kind.startswith("async")
            if not alone and source.seconds <= 2 * SHORT * max(1, source.record.pulled):
                return
        self.report(f"{source.name} is not asked, although {capacity - pending} items have room")

    def _threads_taken(self) -> int:
        return self.sync_running - self._abandoned

    def _look_at_pipe(self, place: PipePlace) -> None:
        pending, waiting = place.pending(), place.waiting()
        engaged, limit = place.engaged(), place.concurrency
        capacity = self._capacity(place.following)
        threads = not place.in_worker or self._threads_taken() < self.num_threads
        if place.pipe.pool == "ranked":
            threads = sum(other.inside() for other in self.ranked) < self.program.ranked_workers
        elif place.pipe.pool:
            threads = place.inside() < place.pipe.concurrency
        if threads:
            self._look_at_tasks(place, pending, capacity)
        if place.order_is_seen() and pending is not None:
            has_room = engaged + pending < capacity + limit and place.tickets() < limit + AHEAD * place.pipe.ordered
            if waiting and waiting > 0 and engaged < limit and threads and (has_room or not (pending or engaged)):
                self.report(f"{waiting} items wait for {place.name}, where {engaged} of {limit} slots are taken")
            following = place.following
            most = capacity + limit + (limit + AHEAD) * place.pipe.ordered
            if isinstance(following, PipePlace) and following.pipe.op.is_generator:
                # It may have made generators that were asked for nothing yet.
                most += following.concurrency
            there = 0 if place.pipe.op.is_generator else engaged
            if place.began and not self.changed and there + pending > most:
                self.report(f"{place.name} has begun an item; {there} are there and {pending} wait behind it")
        if place.tickets() > limit + AHEAD and not self.changed and place.began:
            self.report(f"{place.name} has taken {place.tickets()} items since the oldest one that it works on")
        if place.kept_back() > limit + AHEAD and place.began and not self.changed:
            self.report(f"{place.kept_back()} results of {place.name} wait for an earlier item")

    def _look_at_tasks(self, place: PipePlace, pending: int | None, capacity: int) -> None:
        """Look at what is to go on in a stage that has a free thread."""
        now = self.now()
        # An async generator keeps a place for its next result.
        under_way = place.engaged() - place.parked() * (place.pipe.op.form == "generator")
        for task in place.tasks.values():
            if task.due is not None and task.due < now - MOMENT:
                self.report(f"an item that {place.name} tries again waits {now - task.due:.4f} s too long")
            if not task.parked or pending is None or not place.order_is_seen():
                continue
            if place.is_head(task):
                goes_on = under_way * (not place.pipe.ordered) + pending < capacity + place.concurrency
            else:
                goes_on = place.kept_back() + under_way < place.concurrency + AHEAD
            if goes_on:
                self.report(f"a generator of {place.name} waits, although its next result has room")

    def _look_at_merge(self) -> None:
        """Look whether a merge takes turns: which items came through, while all sources had some."""
        first = self.sources[0].following if self.sources else None
        if len(self.sources) < 2 or len(self.sources) < len(self.program.sources) or not isinstance(first, PipePlace):
            return
        if any(source.following is not first for source in self.sources):
            return
        ahead = [source.record.pulled - begun for source, begun in zip(self.sources, self._begun, strict=True)]
        passed = sum(self._begun) - sum(self._begun_before)
        self._begun_before = list(self._begun)
        if min(ahead) < QUEUE or passed > QUEUE:
            # One of them may have had none for a moment.
            self._turns_since = list(self._begun)
            return
        counts = [now - then for now, then in zip(self._begun, self._turns_since, strict=True)]
        if max(counts) - min(counts) > UNFAIR:
            self.report(f"the merge has taken {counts} items from sources that all have some")

    # ---- times ----

    def _add_up(self, place: PipePlace, seconds: float) -> None:
        place.seconds["busy"] += seconds * place.inside()
        engaged, limit, waiting = len(place.tasks), place.concurrency, place.waiting()
        if self.over or engaged >= limit or waiting is None or place.is_finished():
            return
        if not waiting:
            place.seconds["starved"] += seconds
        elif place.pipe.ordered and place.tickets() >= limit + AHEAD:
            place.seconds["held"] += seconds
        elif engaged + (place.pending() or 0) >= self._capacity(place.following) + limit:
            place.seconds["blocked"] += seconds

    def compare(self, statistics: PipelineStatistics) -> list[str]:
        """Return where the times that the pipeline tells are not those that were seen."""
        if not self.timed:
            return []
        findings = []
        by_name = {stage.name: stage for stage in statistics.stages}
        for place in self.pipes.values():
            stage = by_name[place.name]
            told = {
                "busy": stage.busy_seconds,
                "starved": stage.starved_seconds,
                "blocked": stage.blocked_seconds,
                "held": stage.held_seconds,
            }
            if place.pipe.op.form == "async_generator":
                continue
            unknown = (
                not self.waits_timed
                or place.waiting() is None
                or not place.results_are_seen()
                or not place.order_is_seen()
            )
            unknown = unknown or any(
                isinstance(each, PipePlace) and each.pipe.op.is_generator for each in (place, place.following)
            )
            # A stage that waits for a thread may be told to be starved, too.
            findings += [
                f"{place.name} tells of {told[what]:.4f} s {what}, not {seen:.4f} s"
                for what, seen in place.seconds.items()
                if not (self.program.slow_lock and what != "busy")
                and (seen - told[what] if what == "starved" else abs(told[what] - seen)) > TOLERANCE + INEXACT * seen
                and not (unknown and what != "busy")
            ]
        return findings

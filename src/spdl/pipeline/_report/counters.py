"""The counters of stages, queues and stores: everything that statistics, hooks, log lines and the verdict read.

A new counter is a slot here with its first value, which the code that counts it changes, and a field in `sample`, which
says how it is read and told.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from spdl._counted import Counted, bytes_of_thread, counted_now
from spdl.pipeline._report.perf_stats import AT_LEAST_ONE_OF, SHORT, Histogram, Sampling, TaskRecord
from spdl.pipeline._world import perf_counter

# Why a stage with a free slot does not use it: no item waits, a result would have no place to go, or too many results
# wait for an earlier one. They are indices into `StageCounters.waits`.
STARVED, BLOCKED, HELD = 0, 1, 2

# The first short waits for a place are all noted, then one in that many.
_ALL_OF_FIRST = 256
_ONE_OF = 16


class QueueCounters:
    """The counters of one queue: how long results wait for a place, and how long the queue holds something.

    Most items never lie in a queue: a worker carries them to the next stage at once. They have waited for nothing, and
    have held no place for any time. So only items that do lie in the queue are noted.

    Guarded by the engine's lock, except for the values that the consumer notes.

    Attributes:
        fill: How many entries lay in the queue each time one was taken (in the sink: put), added up.
        late: When the entries that have no place yet were appended, the oldest first.
        num_late: How many entries have waited for a place and got one; ``put_seconds`` and ``put_times`` say how long.
        get_times: The durations of waits for an item.
        taken: How many items were taken out of the queue, unless the reader's ops are counted instead.
        get_seconds: How long items were waited for, where the reader does not count that itself.
        got_at: When the last item was taken; before that, the start.
        occupied_seconds: How long something lay in the queue until the last item was taken.
        filled_at: When something last came into the empty queue.
        emptied_at: When the consumer last took all there was.
        sample_at: The item whose wait is noted next, for ``weight`` waits; 0 while each is.
    """

    __slots__ = (
        "emptied_at",
        "fill",
        "filled_at",
        "get_seconds",
        "get_times",
        "got_at",
        "late",
        "num_late",
        "occupied_seconds",
        "put_seconds",
        "put_times",
        "sample_at",
        "sampling",
        "taken",
        "weight",
    )

    def __init__(self) -> None:
        self.fill = 0
        self.late: deque[float] = deque()
        self.num_late = 0
        self.put_seconds = 0.0
        self.put_times = Histogram()
        self.get_times = Histogram()
        self.sampling = Sampling()
        self.sample_at = 0
        self.weight = 1
        self.taken = 0
        self.get_seconds = 0.0
        self.got_at = 0.0
        self.occupied_seconds = 0.0
        self.filled_at = 0.0
        self.emptied_at = 0.0

    def begin(self, now: float) -> None:
        self.got_at = now

    # ---- entries that come in ----

    def catch_up(self, excess: int, now: float) -> None:
        """Note how long those entries waited that have a place now, when that many still have none."""
        late = self.late
        while late and len(late) > excess:
            seconds = now - late.popleft()
            self.put_seconds += seconds
            self.num_late += 1
            if seconds >= SHORT or self.num_late < _ALL_OF_FIRST:
                self.put_times.add(seconds)
            elif not self.num_late % _ONE_OF:
                self.put_times.add(seconds, _ONE_OF)

    # ---- entries that are taken ----

    def took(self, now: float, since: float, excess: int) -> None:
        """Note that an entry was taken that lay in the queue.

        Since the one before was taken, or something came into it, the queue was not empty. ``excess`` is how many more
        entries wait now than have a place.
        """
        self.occupied_seconds += now - max(since, self.filled_at)
        if self.late:
            self.catch_up(excess, now)

    def uncount(self, waiting: int) -> None:
        """Take back that this many entries lay in the queue when one was taken, or put: it was not an item."""
        self.fill -= waiting

    def took_uncounted(self, now: float, excess: int, *, item: bool) -> None:
        """Note that an entry was taken by a reader that does not note when, or, with ``item``, how long it waited."""
        since, self.got_at = self.got_at, now
        self.took(now, since, excess)
        if item:
            self.awaited(max(0.0, self.filled_at - since))
            self.taken += 1

    def awaited(self, seconds: float) -> None:
        self.get_seconds += seconds
        self.get_times.add(seconds)

    def choose_next(self, now: float) -> None:
        self.weight = self.sampling.weight(now, self.taken)
        self.sample_at = self.taken + self.sampling.stride(self.weight) if self.weight > 1 else 0

    # ---- the sink's queue ----

    def refilled(self, now: float) -> None:
        """Note that an entry was put into the sink, which the consumer had emptied."""
        if self.filled_at:
            # The consumer notes when, a moment after it has taken it.
            emptied_at = self.emptied_at if self.emptied_at > self.filled_at else now
            self.occupied_seconds += emptied_at - self.filled_at
        self.filled_at = now

    def emptied(self, now: float) -> None:
        self.emptied_at = now


class StageCounters:
    """The counters of one stage. Its owner, the stage, changes them under the engine's lock; anyone may read them.

    Attributes:
        completed: Items whose op ended without raising.
        emitted: Results passed on; for a source, items handed out.
        dropped: Results dropped because they were None.
        retried: Attempts that failed and were followed by another.
        steps: Tasks apart from one for each completed item: a generator's results, an aggregator's flushes.
        busy_seconds: Time in ops that have ended; ``cpu_seconds`` is the CPU time of the threads in them.
        bytes_read: Bytes that the ops have read from stores, as `spdl._counted` knows it of the threads.
        awaited_seconds: The part of ``busy_seconds`` in which the event loop ran what an op had returned to a worker.
        other_seconds: The part of ``busy_seconds`` that is not time of tasks that succeeded. ``times`` has theirs.
        waits: Seconds with a free slot that was not used, by reason.
        waiting_for: The reason of the current wait, if ``waiting_since`` is not 0.
        got_at: When the last item was taken.
        sample_at: The count of tasks at which the next one is measured, for ``weight`` tasks; with 0 and 1, all are.
    """

    __slots__ = (
        "awaited_seconds",
        "busy_seconds",
        "bytes_read",
        "completed",
        "cpu_seconds",
        "dropped",
        "emitted",
        "failed",
        "got_at",
        "other_seconds",
        "overdue",
        "queue",
        "retried",
        "sample_at",
        "sampling",
        "steps",
        "times",
        "waiting_for",
        "waiting_since",
        "waits",
        "weight",
    )

    def __init__(self) -> None:
        self.completed = self.emitted = self.failed = self.dropped = self.retried = self.overdue = 0
        self.steps = self.bytes_read = 0
        self.busy_seconds = self.cpu_seconds = self.other_seconds = self.awaited_seconds = 0.0
        self.times = Histogram()
        self.waits = [0.0, 0.0, 0.0]
        self.waiting_for = STARVED
        self.waiting_since = 0.0
        self.got_at = 0.0
        self.sample_at = 0
        self.weight = 1
        self.sampling = Sampling()
        self.queue = QueueCounters()

    # ---- waits ----

    def begin(self, now: float) -> None:
        self.waiting_since = now

    def wait(self, reason: int) -> None:
        """Note that a free slot stays free from now on."""
        if self.waiting_since and self.waiting_for == reason:
            return
        now = perf_counter()
        self.end_wait(now)
        self.waiting_for = reason
        self.waiting_since = now

    def end_wait(self, now: float) -> None:
        if self.waiting_since:
            self.waits[self.waiting_for] += now - self.waiting_since
            self.waiting_since = 0.0

    def waited(self, now: float) -> list[float]:
        """Return the seconds of waits by reason, the current one included."""
        waits = list(self.waits)
        since = self.waiting_since
        if since and now > since:
            waits[self.waiting_for] += now - since
        return waits

    def read_from(self, queue: QueueCounters) -> None:
        self.queue = queue

    # ---- items ----

    def item_taken(self, waiting: int, excess: int, *, all_slots_taken: bool) -> None:
        """Note that an item was taken, with that many left in the queue: ``excess`` more than have a place."""
        now = perf_counter()
        queue = self.queue
        queue.taken += 1
        if queue.taken >= queue.sample_at:
            self.note_wait(now, queue.weight)
            queue.choose_next(now)
        self.taken_at(now, waiting, excess, all_slots_taken=all_slots_taken)

    def taken_at(self, now: float, waiting: int, excess: int | None, *, all_slots_taken: bool) -> None:
        """Note all but how long the item was waited for.

        ``excess`` is None if the item did not lie in the queue.
        """
        if excess is not None:
            self.queue.took(now, self.got_at, excess)
        self.got_at = now
        if self.waiting_since and (self.waiting_for or waiting or all_slots_taken):
            self.waits[self.waiting_for] += now - self.waiting_since
            self.waiting_since = 0.0
        if not (all_slots_taken or waiting or self.waiting_since):
            # Another slot is free, and whatever it has waited for until now, it waits for an item from now on.
            self.waiting_for = STARVED
            self.waiting_since = now

    def slot_freed(self, waiting: int) -> None:
        if not self.waiting_since and not waiting:
            self.waiting_for = STARVED
            self.waiting_since = perf_counter()

    def mark_taken(self, waiting: int, excess: int) -> None:
        """Note that what was taken from the queue, of that many, is the end of an epoch, and counts as no item."""
        now = perf_counter()
        self.queue.uncount(waiting)
        self.queue.took(now, self.got_at, excess)
        self.got_at = now

    def note_wait(self, now: float, weight: int) -> None:
        """Note how long an item was waited for that is taken now, standing for that many."""
        waited = 0.0
        if self.waiting_since and self.waiting_for == STARVED:
            # A slot that was free all the time has waited only since the item before this one.
            waited = now - max(self.waiting_since, self.got_at)
        self.queue.get_times.add(waited, weight)

    def note_arrival(self) -> None:
        """Note how long an item was waited for by a stage without tasks.

        Two that follow each other are measured, and then some are not.
        """
        now = perf_counter()
        if not self.got_at and self.weight > 1:
            self.got_at = now
            return
        self.note_wait(now, self.weight)
        self.choose_next(now)
        self.got_at = now if self.weight == 1 else 0.0

    # ---- tasks ----

    def claim_weight(self) -> int:
        """Return how many tasks the one that begins now stands for; 0 if it is not measured."""
        if self.completed + self.steps < self.sample_at:
            return 0
        if self.weight > 1:
            self.sample_at += AT_LEAST_ONE_OF
        return self.weight

    def note_long(self, seconds: float) -> None:
        """Note a task that took long, though it was not to be measured; the next ones are."""
        self.times.add(seconds)
        self.bytes_read += bytes_of_thread()
        self.weight = 1
        self.sample_at = 0

    def note_task(self, seconds: float, weight: int, now: float) -> None:
        """Note a measured task, standing for that many, and choose the next one."""
        if seconds >= SHORT:
            # All of these are noted.
            self.note_long(seconds)
        else:
            self.times.add(seconds, weight)
            self.choose_next(now)

    def choose_next(self, now: float) -> None:
        """Choose the task that is measured next."""
        self.choose_next_of(self.completed + self.steps, now)

    def choose_next_of(self, count: int, now: float) -> None:
        """Choose which of the events that were counted that often is measured next."""
        self.weight = self.sampling.weight(now, count)
        self.sample_at = count + self.sampling.stride(self.weight) if self.weight > 1 else 0

    def note_success(self, seconds: float) -> None:
        """Note the duration of a task whose time is added up elsewhere."""
        if seconds >= SHORT:
            self.times.add(seconds)
        elif self.completed + self.steps >= self.sample_at:
            self.note_task(seconds, self.weight, perf_counter())

    def succeeded(self, seconds: float) -> None:
        """Add up the time of a task whose CPU time was not measured."""
        self.busy_seconds += seconds
        self.note_success(seconds)

    def did_not_succeed(self, seconds: float) -> None:
        """Add up the time of a task that raised, or of a call that is not a task."""
        self.bytes_read += bytes_of_thread()
        self.busy_seconds += seconds
        self.other_seconds += seconds

    def ran_on_loop(self, seconds: float) -> None:
        self.awaited_seconds += seconds

    def add_worker_time(self, seconds: float) -> None:
        self.busy_seconds += seconds

    def add_cpu(self, seconds: float, cpu: float, weight: int = 1) -> None:
        """Add a measured op's CPU time, standing for that many ops."""
        # The clock's own cost shows on the shortest ops; a thread cannot use more time than passes.
        self.cpu_seconds += min(cpu, seconds) * weight
        self.bytes_read += bytes_of_thread()

    def add_foreign(self, cpu: float, bytes_read: int) -> None:
        """Add the CPU time that another process has measured, and the bytes that it has read."""
        self.cpu_seconds += cpu
        self.bytes_read += bytes_read

    def task_record(self) -> TaskRecord:
        seconds = self.busy_seconds - self.other_seconds
        return TaskRecord(self.completed + self.steps, self.failed + self.retried, seconds, self.times.counts.copy())


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The counts of a store of `spdl.store` since a pipeline's start, for all its readers.

    Attributes:
        name: The store's repr.
        counts: The counters by their names: the fields of `spdl.store.StoreStatistics` and
            `spdl.store.CacheStatistics` that only grow, such as ``requests``, ``bytes``, ``retries``, ``hedges``,
            ``waited_seconds``, ``disk_hits``.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> with PipelineBuilder().add_source(range(4)).add_sink().build(num_threads=1).auto_stop() as pipeline:
        ...     statistics = list(pipeline) and pipeline.statistics()
        >>> statistics.stores  # Nothing was read from a store.
        ()
        >>> StoreCounts("HTTPStore('https://example.com')", {"requests": 12, "retries": 1}).counts["retries"]
        1
    """

    name: str
    counts: dict[str, float]


class StoresMeanwhile:
    """Compares what the stores have counted at the beginning and at the end."""

    def __init__(self) -> None:
        self._before: dict[int, Counted] | None = None
        self._after: dict[int, Counted] | None = None

    def begin(self) -> None:
        self._before = counted_now()

    def end(self) -> None:
        self._after = counted_now()

    def counts(self) -> tuple[StoreCounts, ...]:
        """Return what each store that did something has counted since, now or at the end."""
        if self._before is None:
            return ()
        after = counted_now() if self._after is None else self._after
        found = []
        for number, (name, counters) in after.items():
            before = self._before[number].counters if number in self._before else {}
            since = {each: max(0, count - before.get(each, 0)) for each, count in counters.items()}
            if any(since.values()):
                found.append(StoreCounts(name, since))
        return tuple(found)

"""Samples of a pipeline over a time: its counters at both ends, and its threads between them."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import TYPE_CHECKING

from spdl.pipeline._report.sample import Doing, Sample, SourceSample, StageSample
from spdl.pipeline._report.threads import ThreadTimes, core_times, sleeps_of, stat_fields

if TYPE_CHECKING:
    from spdl.observe._page import ObservedPipeline
    from spdl.pipeline._report.statistics import PageHead


_TICKS = os.sysconf("SC_CLK_TCK")
_NANOSECONDS = 1e9
# By a signal, and by a debugger.
_STOPPED = (b"T", b"t")
# The fields of a core's line with its idle time, and its idle time while something waited for a disk.
_IDLE, _DISK = 4, 5


def thread_times(pid: int) -> dict[int, ThreadTimes]:
    """Return the times of all threads of a process by their numbers: an empty dict if there is no such process."""
    found = {}
    try:
        threads = [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return {}
    for thread in threads:
        if (times := _times(pid, thread)) is not None:
            found[thread] = times
    return found


def _times(pid: int, thread: int) -> ThreadTimes | None:
    try:
        sleeps = sleeps_of(pid, thread)
        if (times := core_times(pid, thread)) is not None:
            return ThreadTimes(times[0] / _NANOSECONDS, times[1] / _NANOSECONDS, sleeps)
        # A kernel without statistics of its scheduler counts in ticks.
        fields = stat_fields(f"{pid}/task/{thread}")
        return ThreadTimes((int(fields[11]) + int(fields[12])) / _TICKS, 0.0, sleeps)
    except (OSError, IndexError, ValueError):
        return None


def doing(pid: int, thread: int) -> Doing:
    try:
        state = stat_fields(f"{pid}/task/{thread}")[0]
        if state == b"R":
            return Doing.RUNS
        if state in _STOPPED:
            return Doing.STOPPED
        if state in (b"Z", b"X"):
            return Doing.GONE
        # If the system does not name the function that it sleeps in, the file has 0.
        waits_for = Path(f"/proc/{pid}/task/{thread}/wchan")
        return Doing.WAITS_FOR_THREAD if "futex" in waits_for.read_text() else Doing.WAITS
    except (OSError, IndexError):
        return Doing.GONE


def thread_name(pid: int, thread: int) -> str:
    """Return the name that the system knows a thread by; an empty one if it has ended."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    except (OSError, ValueError):
        return ""


def is_stopped(pid: int) -> bool:
    return doing(pid, pid) is Doing.STOPPED


def idle_seconds(pid: int) -> float | None:
    """Return for how many seconds the cores that a process may use were idle, since they began: None if unknown."""
    try:
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(pid)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        idle = [int(line[_IDLE]) + int(line[_DISK]) for line in lines if line and line[0] in allowed]
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return sum(idle) / _TICKS if idle else None


# Seconds between two looks at the threads.
_INTERVAL = 0.025
# Seconds between two readings of the threads' times.
_TIMES_INTERVAL = 0.1
# Looking at more of them would itself cost the machine something.
_MOST_THREADS = 32
SHORTEST = 0.3
"""If a pipeline ends before so many seconds of the time, all that it did since its start counts."""
# A thread that this share of the looks saw in the ops of one part hardly does anything else.
_ALWAYS = 0.95


@dataclass(frozen=True, slots=True)
class Seen:
    """Samples of a pipeline over a time.

    Attributes:
        looks: The samples, oldest first; two at least.
        times_before: The times of the process's threads at the first look, by their numbers.
        times_after: The same at the last look.
        state: The end of the pipeline, if all of this covers the time since its start: ``"killed"`` or
            ``"ended"``; otherwise empty.
        last: The last content of its page, threads included, in that case.
        before_last: The counters that were written before the last ones, if it was killed and they are known.
        cores_idle: How many of the cores that the process may use were idle, in the mean; infinite if unknown.
        glimpse: A few looks at the threads, if only counters are known of the pipeline otherwise; may be empty.
    """

    looks: Sequence[Sample]
    times_before: Mapping[int, ThreadTimes]
    times_after: Mapping[int, ThreadTimes]
    state: str = ""
    last: Sample | None = None
    before_last: Sample | None = None
    cores_idle: float = math.inf
    glimpse: Sequence[Sample] = ()

    @property
    def before(self) -> Sample:
        return self.looks[0]

    @property
    def after(self) -> Sample:
        return self.looks[-1]

    @property
    def looked(self) -> bool:
        return bool(self.times_before)

    @property
    def seconds(self) -> float:
        return max(1e-9, self.after.seen_at - self.before.seen_at)

    def cpu(self) -> dict[int, float]:
        return {
            thread: (times.on_core - self._at_first(thread).on_core) / self.seconds
            for thread, times in self.times_after.items()
        }

    def core_waits(self) -> dict[int, float]:
        return {
            thread: (times.waiting - self._at_first(thread).waiting) / self.seconds
            for thread, times in self.times_after.items()
        }

    def _at_first(self, thread: int) -> ThreadTimes:
        # A thread that began later had used nothing.
        return self.times_before.get(thread, ThreadTimes(0.0, 0.0, 0))

    def doing_in(self, part: int) -> Counter[Doing]:
        """Return what threads did while they ran the ops of a part of the pipeline: how many looks saw what."""
        return Counter(
            look.doing[thread.thread]
            for look in self.looks
            for thread in look.threads
            if thread.part == part and thread.thread in look.doing
        )

    def asleep_in(self, part: int) -> float | None:
        """Return which share of the time the threads slept that hardly ran anything but the ops of a part.

        The system's clocks tell it, where looks see a thread that sleeps for moments and then has no core compute. None
        if there are no such threads, or the system does not say for how long they had no core.
        """
        threads, cpu, waits = self._always_in(part), self.cpu(), self.core_waits()
        if not threads or not any(waits.values()):
            return None
        awake = sum(cpu[thread] + waits[thread] for thread in threads) / len(threads)
        return max(0.0, 1 - awake)

    def sleeps_in(self, part: int) -> float | None:
        """Return how often per second each of these threads went to sleep, in the mean. Without such threads, None."""
        threads = self._always_in(part)
        if not threads:
            return None
        times = [self.times_after[thread].sleeps - self._at_first(thread).sleeps for thread in threads]
        return sum(times) / len(threads) / self.seconds

    def _always_in(self, part: int) -> list[int]:
        seen = Counter(thread.thread for look in self.looks for thread in look.threads if thread.part == part)
        return [it for it, count in seen.items() if count >= _ALWAYS * len(self.looks) and it in self.times_after]

    def alone_in(self, part: int) -> float:
        """Return how often one thread alone went on, of those in the ops of a part, while all others waited for one.

        It is a share of the looks that saw at least two threads there; 0 if none did.
        """
        looks = []
        for look in self.looks:
            seen = [look.doing.get(thread.thread) for thread in look.threads if thread.part == part]
            if len(seen) > 1:
                looks.append(len(seen) - seen.count(Doing.WAITS_FOR_THREAD) == 1)
        return sum(looks) / len(looks) if looks else 0.0

    def threads_in(self, part: int) -> float:
        counts = [sum(thread.part == part for thread in look.threads) for look in self.looks]
        return sum(counts) / len(counts)

    def mean_running(self, stage: int) -> float:
        return sum(look.stages[stage].running for look in self.looks) / len(self.looks)

    def queue_fill(self, stage: int) -> float:
        fills = [look.stages[stage].queued / max(1.0, look.stages[stage].capacity) for look in self.looks]
        return sum(fills) / len(fills)


def look_at(
    pipeline: ObservedPipeline, seconds: float, pause: Callable[[float], object] = sleep, *, shortest: float = SHORTEST
) -> Seen:
    """Watch a pipeline for some time, or to its end. If it ends before `shortest`, all since its start counts.

    `pause` waits for some seconds between two looks, and raises to give up. An unreadable page is a PageError.
    """
    if pipeline.state() != "running":
        return _whole_life(pipeline)
    pid = pipeline.head.pid
    times_before, idle = thread_times(pid), _IdleCores(pid)
    looks = [look_once(pipeline)]
    # The last known times of the threads, and their look: threads that have ended say nothing more.
    lately, times, timed, cores_idle = 0, times_before, looks[0].seen_at, math.inf
    end = looks[0].seen_at + seconds
    while (left := end - perf_counter()) > 0:
        pause(min(left, _INTERVAL))
        if pipeline.state() != "running":
            # Nothing was the limit of what it no longer did. Of a moment at its end, too little would be known.
            if timed - looks[0].seen_at < min(seconds, shortest):
                return _whole_life(pipeline)
            return Seen(looks[: lately + 1], times_before, times, cores_idle=cores_idle)
        looks.append(look_once(pipeline))
        if looks[-1].seen_at - timed >= min(_TIMES_INTERVAL, shortest):
            lately, times, timed = len(looks) - 1, times | thread_times(pid), looks[-1].seen_at
            cores_idle = idle.so_far()
    return Seen(looks, times_before, times | thread_times(pid), cores_idle=idle.so_far())


class _IdleCores:
    """The number of idle cores, this process's own use of them included."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._idle, self._own, self._began = idle_seconds(pid), process_time(), perf_counter()

    def so_far(self) -> float:
        idle = idle_seconds(self._pid)
        if idle is None or self._idle is None:
            return math.inf
        own = process_time() - self._own if self._pid != os.getpid() else 0.0
        return max(0.0, idle - self._idle + own) / max(1e-9, perf_counter() - self._began)


def _whole_life(pipeline: ObservedPipeline) -> Seen:
    last, state = pipeline.observe(), pipeline.state()
    # The calls that ran at the end are not known, nor how long they had run. For a killed process, the calls are known
    # that had not ended when the counters were written last.
    killed = state == "killed"
    seen = replace(
        last,
        seen_at=last.now,
        threads=tuple(thread for thread in last.threads if killed and thread.since <= last.now),
        consumer_waiting_since=min(last.consumer_waiting_since, last.now) if killed else 0.0,
    )
    before_last = pipeline.observe_before() if killed else None
    return replace(since_the_start(pipeline.head, seen), state=state, last=last, before_last=before_last)


_NO_SOURCE, _NO_STAGE = SourceSample(), StageSample()


def since_the_start(head: PageHead, seen: Sample) -> Seen:
    nothing = Sample(
        now=seen.started_at,
        seen_at=seen.started_at,
        started_at=seen.started_at,
        sink_size=seen.sink_size,
        sources=(_NO_SOURCE,) * len(seen.sources),
        stages=(_NO_STAGE,) * len(seen.stages),
    )
    # Threads may have ended, but what their ops computed is counted.
    here = (its for its, about in zip(seen.stages, head.stages, strict=True) if not about.processes)
    computed = ThreadTimes(sum(its.cpu_seconds for its in here), 0.0, 0)
    return Seen([nothing, seen], {}, {head.pid: computed})


def look_once(pipeline: ObservedPipeline) -> Sample:
    """Return a pipeline's counters, and what its threads do at this moment. An unreadable page is a PageError."""
    seen = pipeline.observe()
    busy = [thread.thread for thread in seen.threads if thread.part is not None][:_MOST_THREADS]
    pid = pipeline.head.pid
    does = {thread: doing(pid, thread) for thread in busy}
    return replace(seen, seen_at=perf_counter(), doing=does, is_stopped=is_stopped(pid))

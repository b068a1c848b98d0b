"""The results of a profile, and what they show about the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class ProfileFailure:
    """A cause of failures: a type of exception and the line that raised it.

    Attributes:
        error: The type and the message of the first exception.
        place: The file and line that raised it, as ``train.py:12``. Empty if they are not known.
        num_items: How many different items failed for this cause at least once.
        num_calls: How many calls failed for it. A profile calls an op with the same items again and again.
        traceback: The formatted traceback of the first exception.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(5)).pipe(lambda x: 1 // x, name="invert").add_sink()
        >>> (result,) = profile_pipeline(builder.get_config())
        >>> (failure,) = result.failures
        >>> failure.error, failure.num_items, result.num_items
        ('ZeroDivisionError: integer division or modulo by zero', 1, 5)
    """

    error: str
    place: str
    num_items: int
    num_calls: int
    traceback: str


GilUse: TypeAlias = Literal["holds", "partly", "releases", "waits", "takes turns", "unknown"]

# A measurement that is shorter than this, or has fewer items than slots, shows how threads start and not what ops do.
_LEAST_SECONDS = 0.05

# Ops wait if CPU time is a smaller share of their time than this.
_WAITS = 0.2
# Waiting ops take turns unless running several at once multiplies the results by at least this.
_GAINS = 1.5
# The measurement that is examined is the one whose ops would use this many cores if they never held each other up.
_ENOUGH_CORES = 3
# Bounds for the position between one runnable thread (0) and all of them (1).
_HOLDS, _RELEASES = 0.3, 0.6
# If ops hold the GIL, this many more threads than at a concurrency of 1 may be runnable, on average over measurements.
_ABOVE, _BUSY_ABOVE = 1.0, 0.5
# If ops at a concurrency of 1 wait for a core for more than this share of the time, the machine has other work.
_BUSY = 0.25
# Ops do nothing but compute if CPU time is a larger share of their time than this.
_COMPUTES = 0.8
# Ops that hold the GIL never use this many cores.
_SEVERAL_CORES = 1.4


def gil_use(stats: Sequence[ProfileStats]) -> GilUse:
    telling = sorted(filter(_tells, stats), key=lambda it: it.concurrency)
    alone = next((it for it in telling if it.concurrency == 1), None)
    together = [it for it in telling if it.concurrency > 1]
    if alone is None or not together or alone.busy_seconds <= 0:
        return "unknown"
    share = cpu_share(alone)
    if share < _WAITS:
        return "waits" if max(map(_rate, together)) >= _GAINS * _rate(alone) else "takes turns"
    enough = next((it for it in together if it.concurrency * share >= _ENOUGH_CORES), together[-1])
    if enough.num_runnable is None or alone.num_runnable is None:
        cores = max(it.cpu_seconds / it.seconds if it.seconds > 0 else 0.0 for it in together)
        return "releases" if cores >= _SEVERAL_CORES else "unknown"
    # This is more than one even at a concurrency of 1, because the engine's own threads wait for a core, too.
    least = max(1.0, alone.num_runnable)
    way = (enough.num_runnable - least) / (max(_ENOUGH_CORES, enough.concurrency * share) - 1)
    busy = (alone.num_waiting or 0.0) > _BUSY * (alone.num_runnable or 1.0)
    # These ops would count as waiting if the time without a core were not left out. That time may be other threads'.
    unsure = alone.cpu_seconds < _WAITS * alone.busy_seconds
    if way < _HOLDS:
        # All measurements are averaged: in a single one, no thread may have got a core to take the GIL on.
        above = sum((it.num_runnable or 0.0) - least for it in together) / len(together)
        return "holds" if above < (_BUSY_ABOVE if busy else _ABOVE) and not unsure else "unknown"
    # On a busy machine, a thread that holds the GIL may wait for a core while all others wait for the GIL. And each
    # thread that wakes up waits for a core.
    if unsure or (busy and (way < _RELEASES or share < _COMPUTES)):
        return "unknown"
    return "releases" if way >= _RELEASES else "partly"


def _tells(stats: ProfileStats) -> bool:
    # Results do not count: a generator makes many of one item, and has no use for more than one thread.
    return stats.seconds >= _LEAST_SECONDS and max(stats.num_given, stats.num_inputs) >= stats.concurrency


def cpu_share(alone: ProfileStats) -> float:
    """Return the share of CPU time in the time of ops at a concurrency of 1, without waits for a core: 0 to 1."""
    on_core = 1 - min(0.9, alone.num_waiting or 0.0)
    return min(1.0, alone.cpu_seconds / (alone.busy_seconds * on_core)) if alone.busy_seconds > 0 else 0.0


def _rate(stats: ProfileStats) -> float:
    # Ops may drop all their items, and generators may never end.
    return max(stats.num_inputs, stats.num_outputs) / stats.seconds


@dataclass(frozen=True, slots=True)
class ProfileStats:
    """One measurement: a stage alone, at one concurrency.

    Attributes:
        concurrency: How many items the stage worked on at once, with as many threads.
        qps: Results passed on per second.
        occupancy_rate: The share of the time in which results waited to be taken from the stage, 0 to 1. They are taken
            at once, so it is near 0 unless the thread that takes them could not keep up.
        num_inputs: How many items the op finished or failed on.
        num_outputs: How many results were passed on.
        num_failures: How many items the op failed on.
        seconds: Seconds from the stage's first item to its last result.
        busy_seconds: Seconds spent in ops, summed over concurrent ops. Waiting for a core or for the GIL counts.
        cpu_seconds: CPU seconds of the threads in ops; for async ops, of the event loop thread.
        num_runnable: How many threads were on a core or waited for one, on average. Threads that wait for the GIL, a
            lock, a disk or a network do not count. None if the system does not provide this.
        num_waiting: How many of these waited for a core, on average. If it is more than 0 at a concurrency of 1, the
            machine was busy with something else. None if the system does not provide this.
        num_given: How many items the stage was given. A generator that is never done may have more results than that
            from a single item.
        sleeps: How often each thread went to sleep per second, on average, to wait for something. One that waits for
            the GIL wakes up every 5 milliseconds to ask for it; one that waits for a lock sleeps until it has it. None
            if the system does not provide this.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(9)).pipe(str).add_sink()
        >>> (result,) = profile_pipeline(builder.get_config())
        >>> [stats.concurrency for stats in result.stats]
        [32, 16, 8, 4, 1]
        >>> all(stats.num_failures == 0 and stats.qps > 0 for stats in result.stats)
        True
    """

    concurrency: int
    qps: float
    occupancy_rate: float
    num_inputs: int = 0
    num_outputs: int = 0
    num_failures: int = 0
    seconds: float = 0.0
    busy_seconds: float = 0.0
    cpu_seconds: float = 0.0
    num_runnable: float | None = None
    num_waiting: float | None = None
    num_given: int = 0
    sleeps: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """The measurements of one stage alone, at different concurrencies.

    ``str()`` returns one line.

    Attributes:
        name: The stage's name. In a fork, the name of the path precedes it, as in ``path_variants_path0/decode``.
        stats: A `ProfileStats` for each concurrency, in the order of the measurements, highest concurrency first.
        flow: How many items enter the stage for each item that leaves the source (each of the sources, if several are
            merged).
        is_async: Whether its ops run on the event loop, so that they need no threads.
        num_items: How many different items it got. Those that it can take again, it gets several times.
        failures: Why its op failed, the most frequent cause first. Empty if it did not.
        hand_over_seconds: Seconds in which this process would pickle an item for another one and unpickle its result.
            It does that under the GIL, one item after the other, so more processes than the op's time divided by this
            do not help. None unless the ops hold the GIL, and if an item or result cannot be pickled.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(9)).pipe(str).aggregate(3).add_sink()
        >>> [(result.name, round(result.flow, 2)) for result in profile_pipeline(builder.get_config())]
        [('str', 1.0), ('aggregate(op=collate(3), drop_last=False)', 1.0)]
    """

    name: str
    stats: Sequence[ProfileStats]
    flow: float = 1.0
    is_async: bool = False
    num_items: int = 0
    failures: tuple[ProfileFailure, ...] = ()
    hand_over_seconds: float | None = None

    @property
    def gil(self) -> GilUse:
        """How its ops share the GIL.

        * ``"holds"``: they compute one after the other, so threads do not help but processes may. If the ops hold a
          lock while they compute, the result is the same.
        * ``"partly"``: some of the computing overlaps.
        * ``"releases"``: they compute at the same time, as far as there are cores.
        * ``"waits"``: they hardly compute, and concurrent ops wait at the same time.
        * ``"takes turns"``: they hardly compute, yet concurrent ops get no more done. Causes are a lock, a single
          connection, a device at its limit, or native code that waits without releasing the GIL.
        * ``"unknown"``: this cannot be determined, because the machine was too busy with other work, the measurements
          were too short, or the stage was measured at one concurrency only.

        A measurement counts if it took at least 0.05 seconds and each thread got an item, so that `num_given` is at
        least the concurrency. Others are the result of few items that the stage can take only once.

        Ops whose `cpu_share` is less than a fifth wait. They take turns if no concurrency gives 1.5 times the
        results.

        For other ops, it depends on how many threads are on a core, or wait for one, where the ops would use three
        cores if they never held each other up: about one at a time if they hold the GIL, about all if they release it.
        If even one op at a time waits for a core for a quarter of the time, the machine is busy, and only clear cases
        get a result. If the system does not say how long threads waited for cores, ops that use 1.4 cores release the
        GIL, and others are unknown.
        """
        return gil_use(self.stats)

    @property
    def cpu_share(self) -> float:
        """The share of their time, 0 to 1, in which ops compute at a concurrency of 1. The rest is spent waiting.

        Waiting for a core of a busy machine is left out. It is 0 if there is no measurement at a concurrency of 1.
        """
        return next((cpu_share(it) for it in self.stats if it.concurrency == 1), 0.0)

    def __str__(self) -> str:
        rates = ", ".join(
            f"{it.qps:,.1f} at {it.concurrency}" for it in sorted(self.stats, key=attrgetter("concurrency"))
        )
        return f"{self.name}: {rates} (results per second at concurrency); GIL: {self.gil}"

"""The results of a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .gil import GilUse, cpu_share, gil_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .profile_failure import ProfileFailure

__all__ = ["ProfileResult", "ProfileStats"]


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
        cpu_seconds: CPU seconds of the threads in ops; for async ops, those of the event loop thread.
        num_runnable: How many threads were on a core or waited for one, on average. Threads that wait for the GIL, a
            lock, a disk or a network do not count. None if the system does not provide this.
        num_waiting: How many of these waited for a core, on average. If it is more than 0 at a concurrency of 1, the
            machine was busy with something else. None if the system does not provide this.
        num_given: How many items the stage was given. A generator that is never done may have more results than that
            from a single item.

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
          lock of their own while they compute, the result is the same.
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

        For other ops, the rule examines the measurement in which the ops would use three cores if they never held each
        other up; for ops that do nothing but compute, this is a concurrency of 4. If they hold the GIL, about one
        thread at a time can use a core. If they release it, about all threads use a core, or wait for one if there are
        not enough. Let 0 be the first case and 1 the second. Below 0.3 the ops hold the GIL, provided that all
        measurements at concurrencies above 1 have on average less than one runnable thread more than that at 1. From
        0.6 on they release it.

        A machine is busy with other work if even one op at a time waits for a core for a quarter of the time. Then only
        two clear cases get a result: less than half a runnable thread more, and from 0.6 on for ops that do nothing but
        compute. All others are unknown. Ops are also unknown if they would count as waiting with the time in which no
        core was free, which is left out. If the system does not say how long threads waited for cores, ops that use 1.4
        cores release the GIL, and others are unknown.
        """
        return gil_use(self.stats)

    @property
    def cpu_share(self) -> float:
        """The share of their time, 0 to 1, in which ops compute at a concurrency of 1. The rest is spent waiting.

        Waiting for a core of a busy machine is left out. It is 0 if there is no measurement at a concurrency of 1.
        """
        return next((cpu_share(it) for it in self.stats if it.concurrency == 1), 0.0)

    def __str__(self) -> str:
        rates = ", ".join(f"{it.qps:,.1f} at {it.concurrency}" for it in sorted(self.stats, key=_concurrency))
        return f"{self.name}: {rates} (results per second at concurrency); GIL: {self.gil}"


def _concurrency(stats: ProfileStats) -> int:
    return stats.concurrency

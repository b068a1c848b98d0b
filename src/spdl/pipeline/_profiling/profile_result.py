"""What a profile says of a stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .gil import GilUse, cpu_share, gil_use

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProfileResult", "ProfileStats"]


@dataclass(frozen=True, slots=True)
class ProfileStats:
    """One measurement: a stage alone, at one concurrency.

    Attributes:
        concurrency: How many items it worked on at once, with as many threads.
        qps: Results passed on per second.
        occupancy_rate: Share of the time in which results waited to be taken from it, 0 to 1. They are taken at once,
            so it is near 0 unless the taking thread could not keep up.
        num_inputs: Items that the op ended on, whether it failed or not.
        num_outputs: Results passed on.
        num_failures: Items that the op failed on.
        seconds: Seconds from the first item given to the stage to its last result.
        busy_seconds: Seconds spent in ops, summed over concurrent ones. Waiting for a core or for the GIL counts.
        cpu_seconds: CPU seconds of the threads in ops; for async ops, that of the event-loop thread.
        num_runnable: How many threads were on a core or waited for one, on average. Those that wait for the GIL, a
            lock, a disk or a network do not count. None where the system does not tell.
        num_waiting: How many of these waited for a core, on average: with more than 0 at a concurrency of 1, something
            else had the machine busy. None where the system does not tell.

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


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """How one stage does alone, at different concurrencies.

    ``str()`` gives it in a line.

    Attributes:
        name: The stage's name; in a fork, that of the path is put in front, as in ``path_variants_path0/decode``.
        stats: A `ProfileStats` per concurrency, in the order in which they were made: falling.
        flow: How many items enter the stage for each that leaves the source (each of the sources, if several are
            merged).
        is_async: Whether its ops run on the event loop, so that they need no threads.

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

    @property
    def gil(self) -> GilUse:
        """How its ops share the GIL.

        * ``"holds"``: they compute one after the other, so threads do not help but processes may. A lock of the ops'
          own that they hold while they compute looks the same.
        * ``"partly"``: some of the computing overlaps.
        * ``"releases"``: they compute at the same time, as far as there are cores.
        * ``"waits"``: they hardly compute, and more of them at once wait at the same time.
        * ``"takes turns"``: they hardly compute, yet more at once get no more done: a lock, a single connection, a
          device at its limit, or native code that waits without releasing the GIL.
        * ``"unknown"``: it cannot be told, since the machine was too busy with other work, or the stage was measured at
          one concurrency only.

        The rule: ops whose `cpu_share` is less than a fifth wait; they take turns if no concurrency gives 1.5 times the
        results. Of the others, so many are looked at together that three cores would be in use if they never held each
        other up: four of those that do nothing but compute. If they hold the GIL, about one thread at a time can use a
        core. If they release it, about all of them do, or wait for a core where there are not enough. Below 0.3 of the
        way from the one to the other they hold it, if also the measurements at all other concurrencies have less than
        one runnable thread more on average. From 0.6 on they release it. On a machine that is busy with other work
        (even one op at a time waits for a core for a quarter of the time) only the clear cases are told: less than half
        a thread more, and from 0.6 on for ops that do nothing but compute; the others are unknown, as are those that
        would wait but for the time that was left out because no core was free. Where the system
        does not tell how long threads waited for cores, ops that use 1.4 cores release it, and others are unknown.
        """
        return gil_use(self.stats)

    @property
    def cpu_share(self) -> float:
        """The share of their time, 0 to 1, that ops compute where they run one by one. The rest is spent waiting.

        Waiting for a core of a busy machine is left out. 0 if it was not measured at a concurrency of 1.
        """
        return next((cpu_share(it) for it in self.stats if it.concurrency == 1), 0.0)

    def __str__(self) -> str:
        rates = ", ".join(f"{it.qps:,.1f} at {it.concurrency}" for it in sorted(self.stats, key=_concurrency))
        return f"{self.name}: {rates} (results per second at concurrency); GIL: {self.gil}"


def _concurrency(stats: ProfileStats) -> int:
    return stats.concurrency

"""Tells from measurements whether ops hold the GIL; the rule stands in `ProfileResult.gil`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .profile_result import ProfileStats

__all__ = ["GilUse", "cpu_share", "gil_use"]

GilUse: TypeAlias = Literal["holds", "partly", "releases", "waits", "takes turns", "unknown"]

# Ops that use less of their time than this as CPU time wait.
_WAITS = 0.2
# More at once must get at least so many times as much done, or they take turns.
_GAINS = 1.5
# So many cores would be in use by the ops that are looked at together, if they never held each other up.
_ENOUGH_CORES = 3
# How far from one runnable thread to all of them.
_HOLDS, _RELEASES = 0.3, 0.6
# How many more threads than where ops run alone may be runnable on average, over all measurements, if they hold it.
_ABOVE, _BUSY_ABOVE = 1.0, 0.5
# If even the ops that run one by one must wait for a core so much of the time, the machine is busy with other work.
_BUSY = 0.25
# Ops that use more of their time than this as CPU time do nothing else.
_COMPUTES = 0.8
# No ops that hold the GIL use so many cores.
_SEVERAL_CORES = 1.4


def gil_use(stats: Sequence[ProfileStats]) -> GilUse:
    """Say how a stage's ops share the GIL."""
    alone = next((it for it in stats if it.concurrency == 1), None)
    together = sorted((it for it in stats if it.concurrency > 1), key=lambda it: it.concurrency)
    if alone is None or not together or alone.busy_seconds <= 0:
        return "unknown"
    share = cpu_share(alone)
    if share < _WAITS:
        return "waits" if max(map(_rate, together)) >= _GAINS * _rate(alone) else "takes turns"
    enough = next((it for it in together if it.concurrency * share >= _ENOUGH_CORES), together[-1])
    if enough.num_runnable is None or alone.num_runnable is None:
        cores = max(it.cpu_seconds / it.seconds if it.seconds > 0 else 0.0 for it in together)
        return "releases" if cores >= _SEVERAL_CORES else "unknown"
    # More than one even where ops run one by one: the engine's own threads, which wait for a core, too.
    least = max(1.0, alone.num_runnable)
    way = (enough.num_runnable - least) / (max(_ENOUGH_CORES, enough.concurrency * share) - 1)
    busy = _is_busy(alone)
    # They would wait but for the time without a core that was left out, which may have been other threads'.
    unsure = alone.cpu_seconds < _WAITS * alone.busy_seconds
    if way < _HOLDS:
        # A single measurement may have got no core at all, and then nobody could take the GIL.
        above = sum((it.num_runnable or 0.0) - least for it in together) / len(together)
        return "holds" if above < (_BUSY_ABOVE if busy else _ABOVE) and not unsure else "unknown"
    # On a busy machine a thread that holds the GIL may wait for a core and all others for it; and all that wakes waits.
    if unsure or (busy and (way < _RELEASES or share < _COMPUTES)):
        return "unknown"
    return "releases" if way >= _RELEASES else "partly"


def _is_busy(alone: ProfileStats) -> bool:
    return (alone.num_waiting or 0.0) > _BUSY * (alone.num_runnable or 1.0)


def cpu_share(alone: ProfileStats) -> float:
    """The share of their time, waiting for a core left out, that ops which run one by one use as CPU time: 0 to 1."""
    on_core = 1 - min(0.9, alone.num_waiting or 0.0)
    return min(1.0, alone.cpu_seconds / (alone.busy_seconds * on_core)) if alone.busy_seconds > 0 else 0.0


def _rate(stats: ProfileStats) -> float:
    # Ops may drop all their items, and generators may not come to an end of any.
    return max(stats.num_inputs, stats.num_outputs) / stats.seconds if stats.seconds > 0 else 0.0

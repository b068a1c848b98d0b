"""Tells from measurements whether ops hold the GIL. `ProfileResult.gil` describes the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .profile_result import ProfileStats

__all__ = ["GilUse", "cpu_share", "gil_use"]

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
    """Return how a stage's ops share the GIL."""
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
    busy = _is_busy(alone)
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


def _is_busy(alone: ProfileStats) -> bool:
    return (alone.num_waiting or 0.0) > _BUSY * (alone.num_runnable or 1.0)


def cpu_share(alone: ProfileStats) -> float:
    """Return the share of CPU time in the time of ops at a concurrency of 1, without waits for a core: 0 to 1."""
    on_core = 1 - min(0.9, alone.num_waiting or 0.0)
    return min(1.0, alone.cpu_seconds / (alone.busy_seconds * on_core)) if alone.busy_seconds > 0 else 0.0


def _rate(stats: ProfileStats) -> float:
    return _results(stats) / stats.seconds


def _results(stats: ProfileStats) -> int:
    # Ops may drop all their items, and generators may never end.
    return max(stats.num_inputs, stats.num_outputs)

"""What threads gain that take turns for a part of their work, such as code that holds the GIL."""

from __future__ import annotations

__all__ = ["gain_of_threads"]

# Halvings that find the part to a thousandth.
_STEPS = 10


def gain_of_threads(now: int, then: int, waits: float) -> float:
    """Return how many times more ops several threads end if there are more of them, cores enough, and one GIL.

    It is taken that each op needs the GIL for some part of its work, at moments that depend on nothing: the mean value
    analysis of a closed network with one queue (Reiser and Lavenberg, 1980).

    Args:
        now: How many threads there are now.
        then: How many there would be.
        waits: The share of the time that each thread waits for its turn now, 0 to 1.
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        part = (low + high) / 2
        low, high = (part, high) if _rate_and_waits(now, part)[1] < waits else (low, part)
    part = (low + high) / 2
    return _rate_and_waits(then, part)[0] / _rate_and_waits(now, part)[0]


def _rate_and_waits(threads: int, part: float) -> tuple[float, float]:
    """Return how many ops end in the time of one, and the share of the time that each thread waits."""
    rate = waiting = queue = 0.0
    for count in range(1, threads + 1):
        in_turn = part * (1 + queue)
        takes = in_turn + 1 - part
        rate, waiting, queue = count / takes, (in_turn - part) / takes, count * in_turn / takes
    return rate, waiting

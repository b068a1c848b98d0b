"""What each simulated thread uses of the cores."""

from __future__ import annotations

from tests.simulation.world import get_ident, sleep

__all__ = ["compute", "used"]

_used: dict[int, float] = {}


def used() -> float:
    """Return the seconds that this thread has used of a core. It uses none while it naps."""
    return _used.get(get_ident(), 0.0)


def compute(seconds: float, *, cores: float = 1) -> None:
    """Take so long, and use so many cores meanwhile."""
    sleep(seconds)
    _used[get_ident()] = used() + seconds * cores

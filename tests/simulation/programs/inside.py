"""What programs share with the engine: its clocks and threads, which may be simulated, its pool and its thresholds."""

import contextlib
from collections.abc import Iterator

from spdl.pipeline import _world as world
from spdl.pipeline._engine import budget, groups
from spdl.pipeline._shared_executors.pool import PriorityPool

__all__ = ["PriorityPool", "budget", "packing", "world"]


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Have the origins of batches packed that are otherwise so large that no program here has one."""
    kept = groups.LISTED, groups._PACKED_AT_ONCE
    groups.LISTED = groups._PACKED_AT_ONCE = 1
    try:
        yield
    finally:
        groups.LISTED, groups._PACKED_AT_ONCE = kept

"""What programs share with the engine: its clocks and threads, which may be simulated, its pool and its thresholds."""

import contextlib
from collections.abc import Iterator

from spdl.pipeline import _world as world
from spdl.pipeline._engine import budget
from spdl.pipeline._stages.pools import PriorityPool
from spdl.pipeline._state import origins

__all__ = ["PriorityPool", "budget", "packing", "world"]


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Have the origins of batches packed that are otherwise so large that no program here has one."""
    kept = origins.LISTED, origins._PACKED_AT_ONCE
    origins.LISTED = origins._PACKED_AT_ONCE = 1
    try:
        yield
    finally:
        origins.LISTED, origins._PACKED_AT_ONCE = kept

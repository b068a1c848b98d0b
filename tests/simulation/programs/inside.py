"""What programs share with the engine: its clocks and threads, which may be simulated, its pool and its budget."""

from spdl.pipeline import _world as world
from spdl.pipeline._engine import budget
from spdl.pipeline._stages.pools import PriorityPool

__all__ = ["PriorityPool", "budget", "world"]

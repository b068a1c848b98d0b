"""What programs take from the world besides clocks, locks and threads, in the simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation import scheduler, world
from tests.simulation.executors import ProcessPool, ThreadPool

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["SimulatedHost"]


class SimulatedHost:
    """Waits in simulated time, and makes executors of fibers.

    Attributes:
        findings: Mistakes that were seen here.
    """

    simulated = True

    def __init__(self) -> None:
        self._pools: list[ThreadPool | ProcessPool] = []
        self.findings: list[str] = []

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._check_lock("sleeps")
        world.sleep(seconds)

    def step(self) -> None:
        """Let another thread go on here. The program's own code calls it, which must never run under a lock."""
        self._check_lock("runs")
        scheduler.step()

    def _check_lock(self, verb: str) -> None:
        fiber = scheduler.active.current
        if fiber is not None and fiber.locks and not self.findings:
            self.findings.append(f"code of the user's {verb} in {fiber.name} while it holds the engine's lock")

    def interrupt_after(self, decisions: int) -> None:
        """Raise KeyboardInterrupt in the first thread, after so many more decisions of the scheduler."""
        scheduler.active.interrupt_at = scheduler.active.decisions + decisions

    def forget_interrupt(self) -> None:
        """Raise no KeyboardInterrupt any more."""
        scheduler.active.interrupt_at = None

    def thread_pool(self, max_workers: int) -> Executor:
        """Return a pool of threads, which ends with the run."""
        self._pools.append(ThreadPool(max_workers))
        return self._pools[-1]

    def process_pool(self, max_workers: int) -> Executor:
        """Return a pool of processes, which ends with the run."""
        self._pools.append(ProcessPool(max_workers))
        return self._pools[-1]

    def close(self) -> None:
        """End the pools."""
        for pool in self._pools:
            pool.shutdown()

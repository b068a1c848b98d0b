"""What programs take from the world besides clocks, locks and threads, in the simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation import scheduler, world
from tests.simulation.executors import ProcessPool, ThreadPool
from tests.simulation.instrument import AFTER_FORK, AT_EXIT
from tests.simulation.programs.host import Host
from tests.simulation.programs.inside import PriorityPool
from tests.simulation.programs.item import watch_drops

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from tests.simulation.focus import Focus

__all__ = ["SimulatedHost"]

# How many calls a stage hands over at once for each process: what does not wait there may share a call. With hooks each
# item is a call of its own.
MOST_HAND_OVERS = 2
# The engine's functions in which a finalizer may be called; an empty one stands for all of them.
_WITHIN = (
    "", "", "_wait", "_wait", "carry", "_idle", "start_event_loop", "adopt", "await_results", "serve", "attempt",
    "advance", "turn", "_look", "step", "settle", "concluded", "_close", "run_awaited",
)  # fmt: skip


class SimulatedHost(Host):
    """Waits in simulated time, and makes executors of fibers.

    Args:
        random: Chooses the moments of interrupts.
        focus: What is to happen at a place that was drawn.
        hooked: Whether the program has hooks.

    Attributes:
        findings: Mistakes that were seen here.
    """

    simulated = True

    def __init__(self, random: Random, focus: Focus | None = None, *, hooked: bool = False) -> None:
        self._random = random
        self._shares_calls = not hooked
        self._focus = focus
        self.exact_time = focus is None or focus.event != "ring"
        self._pools: list[ThreadPool | ProcessPool] = []
        self.findings: list[str] = []
        watch_drops(lambda: self._check_lock("is freed"))

    def sleep(self, seconds: float) -> None:
        self._check_lock("sleeps")
        scheduler.active.progressed()
        world.sleep(seconds)

    def step(self) -> None:
        self._check_lock("runs")
        scheduler.active.progressed()
        scheduler.step()

    def _check_lock(self, verb: str) -> None:
        fiber = scheduler.active.current
        if fiber is not None and fiber.locks and not self.findings:
            self.findings.append(f"code of the user's {verb} in {fiber.name} while it holds the engine's lock")

    def interrupt_at(self, count: int) -> bool:
        if self._focus is not None:
            # That is where it comes.
            return True
        # At any line that it runs meanwhile, and not only between two items.
        decisions = scheduler.active.decisions + 1 + int(self._random.expovariate(1 / (20 * (count + 1))))
        within = self._random.choice(("_iterate", "_iterate", "room_in_sink", "_wait"))
        scheduler.active.interrupt(decisions, within=within, narrow=within != "_iterate")
        return True

    def call_within(self, steps: int, finalizer: Callable[[], None]) -> None:
        scheduler.active.finalize(steps, finalizer, within=self._random.choice(_WITHIN))

    def begin_focus(self, stop: Callable[[], None], stop_elsewhere: Callable[[], None]) -> None:
        if self._focus is not None:
            self._focus.begin(stop, stop_elsewhere)

    def end_focus(self) -> None:
        if self._focus is not None:
            self._focus.end()

    def note_stop(self) -> None:
        scheduler.active.note_stop()

    def is_late(self) -> bool:
        fiber = scheduler.active.current
        return fiber is not None and fiber.name.startswith("spdl_") and fiber.locked_since_stop

    def thread_pool(self, workers: int, *, fails_at: int = -1) -> Executor:
        return self._keep(ThreadPool(workers, fails_at=fails_at))

    def ranked_pool(self, workers: int) -> PriorityPool:
        return PriorityPool(ThreadPool, {"max_workers": workers}, workers)

    def process_pool(self, workers: int) -> Executor:
        return self._keep(ProcessPool(workers))

    def _keep(self, pool: ThreadPool | ProcessPool) -> Executor:
        self._pools.append(pool)
        return pool

    def watch(self, work: Callable[[], None]) -> str:
        # The scheduler sees by itself what hangs.
        work()
        return ""

    def exit(self) -> bool:
        for function in reversed(AT_EXIT):
            function()
        if left := self.threads_left():
            self.findings.append(f"threads run on at the interpreter's exit: {left}")
        return True

    def fork(self) -> bool:
        scheduler.active.fork()
        for function in AFTER_FORK:
            function()
        return True

    def threads_left(self) -> list[str]:
        return [fiber.name for fiber in scheduler.active.fibers if fiber.name.startswith("spdl_")]

    def make_lock_slow(self) -> None:
        scheduler.active.slow_lock = True

    def now(self) -> float:
        return scheduler.active.now

    def call_at_rest(self, look: Callable[[float], None]) -> bool:
        # Where alarms ring early, time passes although somebody could do something.
        exact = self.exact_time and not scheduler.active.policy.jumps
        scheduler.active.at_rest = look if exact else None
        return exact

    def close(self) -> None:
        """End the pools."""
        for pool in self._pools:
            pool.shutdown()
            if not (self._shares_calls and isinstance(pool, ProcessPool)):
                continue
            if pool.most_calls > MOST_HAND_OVERS * pool.workers:
                self.findings.append(f"{pool.most_calls} calls were handed over to {pool.workers} processes at once")

"""Runs fibers one at a time, and decides at each step who goes on. Time passes only when all of them wait.

A fiber stands for a thread. It is a greenlet: to hand on is a switch of stacks, so a run takes milliseconds, and
nothing but this module's decisions, which come from a seed, determines what happens.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from math import inf
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tests.simulation.policies import Policy

__all__ = ["Fiber", "Scheduler", "active", "is_within", "step"]

# If the program's own code is not called for so many steps, the engine spins.
MOST_STEPS = 500_000

# No program takes so long, in simulated seconds: its consumer asks again and again for an item that never comes.
_MOST_SECONDS = 100.0
_BEGIN = 1000.0

# How long a clock takes to be read.
_TICK = 1e-7
# Where something is to come within a function, each step of it has this chance, for so many decisions.
_CHOSEN = 0.15
_LONGEST_WATCH = 3000
# Alarms that are no further apart than this are due at the same time, in seconds.
_SAME = 2e-5
# Before, each event loop had its current task.
_TASKS_ARE_OF_THREADS = sys.version_info >= (3, 14)


class Fiber:
    """One simulated thread."""

    def __init__(self, scheduler: Scheduler, ident: int, name: str, body: Callable[[], None]) -> None:
        self.ident = ident
        self.name = name
        self.done = False
        # What it waits for, in words; empty if it could run.
        self.waits_for = ""
        self.timed_out = False
        # Which of its waits this is: an alarm that was set for another one rings in vain.
        self.wait_number = 0
        # Raised where it goes on next, as a signal handler raises it.
        self.interrupt: BaseException | None = None
        # The thread object, and how many of the engine's locks it holds.
        self.thread: Any = None
        self.locks = 0
        # Whether what it does stands for what another process does.
        self.elsewhere = False
        # Whether it has had one of these locks since the program was told that it was stopped.
        self.locked_since_stop = False
        self.greenlet = greenlet(lambda: self._run(scheduler, body), parent=scheduler.hub)

    def _run(self, scheduler: Scheduler, body: Callable[[], None]) -> None:
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - the run reports it.
            scheduler.died(self, error)
        finally:
            scheduler.ended(self)


class Scheduler:
    """The world of one run.

    Args:
        policy: Decides who goes on.
        record: Whether to note who goes on where.

    Attributes:
        now: The time in seconds.
        steps: How many steps were taken until the last decision.
        hung: True if the run ended because everybody waited for ever, or because it made no progress.
        errors: What ended a fiber, each with the fiber's name.
        schedule: A line for each switch, if that is recorded.
    """

    def __init__(self, policy: Policy, *, record: bool = False) -> None:
        self.policy = policy
        self.schedule: list[str] = []
        self._record = record
        self.hub = getcurrent()
        self.now = _BEGIN
        self.steps = 0
        self.decisions = 0
        self.digest = 0
        self.hung = False
        self.errors: list[tuple[str, BaseException]] = []
        self.fibers: list[Fiber] = []
        self.runnable: list[Fiber] = []
        self.current: Fiber | None = None
        self._alarms: list[tuple[float, int, int, Fiber]] = []
        self._started = 0
        self._quantum = self.left = 1
        self._progressed_at = 0
        # The decision at which the first fiber is interrupted, and in which function of its alone.
        self._interrupt_at: int | None = None
        self._within = ""
        # Whether it waits until that function runs.
        self._narrow = False
        # What is called in whichever fiber runs at a decision, as finalizers are that the cyclic collector calls.
        self._finalizer_at = 0
        self._finalizer: Callable[[], None] | None = None
        self._finalizer_within = ""
        # Whether the engine's lock has to be waited for from time to time.
        self.slow_lock = False
        self.main: Fiber | None = None
        # Called with the seconds for which everybody will wait, before they pass.
        self.at_rest: Callable[[float], None] | None = None
        # Called with the number of each place that a fiber comes to.
        self.watch: Callable[[int], None] | None = None
        # A fiber that does not go on while others can, for so many decisions.
        self._held: Fiber | None = None
        self._held_for = 0
        self.stop_returned = False

    # ---- a run ----

    def run(self, body: Callable[[], None]) -> None:
        """Run ``body`` in the first fiber, and all fibers that it starts, until each has ended or waits for ever."""
        global active  # noqa: PLW0603 - the simulated names of the world look here.
        active = self
        try:
            self.main = self.spawn("main", body)
            while not self.hung and (following := self._pick()) is not None:
                self._decided(following)
                self.current = following
                following.greenlet.switch()
            self.hung = self.hung or not self.main.done
        finally:
            # A greenlet that is collected is ended by an exception, which code that waits for ever may not bear.
            _left.extend(self.fibers)
            active = IDLE
            self.current = None
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(None, None)

    def spawn(self, name: str, body: Callable[[], None]) -> Fiber:
        """Start a fiber."""
        self._started += 1
        fiber = Fiber(self, 1000 + self._started, name, body)
        self.fibers.append(fiber)
        self.policy.spawned(fiber)
        self._make_runnable(fiber)
        return fiber

    def died(self, fiber: Fiber, error: BaseException) -> None:
        """Note what ended a fiber."""
        self.errors.append((fiber.name, error))

    def ended(self, fiber: Fiber) -> None:
        """Note that a fiber has ended. It then returns to the hub."""
        fiber.done = True
        self.fibers.remove(fiber)
        self.runnable.remove(fiber)
        for other in [it for it in self.fibers if it.waits_for == f"the end of {fiber.ident}"]:
            self.wake(other)

    # ---- decisions ----

    def decide(self) -> None:
        """Called at the end of a quantum of steps."""
        fiber = self.current
        assert fiber is not None
        self.steps += self._quantum
        self.hung = self.hung or self.steps > self._progressed_at + MOST_STEPS
        if self.hung:
            self.hub.switch()
        self._send_interrupt()
        self._finalize()
        self.policy.jump(self)
        following = self._choose(fiber)
        self._decided(following)
        if following is not fiber:
            self._switch(fiber, following)
        self._raise(fiber)

    def _choose(self, current: Fiber | None) -> Fiber:
        runnable = self.runnable
        if self._held_for and self._held in runnable and len(runnable) > 1:
            self._held_for -= 1
            runnable = [fiber for fiber in runnable if fiber is not self._held]
        return self.policy.choose(runnable, current)

    def hold(self, decisions: int) -> None:
        """Let all others that can go on do so before the current fiber, for so many decisions at most."""
        self._held, self._held_for = self.current, decisions
        # It ends its quantum here.
        self._quantum -= self.left
        self.left = 0
        self.decide()

    def note_stop(self) -> None:
        """Note that somebody was told that the program is stopped."""
        self.stop_returned = True
        for fiber in self.fibers:
            fiber.locked_since_stop = fiber.locked_since_stop or fiber.locks > 0

    def _decided(self, fiber: Fiber) -> None:
        self.decisions += 1
        self.digest = (self.digest * 1_000_003 + fiber.ident + 7 * self._quantum) & 0xFFFFFFFFFFFF
        self._quantum = self.left = 1 if self._watches() else self.policy.quantum(self.steps)

    def progressed(self) -> None:
        """Note that something was done for the program, and not only for the engine."""
        self._progressed_at = self.steps

    def interrupt(self, decision: int, *, within: str = "", narrow: bool = False) -> None:
        """Raise KeyboardInterrupt in the first fiber at a decision, if it is within a function of this name then.

        Args:
            decision: The number of the decision.
            within: The function.
            narrow: Whether to wait until it is there.
        """
        self._interrupt_at = decision
        self._within = within
        self._narrow = narrow

    def finalize(self, decision: int, finalizer: Callable[[], None], *, within: str = "") -> None:
        """Have something called at a decision, in the fiber that runs then, or that runs a function of this name."""
        self._finalizer_at = self.decisions + decision
        self._finalizer = finalizer
        self._finalizer_within = within

    def _finalize(self) -> None:
        if self._finalizer is None or self.decisions < self._finalizer_at:
            return
        if self._finalizer_within:
            if self.decisions > self._finalizer_at + _LONGEST_WATCH:
                self._finalizer = None
            if not is_within(self._finalizer_within, sys._getframe()) or self.policy.random.random() > _CHOSEN:
                return
        finalizer, self._finalizer = self._finalizer, None
        if finalizer is not None:
            finalizer()

    def _watches(self) -> bool:
        """Return whether each step is looked at, since something is to come within a function."""
        finalizes = self._finalizer is not None and self._finalizer_within and self.decisions >= self._finalizer_at
        interrupts = self._interrupt_at is not None and self._narrow and self.decisions >= self._interrupt_at
        return bool(finalizes or interrupts)

    def _send_interrupt(self) -> None:
        main = self.main
        if self._interrupt_at is None or self.decisions < self._interrupt_at or main is None or main.done:
            return
        frame = sys._getframe() if main is self.current else main.greenlet.gr_frame
        there = not self._within or is_within(self._within, frame)
        missed = not there or self.policy.random.random() > _CHOSEN
        if self._narrow and missed and self.decisions < self._interrupt_at + _LONGEST_WATCH:
            return
        self._interrupt_at = None
        if not there:
            return
        main.interrupt = KeyboardInterrupt()
        if main.waits_for:
            self.wake(main)

    @staticmethod
    def _raise(fiber: Fiber) -> None:
        if fiber.interrupt is not None:
            interrupt, fiber.interrupt = fiber.interrupt, None
            try:
                raise interrupt
            finally:
                # Its traceback holds this frame, and the frames of the program's own objects.
                del interrupt

    def _pick(self) -> Fiber | None:
        while not self.runnable and self._alarms:
            due, _, number, fiber = self._alarms[0]
            if not fiber.waits_for or fiber.wait_number != number:
                heapq.heappop(self._alarms)
                continue
            if self.at_rest is not None:
                # It may ask the pipeline for something, but nobody goes on meanwhile.
                (left, watch), (self.left, self.watch) = (self.left, self.watch), (sys.maxsize, None)
                self.at_rest(max(0.0, due - self.now))
                self.left, self.watch = left, watch
            self.ring()
            # Those that are due at about the same time may come in any order.
            while self.policy.together and self.ring(_SAME):
                pass
        return self._choose(None) if self.runnable else None

    def ring(self, within: float = inf) -> bool:
        """Advance the time to the next alarm, and wake who set it. Return False if there is none in so many seconds."""
        while self._alarms and self._alarms[0][0] <= self.now + within:
            due, _, number, fiber = heapq.heappop(self._alarms)
            if fiber.waits_for and fiber.wait_number == number:
                self.now = max(self.now, due)
                if self.now > _BEGIN + _MOST_SECONDS:
                    self.hung = True
                fiber.timed_out = True
                self.wake(fiber)
                return True
        return False

    def _switch(self, fiber: Fiber, following: Fiber) -> None:
        # What Python keeps for each thread of the system, and so for all fibers together.
        loop, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        task = asyncio.current_task(loop) if _TASKS_ARE_OF_THREADS and loop else None
        if task:
            asyncio.tasks._swap_current_task(loop, None)  # type: ignore[attr-defined]
        if self._record:
            self.schedule.append(f"{self.now - _BEGIN:.6f} {fiber.name} {_where()} -> {following.name}")
        self.current = following
        following.greenlet.switch()
        self.current = fiber
        asyncio._set_running_loop(loop)
        if task:
            asyncio.tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]
        sys.set_asyncgen_hooks(*hooks)

    def fork(self) -> None:
        """Go on as a forked child does: no thread is there but the one that forks."""
        current = self.current
        assert current is not None
        others = [fiber for fiber in self.fibers if fiber is not current]
        # They are never ended, as in a process that is gone.
        _left.extend(others)
        for fiber in others:
            # Nothing wakes them.
            fiber.done, fiber.waits_for = True, ""
        self.fibers, self.runnable, self._alarms = [current], [current], []

    # ---- waiting ----

    def block(self, waits_for: str, seconds: float | None = None) -> bool:
        """Wait until `wake` is called or time has passed. Return False if the time has passed."""
        fiber = self.current
        assert fiber is not None
        fiber.waits_for = waits_for
        fiber.timed_out = False
        fiber.wait_number += 1
        if seconds is not None:
            heapq.heappush(self._alarms, (self.now + max(0.0, seconds), fiber.ident, fiber.wait_number, fiber))
        self.runnable.remove(fiber)
        following = self._pick()
        if following is None:
            self.hub.switch()
            raise AssertionError("A fiber went on after the end of its run.")
        self._decided(following)
        if following is not fiber:
            self._switch(fiber, following)
        self._raise(fiber)
        return not fiber.timed_out

    def wake(self, fiber: Fiber) -> None:
        """Let a fiber that waits go on."""
        if fiber.waits_for:
            fiber.waits_for = ""
            self._make_runnable(fiber)

    def _make_runnable(self, fiber: Fiber) -> None:
        self.runnable.append(fiber)
        if self.current is not None and self.policy.preempts(fiber, self.current):
            self._quantum -= self.left - 1
            self.left = 1

    def clock(self) -> float:
        """Return the time."""
        self.now += _TICK
        return self.now


class _Idle(Scheduler):
    """The world between two runs: a single thread, in which nothing waits."""

    def __init__(self) -> None:
        self.left = sys.maxsize
        self.current = None
        self.now = 0.0
        self.slow_lock = False
        self.watch = None
        self.stop_returned = False

    def decide(self) -> None:
        self.left = sys.maxsize

    def block(self, waits_for: str, seconds: float | None = None) -> bool:
        if seconds is None:
            raise RuntimeError(f"The simulation waits for {waits_for} outside of a run.")
        return False

    def wake(self, fiber: Fiber) -> None:
        pass


# The fibers of all runs that did not end.
_left: list[Fiber] = []

IDLE = _Idle()
active: Scheduler = IDLE


def step(site: int = 0) -> None:
    """Called before each statement of the engine, with its number: another fiber may go on here."""
    scheduler = active
    scheduler.left -= 1
    if scheduler.left <= 0:
        scheduler.decide()
    if scheduler.watch is not None and site:
        scheduler.watch(site)


def step_with(value: object, site: int) -> object:
    """Be a step between a call and the name that its result gets, and return the result."""
    step(site)
    return value


def is_within(name: str, frame: FrameType | None) -> bool:
    """Return whether a function of this name is on a stack."""
    while frame is not None:
        if frame.f_code.co_name == name:
            return True
        frame = frame.f_back
    return False


def _where() -> str:
    """Return where the current fiber is, outside of the simulation."""
    frame = sys._getframe()
    while "/simulation/" in frame.f_code.co_filename and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {frame.f_code.co_name}"

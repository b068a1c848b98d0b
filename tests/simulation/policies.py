"""Ways to choose who runs next, each good at finding another kind of mistake."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.simulation.scheduler import Fiber, Scheduler

__all__ = ["Adversary", "Pct", "Policy", "Uniform", "draw_policy"]


class Policy(ABC):
    """Decides who goes on, and for how many steps.

    Args:
        random: The only source of choices.
        jumps: The share of decisions at which the next alarm rings although others could run: clocks go on while
            threads work, too.
    """

    # So many alarms may ring early in one run; the run would be one of timeouts otherwise.
    most_jumps = 12
    # No time jumps further, in seconds. What waits for longer waits for something that should never happen.
    far = 1.0
    # Whether those whose alarms are due at the same time wake up in any order.
    together = False

    def __init__(self, random: Random, *, jumps: float) -> None:
        self.random = random
        self.jumps = jumps
        self._jumped = 0

    @abstractmethod
    def quantum(self, steps: int) -> int:
        """Return after how many steps to decide again."""

    @abstractmethod
    def choose(self, runnable: Sequence[Fiber], current: Fiber | None) -> Fiber:
        """Return who goes on."""

    def spawned(self, fiber: Fiber) -> None:  # noqa: B027 - most have nothing to note.
        """Note a new fiber."""

    def preempts(self, fiber: Fiber, current: Fiber) -> bool:
        """Return whether a fiber that could run now is looked at in the next step."""
        return False

    def jump(self, scheduler: Scheduler) -> None:
        """Let an alarm ring early, from time to time."""
        if self._jumped < self.most_jumps and self.jumps and self.random.random() < self.jumps:
            self._jumped += 1
            scheduler.ring(self.far)


class Uniform(Policy):
    """Switches at random: every schedule has its chance, and those with many switches are likely."""

    def __init__(self, random: Random, *, jumps: float, mean: float) -> None:
        super().__init__(random, jumps=jumps)
        self._mean = mean

    def quantum(self, steps: int) -> int:
        return 1 + int(self.random.expovariate(1 / self._mean))

    def choose(self, runnable: Sequence[Fiber], current: Fiber | None) -> Fiber:
        return runnable[int(self.random.random() * len(runnable))]


class Pct(Policy):
    """Runs whoever has the highest priority, and lowers it at a few random steps.

    A mistake that takes d changes of the order is found with a known least probability: Burckhardt and others, "A
    Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.
    """

    # After so many steps without a change somebody else gets a turn: what spins would keep all others away.
    _PATIENCE = 20_000

    def __init__(self, random: Random, *, jumps: float, changes: int, length: int) -> None:
        super().__init__(random, jumps=jumps)
        self._priorities: dict[int, float] = {}
        self._changes = sorted((random.randrange(length) for _ in range(changes)), reverse=True)
        self._lowest = 0.0

    def spawned(self, fiber: Fiber) -> None:
        self._priorities[fiber.ident] = 1 + self.random.random()

    def quantum(self, steps: int) -> int:
        while self._changes and self._changes[-1] <= steps:
            self._changes.pop()
        return min(self._PATIENCE, self._changes[-1] - steps if self._changes else self._PATIENCE)

    def choose(self, runnable: Sequence[Fiber], current: Fiber | None) -> Fiber:
        best = self._best(runnable)
        if best is current:
            # No other has come that is more important, so it is the step for a change.
            self._lowest -= 1
            self._priorities[best.ident] = self._lowest
            best = self._best(runnable)
        return best

    def _best(self, runnable: Sequence[Fiber]) -> Fiber:
        return max(runnable, key=lambda fiber: self._priorities[fiber.ident])

    def preempts(self, fiber: Fiber, current: Fiber) -> bool:
        return self._priorities[fiber.ident] > self._priorities[current.ident]


class Adversary(Uniform):
    """Starves one fiber as long as others can run, and lets some that were woken come late."""

    def __init__(self, random: Random, *, jumps: float, mean: float, victim: int, late: float) -> None:
        super().__init__(random, jumps=jumps, mean=mean)
        self._victim = victim
        self._late = late
        # Who comes late, and for how many decisions more.
        self._delays: dict[int, int] = {}

    def choose(self, runnable: Sequence[Fiber], current: Fiber | None) -> Fiber:
        ready = [fiber for fiber in runnable if not self._held_back(fiber)]
        return super().choose(ready or runnable, current)

    def _held_back(self, fiber: Fiber) -> bool:
        delay = self._delays.get(fiber.ident, 0)
        if delay > 0:
            self._delays[fiber.ident] = delay - 1
            return True
        return fiber.ident == self._victim

    def preempts(self, fiber: Fiber, current: Fiber) -> bool:
        if self._late and self.random.random() < self._late:
            self._delays[fiber.ident] = 1 + int(self.random.expovariate(1 / 20))
        return False


def draw_policy(random: Random, *, exact_time: bool = False) -> Policy:
    """Return one of the policies, with parameters of all sizes.

    Args:
        random: Chooses.
        exact_time: Whether alarms ring only when all wait. Ops that have a timeout may exceed it otherwise, however
            quick they are.
    """
    jumps = 0.0 if exact_time else random.choice([0.0, 0.0, 0.01, 0.1])
    mean = random.choice([1.0, 3.0, 10.0, 40.0, 200.0])
    policy = _draw_kind(random, jumps=jumps, mean=mean)
    policy.together = random.random() < 0.5
    return policy


def _draw_kind(random: Random, *, jumps: float, mean: float) -> Policy:
    kind = random.randrange(3)
    if kind == 0:
        return Uniform(random, jumps=jumps, mean=mean)
    if kind == 1:
        return Pct(random, jumps=jumps, changes=random.randint(1, 6), length=2 ** random.randint(6, 15))
    # The first fiber is 1001, the consumer; the next ones are the engine's threads.
    return Adversary(
        random, jumps=jumps, mean=mean, victim=1001 + random.randrange(8), late=random.choice([0.0, 0.1, 0.5])
    )

"""What can be changed while a pipeline runs, and how far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Budgets", "Limits", "StageBudget"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force.

    Attributes:
        num_threads: How many synchronous ops may run at once.
        concurrency: How many items each stage may work on at once.
        buffer_size: How many finished items may wait for the consumer.
    """

    num_threads: int
    concurrency: tuple[int, ...]
    buffer_size: int


@dataclass(frozen=True, slots=True)
class StageBudget:
    """How far one stage's concurrency may go.

    Attributes:
        name: The stage's name.
        most: The highest concurrency; it is the declared one where that was set by hand.
        pinned: Whether it was set by hand, or cannot be changed.
        on_threads: Whether its ops run on the pipeline's threads.
        why: What speaks against more.
        copies: In how many workers of a region it runs. The concurrency counts for all of them, and each has the same.
    """

    name: str
    most: int
    pinned: bool
    on_threads: bool
    why: str = "it may not be more"
    copies: int = 1

    def rounded_up(self, slots: int) -> int:
        """Return the next concurrency that it can have."""
        return -(-slots // self.copies) * self.copies

    def in_words(self, slots: int) -> str:
        """Return a concurrency as it is declared: for each copy."""
        each = slots // self.copies
        return f"{each} in each of {self.copies} workers" if self.copies > 1 else str(each)


@dataclass(frozen=True, slots=True)
class Budgets:
    """How far all limits may go.

    Attributes:
        cores: How many cores the process may use.
        stages: The stages' own.
        num_threads: The highest number of threads.
        threads_pinned: Whether that was set by hand.
        buffer_size: The highest number of finished items that wait.
        buffer_pinned: Whether that was set by hand.
    """

    cores: float
    stages: tuple[StageBudget, ...]
    num_threads: int
    threads_pinned: bool
    buffer_size: int
    buffer_pinned: bool

    def pin(self, stage: str, concurrency: int) -> Budgets:
        """Return the same with a stage that was set by hand."""
        pinned = [replace(each, most=concurrency, pinned=True) if each.name == stage else each for each in self.stages]
        return replace(self, stages=tuple(pinned))

    def cap(self, most: Mapping[int, int]) -> Budgets:
        """Return the same with less for stages, given by their index, of which more has shown to do no more."""
        if not most:
            return self
        stages = [
            replace(each, most=min(each.most, most[index]), why="more of its ops are in each other's way")
            if index in most
            else each
            for index, each in enumerate(self.stages)
        ]
        return replace(self, stages=tuple(stages))

    def needed_threads(self, concurrency: Iterable[int], current: int) -> int:
        """Return how many threads stages of these concurrencies can keep busy, as far as it is allowed."""
        if self.threads_pinned:
            return current
        wanted = sum(each for each, stage in zip(concurrency, self.stages, strict=True) if stage.on_threads)
        return max(1, min(self.num_threads, wanted))

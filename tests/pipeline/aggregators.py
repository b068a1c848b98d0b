"""Aggregators that several test modules use."""

from typing import Generic, TypeVar

from spdl.pipeline.defs import Aggregator

T = TypeVar("T")


class Pairs(Aggregator[T, list[T]], Generic[T]):
    """An aggregator that returns two items at a time, and a single one that is left at the end."""

    def __init__(self) -> None:
        self.held: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        self.held.append(item)
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> list[T] | None:
        held, self.held = self.held, []
        return held or None

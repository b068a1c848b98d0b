"""Aggregators that several test modules use."""

from typing import Generic, TypeVar

from spdl.pipeline.defs import Aggregator

T = TypeVar("T")


class Several(Aggregator[T, list[T]], Generic[T]):
    """An aggregator that returns so many items at a time, and fewer that are left at the end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        self.held.append(item)
        return self.flush() if len(self.held) == self.size else None

    def flush(self) -> list[T] | None:
        held, self.held = self.held, []
        return held or None


class Pairs(Several[T]):
    """An aggregator that returns two items at a time, and a single one that is left at the end."""

    def __init__(self) -> None:
        super().__init__(2)

"""Measure how fast large arrays cross a process boundary, and how fast one core copies them."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

# As many as are under way when they cross a boundary.
DESTINATIONS = 5


class Arrays:
    """An iterable that gives one array again and again. It is made before the first pass, so passes do not wait."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size
        self.array: Any = None

    def __call__(self) -> Arrays:
        """Make the array, in the process that iterates, and return this object."""
        self.array = np.random.default_rng(0).integers(0, 255, self.size, np.uint8)
        return self

    def __iter__(self) -> Iterator[Any]:
        """Yield the array."""
        for _ in range(self.count):
            yield self.array


def memcpy(*, count: int, size: int) -> dict[str, float]:
    """Copy the array into one destination after the other."""
    (array,) = Arrays(1, size)()
    destinations = [np.zeros(size, np.uint8) for _ in range(DESTINATIONS)]
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        for number in range(count):
            np.copyto(destinations[number % DESTINATIONS], array)
        rates.append(count * size / (time.perf_counter() - begin) / 1e9)
    return {"gigabytes_per_second": median(rates[1:])}


def cross(*, count: int, size: int, arena: str) -> dict[str, float]:
    """Receive the arrays from another process."""
    from spdl.pipeline import iterate_in_subprocess  # noqa: PLC0415 - the contender's.

    arguments: dict[str, Any] = {}
    if arena == "pool":
        from spdl.pipeline import SharedMemorySegmentPool  # noqa: PLC0415

        arguments["arena"] = SharedMemorySegmentPool(size + 4096, DESTINATIONS)
    elif arena == "ring":
        from spdl.pipeline import SharedMemoryRingBuffer  # noqa: PLC0415

        arguments["arena"] = SharedMemoryRingBuffer(DESTINATIONS * size)
    items: Any = iterate_in_subprocess(Arrays(count, size), **arguments)
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        wrong = sum(item.size != size for item in items)
        rates.append(count * size / (time.perf_counter() - begin) / 1e9)
        if wrong:
            raise SystemExit("some arrays have another size")
    return {"gigabytes_per_second": median(rates[1:])}

"""How many workers a loader has, and how far they run ahead, as torch reads its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["WorkerCounts", "seconds_to_wait"]


class WorkerCounts(NamedTuple):
    """Numbers of workers and batches.

    Attributes:
        workers: How many workers there are.
        ahead: How many batches are loaded or ready for each.
    """

    workers: int
    ahead: int

    @classmethod
    def of(cls, loader: AnyLoader) -> WorkerCounts:
        """Return those of a loader with workers, in which True is 1.

        Raises:
            AssertionError: If nothing would be loaded ahead, with torch's message.
            TypeError: If a number is no int, with torch's message.
        """
        if loader.prefetch_factor < 1:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        return cls(len(range(loader.num_workers)), len(range(loader.prefetch_factor)))


def seconds_to_wait(timeout: float) -> float | None:
    """Return how long to wait for a batch. None is as long as it takes, as 0 and NaN are for torch."""
    return float(timeout) if timeout > 0 else None

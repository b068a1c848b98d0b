"""What an iterator of torch's kind takes for the sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .map_epoch import MapEpoch
    from .requests import Request

__all__ = ["IndexSampler"]


class IndexSampler:
    """Yields what the consumer has not received yet.

    Args:
        sampler: The loader's sampler, which yields the indices of batches.
        epoch: The epoch that begins.
    """

    def __init__(self, sampler: Any, epoch: MapEpoch) -> None:
        self._sampler = sampler
        self._epoch = epoch

    def __iter__(self) -> Iterator[Request]:
        return self._epoch.requests()

    def __len__(self) -> int:
        return len(self._sampler)

"""What an iterator needs to know of its loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .tracked_iterator import TrackedIterator

__all__ = ["AnyLoader"]


class AnyLoader(Protocol):
    """A loader with the attributes of torch's class, and what its iterators tell it and ask it."""

    dataset: Any
    batch_size: int | None
    sampler: Any
    batch_sampler: Any
    drop_last: bool
    num_workers: int
    collate_fn: Callable[[Any], Any]
    timeout: float
    worker_init_fn: Callable[[int], object] | None
    multiprocessing_context: Any
    generator: Any
    prefetch_factor: int
    persistent_workers: bool
    in_order: bool
    workers: Literal["thread", "process"] | None
    _loaded: dict[str, Any] | None
    _pickles_once: int | None
    _index_sampler: Any

    def _begin(self, iterator: TrackedIterator) -> tuple[Any, dict[str, Any] | None]: ...

    def _drawing(self) -> AbstractContextManager[None]: ...

    def _read_from(self, iterator: TrackedIterator, *, first: bool) -> None: ...

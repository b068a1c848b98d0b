"""A loader that soon repeats its first batches, to measure a training loop without its loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import check_iterable
from spdl._type_vars import T
from spdl.pipeline import cache_iterator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CacheDataLoader"]


class CacheDataLoader(Generic[T]):
    """A wrapper of a loader that soon repeats the loader's first batches, which takes no time.

    If a training loop runs no faster with it, the loop does not wait for its data. Otherwise the difference is the most
    that a faster loader could gain.

    Args:
        dl: The loader, or any iterable.
        num_caches: How many batches to cache, at least 1. They stay in memory, on the device if they are there.
        return_caches_after: How many of the loader's batches to yield before the cached ones repeat, at least
            ``num_caches``.
        stop_after: How many batches an iteration yields, at least ``return_caches_after``; None goes on for ever. If
            the loader ends sooner, the cached batches repeat. If it is empty, the iteration ends at once.
        delete_src: Whether to drop the loader's iterator once it is no longer needed, so that its threads and buffers
            are freed and do not disturb the measurement. False keeps it until the iteration is over.

    Yields:
        The batches themselves, not copies.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import CacheDataLoader
        >>> list(CacheDataLoader(range(100), num_caches=2, return_caches_after=3, stop_after=6))
        [0, 1, 2, 0, 1, 0]
    """

    def __init__(
        self,
        dl: Iterable[T],
        num_caches: int,
        return_caches_after: int,
        stop_after: int | None = None,
        delete_src: bool = True,  # noqa: FBT001, FBT002 - the seeds' signature.
    ) -> None:
        check_iterable("dl", dl)
        self.dl = dl
        self._arguments: dict[str, Any] = {
            "num_caches": num_caches,
            "return_caches_after": return_caches_after,
            "stop_after": stop_after,
            "delete_src": delete_src,
        }
        # Raise for mistakes now instead of at the first iteration.
        cache_iterator((), **self._arguments)

    def __iter__(self) -> Iterator[T]:
        # Pass the iterator, which `delete_src` is about, not the loader, which this object holds anyway.
        return cache_iterator(iter(self.dl), **self._arguments)

    def __len__(self) -> int:
        """Return the loader's own length, so that a schedule of learning rates, say, is the same as without caches."""
        return len(self.dl)  # type: ignore[arg-type] # Without a length, this raises a TypeError that names its type.

    def __getattr__(self, name: str) -> Any:
        if name == "dl":
            # Not there yet, as during unpickling.
            raise AttributeError(name)
        return getattr(self.dl, name)

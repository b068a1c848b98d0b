"""Iterate a source for a while, then what was remembered of it: to measure a consumer without its loader."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from ._check import positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["cache_iterator"]

T = TypeVar("T")


def cache_iterator(
    src: Iterable[T],
    num_caches: int,
    *,
    return_caches_after: int | None = None,
    stop_after: int | None = None,
    delete_src: bool = True,
) -> Iterator[T]:
    """Yield items of ``src`` and remember the first ones, then yield those over and over.

    How fast a training loop runs on remembered batches is how fast it could run if loading took no time.

    Args:
        src: Where the items come from.
        num_caches: How many items to remember, at least 1. They stay in memory.
        return_caches_after: How many items to take from ``src`` before the remembered ones are repeated; by default
            ``num_caches``.
        stop_after: How many items to yield in all; None goes on for ever.
        delete_src: Whether to drop the reference to ``src`` once it is no longer needed, so that it may be collected
            and what it holds be freed.

    Yields:
        The items themselves, not copies: what is changed in place stays changed the next time.

    Raises:
        TypeError, ValueError: At the call, if a number is not an int of at least 1 (``num_caches``), or smaller than
            those that it must not be smaller than.

    Example:
        >>> from spdl.pipeline import cache_iterator
        >>> list(cache_iterator(range(100), 2, return_caches_after=3, stop_after=8))
        [0, 1, 2, 0, 1, 0, 1, 0]
    """
    positive("num_caches", num_caches)
    taken = num_caches if return_caches_after is None else return_caches_after
    if taken < num_caches:
        raise ValueError(f"`return_caches_after` must be at least `num_caches` ({num_caches}), got {taken}.")
    if stop_after is not None and stop_after < taken:
        raise ValueError(f"`stop_after` must be at least {taken}, the items taken from the source, got {stop_after}.")
    source = _remembering(iter(src), num_caches, taken)
    if not delete_src:
        source = _keeping(src, source)
    return itertools.islice(source, stop_after)


def _remembering(source: Iterator[T] | None, num_caches: int, taken: int) -> Iterator[T]:
    remembered: list[T] = []
    assert source is not None
    for item in itertools.islice(source, taken):
        if len(remembered) < num_caches:
            remembered.append(item)
        yield item
    source = None
    # A source that was empty ends here; one that was shorter repeats what there is.
    while remembered:
        yield from remembered


def _keeping(kept: object, items: Iterator[T]) -> Iterator[T]:
    yield from items
    del kept

"""Repeats the first items of a source, to measure a consumer without its loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

from spdl._check import check_flag, check_int, positive, refuse

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
    """Yield items of ``src``, cache the first ones, and then yield the cached items over and over.

    The speed of a training loop on cached batches is the speed that it would have if loading took no time.

    Args:
        src: The iterable that the items come from.
        num_caches: How many items to cache, at least 1. They stay in memory.
        return_caches_after: How many items to take from ``src`` before the cached items repeat. The default is
            ``num_caches``.
        stop_after: How many items to yield in all, at least as many as are taken from ``src``. None goes on for ever.
            If the source ends sooner, the cached items repeat. If the source is empty, the iterator ends at once.
        delete_src: Whether to drop the reference to ``src`` once it is no longer needed, so that it can be collected
            and its memory freed.

    Yields:
        The items themselves, not copies. If you change one in place, it is still changed the next time.

    Raises:
        TypeError, ValueError: At the call, if an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import cache_iterator
        >>> list(cache_iterator(range(100), 2, return_caches_after=3, stop_after=8))
        [0, 1, 2, 0, 1, 0, 1, 0]
    """
    kind = type(src)
    if not (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
        refuse(TypeError, "src", "an iterable", src)
    num_caches = taken = positive("num_caches", num_caches)
    if return_caches_after is not None:
        accepted = f"None or an int of at least `num_caches` ({num_caches})"
        taken = check_int("return_caches_after", return_caches_after, least=num_caches, accepted=accepted)
    if stop_after is not None:
        accepted = f"None or an int of at least {taken}, the items taken from the source"
        stop_after = check_int("stop_after", stop_after, least=taken, accepted=accepted)
    delete_src = check_flag("delete_src", delete_src)
    return _Caching(iter(src), num_caches, taken, stop_after, None if delete_src else src)


class _Caching(Generic[T]):
    # Not a generator: a TimeoutError of the source would end it, and the next read is to go on.

    def __init__(self, source: Iterator[T], num_caches: int, taken: int, stop_after: int | None, kept: object) -> None:
        self._source: Iterator[T] | None = source
        self._num_caches = num_caches
        # How many items are still to be taken from the source, and how many may still be yielded.
        self._to_take = taken
        self._left = stop_after
        self._kept = kept
        self._cached: list[T] = []
        self._following = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._left == 0:
            self._end()
        item = self._take() if self._source is not None else self._repeat()
        if self._left is not None:
            self._left -= 1
        return item

    def _take(self) -> T:
        assert self._source is not None
        if self._to_take:
            try:
                item = next(self._source)
            except StopIteration:
                # A source that is shorter repeats the items that it had.
                self._to_take = 0
            except TimeoutError:
                # The next read goes on.
                raise
            except BaseException:
                # Repeating what came before would hide that the source has failed.
                self._let_go()
                raise
            else:
                self._to_take -= 1
                if len(self._cached) < self._num_caches:
                    self._cached.append(item)
                return item
        self._source = None
        return self._repeat()

    def _repeat(self) -> T:
        # An empty source ends here.
        if not self._cached:
            self._end()
        item = self._cached[self._following]
        self._following = (self._following + 1) % len(self._cached)
        return item

    def _end(self) -> NoReturn:
        self._let_go()
        raise StopIteration

    def _let_go(self) -> None:
        self._source = self._kept = None
        self._cached.clear()
        self._left = 0

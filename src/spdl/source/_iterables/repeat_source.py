"""Endless repetition of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from spdl._check import check_int, check_iterable
from spdl._type_vars import T
from spdl.source._samplers.embed_shuffle import shuffle_timed
from spdl.source._samplers.protocols import IterableWithShuffle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["repeat_source"]


def repeat_source(src: Iterable[T] | IterableWithShuffle[T], /, epoch: int = 0) -> Iterator[T]:
    """Return an iterator that passes over `src` again and again.

    Args:
        src: The iterable to repeat. If it has a method ``shuffle``, that is called before each pass.
        epoch: The seed of the first shuffle; each pass adds one. After a restart, pass the number of the epoch to
            continue with. These seeds replace the one that `src` was made with. For runs with different orders, begin
            at different numbers, such as ``1000 * run``.

    Returns:
        An iterator that does not end. Until its first item is taken it can be pickled, for a worker process say.

    Raises:
        TypeError: If `src` is no iterable, or `epoch` no int.
        ValueError: Later, if a pass yields nothing, since the next would yield nothing either, or if the iterator is
            pickled after its first item was taken.

    Example:
        >>> from itertools import islice
        >>> from spdl.source.utils import repeat_source
        >>> list(islice(repeat_source("ab"), 5))
        ['a', 'b', 'a', 'b', 'a']
    """
    check_iterable("src", src)
    return _RepeatIterator(src, check_int("epoch", epoch, least=None))


class _RepeatIterator(Generic[T]):
    def __init__(self, src: Iterable[T] | IterableWithShuffle[T], epoch: int) -> None:
        self._src = src
        self._epoch = epoch
        self._items: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._items is None:
            self._items = self._repeat()
        return next(self._items)

    def _repeat(self) -> Iterator[T]:
        while True:
            if isinstance(self._src, IterableWithShuffle):
                shuffle_timed(self._src, self._epoch)
            empty = True
            for item in self._src:
                empty = False
                yield item
            if empty:
                raise ValueError(
                    f"The pass {self._epoch} over {type(self._src).__name__} gave nothing, so it cannot be repeated: "
                    "pass an iterable that starts anew each time, which an iterator or a generator does not."
                )
            self._epoch += 1

    def __getstate__(self) -> dict[str, object]:
        if self._items is not None:
            raise ValueError(
                "repeat_source() cannot be pickled once its first item was taken: the position in the pass would be "
                "lost. Pickle it before, or make a new one."
            )
        return self.__dict__

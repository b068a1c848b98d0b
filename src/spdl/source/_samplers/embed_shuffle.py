"""A source that is shuffled for every pass."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING, Generic, overload

from spdl._check import check_flag, check_int, refuse
from spdl._type_vars import T

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl.source._samplers.protocols import IterableWithShuffle, SizedIterable, SizedIterableWithShuffle

__all__ = ["embed_shuffle", "shuffle_timed"]


_LOG = logging.getLogger(__name__)

# In seconds. A longer pause between two epochs looks like a hang.
_LONG = 3.0


@overload
def embed_shuffle(
    src: SizedIterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0
) -> SizedIterable[T]: ...
@overload
def embed_shuffle(src: IterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0) -> Iterable[T]: ...
def embed_shuffle(src: IterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0) -> Iterable[T]:
    """Return an iterable that shuffles `src` for every pass, with the number of the pass as the seed.

    Args:
        src: The iterable to shuffle, by its ``shuffle(seed=...)``.
        shuffle_last: Whether to shuffle for the next pass at the end of a pass, even of one that is abandoned early.
            The first pass is then in the order that `src` has. A loader that prepares the next epoch in the background
            hides the time of a long shuffle. Otherwise each pass begins with its shuffle.
        epoch: The first seed; each pass adds one. With `shuffle_last` it is the seed of the second pass. After a
            restart, pass the number of the epoch to continue with. With `shuffle_last`, also call
            ``src.shuffle(seed=epoch - 1)`` before, since the first pass is in the order that `src` has. These seeds
            replace the one that `src` was made with. For other orders begin at another number, such as ``1000 * run``.

    Returns:
        An iterable. Its ``len()`` is that of `src`, and raises TypeError if `src` has none. A shuffle of more than 3
        seconds is logged as a warning.

    Raises:
        TypeError: If `src` has no ``shuffle``, or another argument has the wrong type.

    Example:
        >>> from spdl.source import DistributedRandomSampler
        >>> from spdl.source.utils import embed_shuffle
        >>> source = embed_shuffle(DistributedRandomSampler(100, rank=0, world_size=1))
        >>> list(source) == list(source)
        False
    """
    if not (hasattr(type(src), "__iter__") and callable(getattr(src, "shuffle", None))):
        refuse(TypeError, "src", "an iterable with a method `shuffle(seed=...)`", src)
    return _ShuffledPasses(src, check_flag("shuffle_last", shuffle_last), check_int("epoch", epoch, least=None))


class _ShuffledPasses(Generic[T]):
    def __init__(self, src: IterableWithShuffle[T], shuffle_last: bool, epoch: int) -> None:  # noqa: FBT001 - private.
        self._src = src
        self._shuffle_last = shuffle_last
        self._epoch = epoch

    def __iter__(self) -> Iterator[T]:
        if not self._shuffle_last:
            self._shuffle()
            yield from self._src
            return
        try:
            yield from self._src
        finally:
            self._shuffle()

    def _shuffle(self) -> None:
        shuffle_timed(self._src, self._epoch)
        self._epoch += 1

    def __len__(self) -> int:
        return len(self._src)  # type: ignore[arg-type] # Without a length, this raises a TypeError that names its type.


def shuffle_timed(src: IterableWithShuffle[T], seed: int) -> None:
    """Shuffle, and log a warning if that takes long."""
    begin = perf_counter()
    src.shuffle(seed=seed)
    if (seconds := perf_counter() - begin) > _LONG:
        _LOG.warning(
            "Shuffling %s with seed %d took %.1f seconds, during which nothing was loaded: shuffle indices or paths "
            "instead of what they stand for, or pass `shuffle_last=True` to embed_shuffle().",
            type(src).__name__,
            seed,
            seconds,
        )

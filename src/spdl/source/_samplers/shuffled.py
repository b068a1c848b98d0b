"""Sources that are shuffled again for each epoch."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from spdl._check import check_flag, check_int, refuse
from spdl._sealed import check_state, sealed

T = TypeVar("T")

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class IterableWithShuffle(Protocol[T_co]):
    """An iterable whose order depends on a seed.

    Example:
        >>> from spdl.source import DistributedRandomSampler, IterableWithShuffle
        >>> isinstance(DistributedRandomSampler(9, rank=0, world_size=1), IterableWithShuffle)
        True
    """

    def __iter__(self) -> Iterator[T_co]: ...

    def shuffle(self, seed: int) -> None:
        """Choose the order of the passes that begin from now on.

        Args:
            seed: The same seed must give the same order on every machine.

        Raises:
            TypeError, ValueError: If the implementation does not accept the seed.
        """


@runtime_checkable
class SizedIterable(Protocol[T_co]):
    """An iterable that knows how many items a pass yields.

    Example:
        >>> from spdl.source import SizedIterable
        >>> isinstance([1, 2], SizedIterable), isinstance(iter([1, 2]), SizedIterable)
        (True, False)
    """

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...


@runtime_checkable
class SizedIterableWithShuffle(IterableWithShuffle[T_co], SizedIterable[T_co], Protocol[T_co]):
    """An iterable whose order depends on a seed, and that knows how many items a pass yields.

    Example:
        >>> from spdl.source import DistributedRandomSampler, SizedIterableWithShuffle
        >>> isinstance(DistributedRandomSampler(9, rank=0, world_size=1), SizedIterableWithShuffle)
        True
    """


def shuffled(items: list[T], seed: int) -> list[T]:
    """Return a shuffled copy. A pass over the old list that has begun keeps its order."""
    result = items.copy()
    random.Random(check_int("seed", seed, least=None)).shuffle(result)  # noqa: S311 - no secret.
    return result


_LOG = logging.getLogger(__name__)

# In seconds. A longer pause between two epochs looks like a hang.
_LONG = 3.0

_KIND = "embed_shuffle"


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
        An iterable. Its ``len()`` is the same as of `src`, and raises TypeError if `src` has none. A shuffle of more
        than 3 seconds is logged as a warning. It has ``state_dict()`` and ``load_state_dict()``, which say and set
        which pass is next, so a pipeline or loader over it continues exactly; it can begin at a position if `src` can.

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
        # The seeds of the next shuffle and the last one, and the one that a loaded state asks for before the next pass.
        self._epoch = epoch
        self._order: int | None = None
        self._due: int | None = None

    def __iter__(self) -> Iterator[T]:
        return self._iterate(lambda: self._src)

    @property
    def iterate_from(self) -> Callable[[int], Iterator[T]]:
        """The method that begins the next pass at a position, if `src` can begin at one."""
        src: Any = self._src
        if callable(getattr(type(src), "iterate_from", None)):
            return lambda position: self._iterate(lambda: src.iterate_from(position))
        if isinstance(src, Sequence):
            return lambda position: self._iterate(lambda: map(src.__getitem__, range(position, len(src))))
        raise AttributeError(f"{type(src).__name__} cannot begin at a position")

    def _iterate(self, begin: Callable[[], Iterable[T]]) -> Iterator[T]:
        if not self._shuffle_last:
            self._shuffle()
            yield from begin()
            return
        if self._due is not None:
            due, self._due = self._due, None
            shuffle_timed(self._src, due)
        try:
            yield from begin()
        finally:
            self._shuffle()

    def _shuffle(self) -> None:
        shuffle_timed(self._src, self._epoch)
        self._order = self._epoch
        self._epoch += 1

    def state_dict(self) -> dict[str, Any]:
        """Return which pass is next, as a dict that JSON can hold. While a pass is under way it is the one after."""
        content = {
            "shuffle_last": self._shuffle_last,
            "epoch": self._epoch,
            "order": self._order if self._shuffle_last else None,
            "length": self._find_length(),
        }
        return sealed(_KIND, content)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_state("state", state, _KIND)
        for name, own in (("shuffle_last", self._shuffle_last), ("length", self._find_length())):
            if state[name] != own:
                refuse(ValueError, "state", f"one with {name}={own!r}, as this source has", state)
        epoch, order = state["epoch"], state["order"]
        if self._shuffle_last and order is None and self._order is not None:
            raise ValueError(
                "`state` was taken before the first pass, which has the order that `src` was made with, and `src` was "
                "shuffled since: make it and `embed_shuffle` again."
            )
        self._epoch = epoch
        self._order = self._due = order

    def _find_length(self) -> int | None:
        return len(self._src) if hasattr(type(self._src), "__len__") else None  # type: ignore[arg-type] # It has one.

    def __len__(self) -> int:
        return len(self._src)  # type: ignore[arg-type] # Without a length, this raises a TypeError that names its type.


def shuffle_timed(src: IterableWithShuffle[T], seed: int) -> None:
    begin = time.perf_counter()
    src.shuffle(seed=seed)
    if (seconds := time.perf_counter() - begin) > _LONG:
        _LOG.warning(
            "Shuffling %s with seed %d took %.1f seconds, during which nothing was loaded: shuffle indices or paths "
            "instead of what they stand for, or pass `shuffle_last=True` to embed_shuffle().",
            type(src).__name__,
            seed,
            seconds,
        )

"""Several iterables as one, and one that is repeated."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, islice
from math import gcd, isfinite, lcm
from typing import Generic, TypeVar

from spdl._check import check_int, check_iterable, check_number, refuse, refuse_set
from spdl.source._samplers.shuffled import IterableWithShuffle, shuffle_timed

T = TypeVar("T")

_UNTIL_ALL_ARE_EXHAUSTED = 0
_UNTIL_ONE_IS_EXHAUSTED = -1


class MergeIterator(Generic[T]):
    """An iterable over the items of several iterables, in turns or at random.

    It can be iterated again if the iterables can, and then yields the same order.

    Args:
        iterables: The iterables to take items from, at least one.
        weights: The chance of each iterable to yield the next item, in any unit. An iterable of weight 0 is not
            iterated. An exhausted one is no longer drawn; the proportions of the others stay the same. None takes an
            item from each in turn.
        stop_after: 0 ends when all iterables are exhausted, -1 when the first is found to be exhausted, and n > 0 after
            n items or when all are exhausted.
        seed: The seed of the draws, for `random.Random`: the draws are the same on every machine.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `iterables` is empty, if `weights` does not hold one finite number of at least 0 for each of
            them, if all weights are 0, or if `stop_after` is less than -1.

    Example:
        >>> from spdl.source.utils import MergeIterator
        >>> list(MergeIterator(["abc", "d"]))
        ['a', 'd', 'b', 'c']
    """

    def __init__(
        self,
        iterables: Sequence[Iterable[T]],
        *,
        weights: Sequence[float] | None = None,
        stop_after: int = _UNTIL_ALL_ARE_EXHAUSTED,
        seed: int = 0,
    ) -> None:
        check_iterable("iterables", iterables, "several iterables, in a list")
        refuse_set("iterables", iterables)
        self._iterables = tuple(iterables)
        if not self._iterables:
            refuse(ValueError, "iterables", "at least one iterable", self._iterables)
        for index, iterable in enumerate(self._iterables):
            check_iterable(f"iterables[{index}]", iterable)
        self._weights = None if weights is None else _to_integers(weights, len(self._iterables))
        self._stop_after = check_int("stop_after", stop_after, least=_UNTIL_ONE_IS_EXHAUSTED)
        self._seed = check_int("seed", seed, least=None)

    def __iter__(self) -> Iterator[T]:
        to_the_end = self._stop_after != _UNTIL_ONE_IS_EXHAUSTED
        if self._weights is None:
            items = _take_turns([iter(iterable) for iterable in self._iterables], to_the_end=to_the_end)
        else:
            drawn = [(iter(it), weight) for it, weight in zip(self._iterables, self._weights, strict=True) if weight]
            items = _draw(drawn, random.Random(self._seed), to_the_end=to_the_end)  # noqa: S311 - no secret.
        return islice(items, self._stop_after) if self._stop_after > 0 else items


def _take_turns(iterators: list[Iterator[T]], *, to_the_end: bool) -> Iterator[T]:
    while iterators:
        left = []
        for iterator in iterators:
            # A `for` loop would hide which of them has ended.
            try:
                item = next(iterator)
            except StopIteration:
                if not to_the_end:
                    return
                continue
            left.append(iterator)
            yield item
        iterators = left


def _draw(weighted: list[tuple[Iterator[T], int]], generator: random.Random, *, to_the_end: bool) -> Iterator[T]:
    while weighted:
        bounds = list(accumulate(weight for _, weight in weighted))
        while True:
            drawn = bisect_right(bounds, generator.randrange(bounds[-1]))
            try:
                item = next(weighted[drawn][0])
            except StopIteration:
                break
            yield item
        if not to_the_end:
            return
        del weighted[drawn]


def _to_integers(weights: Sequence[float], size: int) -> list[int]:
    """Return the proportions as the smallest integers. Sums of floats would favour some, and depend on the order."""
    values = list(weights)
    if len(values) != size:
        refuse(ValueError, "weights", f"{size} numbers, as many as there are `iterables`", values)
    for index, value in enumerate(values):
        number = check_number(f"weights[{index}]", value)
        if not isfinite(number) or number < 0:
            refuse(ValueError, f"weights[{index}]", "a finite number of at least 0", value)
    fractions = [Fraction(value) for value in map(float, values)]
    if not any(fractions):
        refuse(ValueError, "weights", "numbers, at least one above 0", values)
    common = lcm(*(fraction.denominator for fraction in fractions))
    integers = [int(fraction * common) for fraction in fractions]
    divisor = gcd(*integers)
    return [integer // divisor for integer in integers]


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
        TypeError: If `src` is not iterable, or `epoch` is not an int.
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
                    f"Pass {self._epoch} over {type(self._src).__name__} gave nothing, so it cannot be repeated: "
                    "pass an iterable that starts again each time, which an iterator or a generator does not."
                )
            self._epoch += 1

    def __getstate__(self) -> dict[str, object]:
        if self._items is not None:
            raise ValueError(
                "repeat_source() cannot be pickled once its first item was taken: the position in the pass would be "
                "lost. Pickle it before, or make a new one."
            )
        return self.__dict__

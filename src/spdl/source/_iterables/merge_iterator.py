"""Several iterables merged into one."""

from __future__ import annotations

import random
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate, islice
from math import gcd, isfinite, lcm
from typing import TYPE_CHECKING, Generic

from spdl._check import check_int, check_iterable, check_number, refuse
from spdl._type_vars import T

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["MergeIterator"]


_UNTIL_ALL_ARE_EXHAUSTED = 0
_UNTIL_ONE_IS_EXHAUSTED = -1


class MergeIterator(Generic[T]):
    """An iterable over the items of several iterables, in turns or at random.

    It can be iterated again if the iterables can, and then yields the same order.

    Args:
        iterables: The iterables to take items from, at least one.
        weights: How likely each iterable is to yield the next item, in any unit. An iterable of weight 0 is not
            iterated. An exhausted one is no longer drawn; the proportions of the others stay the same. None takes an
            item from each in turn.
        stop_after: 0 ends when all iterables are exhausted, -1 when the first is found to be exhausted, and n > 0 after
            n items or when all are exhausted.
        seed: The seed of the draws, for `random.Random`: the draws are the same on every machine.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are no iterables, if `weights` does not hold one finite number of at least 0 for each of
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

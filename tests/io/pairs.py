"""A table of cases in place of a full product: each value of an option meets each value of every other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def pairs(*options: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows with a value of each option, such that each two values of two options are in a row together.

    The same options give the same rows. There are about as many as the two longest options have pairs.
    """
    values = [list(option) for option in options]
    missing = {
        ((one, a), (other, b))
        for one, other in itertools.combinations(range(len(values)), 2)
        for a in range(len(values[one]))
        for b in range(len(values[other]))
    }
    rows = []
    while missing:
        first, second = min(missing)
        row = dict((first, second))
        for option in range(len(values)):
            if option not in row:
                row[option] = max(
                    range(len(values[option])),
                    key=lambda value: len(_met({**row, option: value}) & missing),
                )
        missing -= _met(row)
        rows.append(tuple(values[option][row[option]] for option in range(len(values))))
    return rows


def _met(row: dict[int, int]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(itertools.combinations(sorted(row.items()), 2))

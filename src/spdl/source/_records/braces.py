"""Patterns of names with braces, as shells write them out."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, TypeAlias

from spdl._check import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["expand_braces"]

# Longer numbers are part of the name, as in a shell: none counts so far.
_NUMBERS = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?")
_LETTERS = re.compile(r"([a-zA-Z])\.\.([a-zA-Z])(?:\.\.(-?\d{1,18}))?")
_MOST = 1_000_000
_DEEPEST = 100

_Part: TypeAlias = "str | _Range | _List"


def expand_braces(argument: str, pattern: str) -> list[str]:
    """Return the names that a pattern stands for, in its order.

    ``{0000..0099}`` counts, with as many digits as are written; ``{0..9..3}`` in steps; ``{a,b}`` lists. Braces may be
    within braces. Those around neither a list nor a range are part of the name, as in a shell.

    Args:
        argument: The name of the argument, for messages.
        pattern: The pattern.

    Raises:
        ValueError: If it stands for more than a million names, or has more than a hundred braces within each other.
    """
    if "{" not in pattern:
        return [pattern]
    braces, deepest = _find_braces(pattern)
    if deepest > _DEEPEST:
        refuse(ValueError, argument, f"a pattern of at most {_DEEPEST} braces within each other", pattern)
    parts = _read(pattern, 0, len(pattern), braces)
    # Before anything is written out, since that may take long.
    if _count(parts) > _MOST:
        refuse(ValueError, argument, f"a pattern of at most {_MOST} names", pattern)
    return list(_names(parts))


class _Range:
    """Numbers or letters that follow each other."""

    def __init__(self, numbers: range, width: int | None) -> None:
        self._numbers = numbers
        self._width = width  # None for letters.

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> Iterator[str]:
        if self._width is None:
            return map(chr, self._numbers)
        return (f"{number:0{self._width}}" for number in self._numbers)


class _List:
    """Patterns between commas."""

    def __init__(self, options: list[list[_Part]]) -> None:
        self._options = options

    def __len__(self) -> int:
        return min(_MOST + 1, sum(map(_count, self._options)))

    def names(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(_names, self._options))


def _count(parts: Sequence[_Part]) -> int:
    """Return how many names there are, or a million and more."""
    return min(_MOST + 1, math.prod(min(_MOST + 1, len(part)) for part in parts if not isinstance(part, str)))


def _names(parts: Sequence[_Part]) -> Iterator[str]:
    options = ([part] if isinstance(part, str) else part.names() for part in parts)
    return map("".join, itertools.product(*options))


def _find_braces(pattern: str) -> tuple[dict[int, tuple[int, list[int]]], int]:
    """Return where each brace is closed, with the commas that belong to it, and how many are within each other."""
    found: dict[int, tuple[int, list[int]]] = {}
    opened: list[tuple[int, list[int]]] = []
    heights = [0]  # Of what is closed within each brace that is open, the whole pattern first.
    for match in re.finditer(r"[{},]", pattern):
        place, sign = match.start(), match[0]
        if sign == "{":
            opened.append((place, []))
            heights.append(0)
        elif opened and sign == ",":
            opened[-1][1].append(place)
        elif opened:
            begin, commas = opened.pop()
            found[begin] = place, commas
            height = heights.pop() + 1
            heights[-1] = max(heights[-1], height)
    return found, max(heights)


def _read(pattern: str, begin: int, end: int, braces: dict[int, tuple[int, list[int]]]) -> list[_Part]:
    """Return the parts of a pattern from a place to another."""
    parts: list[_Part] = []
    done = place = begin
    while (place := pattern.find("{", place, end)) >= 0:
        closed, commas = braces.get(place, (-1, []))
        part: _Part | None = None
        if commas:
            cuts = [place, *commas, closed]
            part = _List([_read(pattern, first + 1, last, braces) for first, last in itertools.pairwise(cuts)])
        elif closed >= 0:
            part = _range(pattern[place + 1 : closed])
        if part is None:  # It is part of the name, but not what is within it.
            place += 1
            continue
        parts += [pattern[done:place], part]
        done = place = closed + 1
    parts.append(pattern[done:end])
    return parts


def _range(inside: str) -> _Range | None:
    """Return what a range stands for; None if this is none."""
    if match := _NUMBERS.fullmatch(inside):
        # As many digits as the longer of the two has, if one begins with a zero.
        padded = any(re.match(r"-?0\d", text) for text in match.group(1, 2))
        width = max(map(len, match.group(1, 2))) if padded else 0
        return _Range(_steps(int(match[1]), int(match[2]), match[3]), width)
    if match := _LETTERS.fullmatch(inside):
        return _Range(_steps(ord(match[1]), ord(match[2]), match[3]), None)
    return None


def _steps(begin: int, end: int, step: str | None) -> range:
    by = abs(int(step or 1)) or 1
    return range(begin, end + 1, by) if begin <= end else range(begin, end - 1, -by)

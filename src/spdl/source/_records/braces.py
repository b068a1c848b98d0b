"""Patterns of names with braces, as shells write them out."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from spdl._check import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["expand_braces"]

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_LETTERS = re.compile(r"([a-zA-Z])\.\.([a-zA-Z])(?:\.\.(-?\d+))?")
_MOST = 1_000_000


def expand_braces(argument: str, pattern: str) -> list[str]:
    """Return the names that a pattern stands for, in its order.

    ``{0000..0099}`` counts, with as many digits as are written; ``{0..9..3}`` in steps; ``{a,b}`` lists. Braces may be
    within braces. Those around neither a list nor a range are part of the name, as in a shell.

    Args:
        argument: The name of the argument, for messages.
        pattern: The pattern.

    Raises:
        ValueError: If it stands for more than a million names.
    """
    if "{" not in pattern:
        return [pattern]
    names = list(itertools.islice(_expand(pattern), _MOST + 1))
    if len(names) > _MOST:
        refuse(ValueError, argument, f"a pattern of at most {_MOST} names", pattern)
    return names


def _expand(pattern: str) -> Iterator[str]:
    for match in re.finditer(r"\{", pattern):
        opened = match.start()
        closed, commas = _find_end(pattern, opened)
        if closed < 0:
            continue
        inside = pattern[opened + 1 : closed]
        options: Iterator[str]
        if commas:
            cuts = [opened, *commas, closed]
            parts = (pattern[begin + 1 : end] for begin, end in itertools.pairwise(cuts))
            options = itertools.chain.from_iterable(_expand(part) for part in parts)
        elif (counted := _count(inside)) is not None:
            options = counted
        else:
            continue
        head, tail = pattern[:opened], pattern[closed + 1 :]
        return (head + option + rest for option in options for rest in _expand(tail))
    return iter((pattern,))


def _find_end(pattern: str, opened: int) -> tuple[int, list[int]]:
    """Return where the brace is closed, or -1, and where the commas are that belong to it."""
    depth, commas = 0, []
    for place in range(opened, len(pattern)):
        sign = pattern[place]
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 1:
            commas.append(place)
        if not depth:
            return place, commas
    return -1, []


def _count(inside: str) -> Iterator[str] | None:
    """Return what a range stands for; None if this is none."""
    if match := _NUMBERS.fullmatch(inside):
        begin, end = int(match[1]), int(match[2])
        # As many digits as the longer of the two has, if one begins with a zero.
        padded = any(re.match(r"-?0\d", text) for text in match.group(1, 2))
        width = max(map(len, match.group(1, 2))) if padded else 0
        return (f"{number:0{width}}" for number in _steps(begin, end, match[3]))
    if match := _LETTERS.fullmatch(inside):
        return (chr(number) for number in _steps(ord(match[1]), ord(match[2]), match[3]))
    return None


def _steps(begin: int, end: int, step: str | None) -> range:
    by = abs(int(step or 1)) or 1
    return range(begin, end + 1, by) if begin <= end else range(begin, end - 1, -by)

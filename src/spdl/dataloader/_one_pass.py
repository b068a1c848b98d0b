"""Errors for sources that can be iterated only once, before an epoch turns out empty."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NoReturn

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["is_own_iterator", "refuse_second_pass"]


def is_own_iterator(source: object) -> bool:
    """Return whether a source is its own iterator, as generators are."""
    return isinstance(source, Iterator | AsyncIterator)


def refuse_second_pass(owner: str, argument: str, source: object) -> NoReturn:
    """Raise the RuntimeError for a source that is its own iterator and was iterated before."""
    raise RuntimeError(
        f"This {owner}'s `{argument}`, of type {type(source).__name__}, is its own iterator and was iterated before: "
        "the rest of it would be a silently shortened or empty epoch. Pass one that starts anew, such as a list or an "
        f" object whose `__iter__` is a generator function, or make a new {owner}."
    )

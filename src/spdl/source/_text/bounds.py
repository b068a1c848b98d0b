"""The bounds of the documents in a flat array of tokens, from an index that is not trusted."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from spdl.io import FormatError

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Lengths: TypeAlias = "np.ndarray[Any, np.dtype[np.int32 | np.int64]]"
"""Numbers of tokens, of 32 bits if these suffice."""

_LARGEST = 2**31 - 1

_PIECE = 1 << 13
"""The documents that are looked at together: their numbers stay in the cache, and in memory that is used again."""


class Bounds(abc.ABC):
    """The bounds of documents in an array, in tokens. `check` comes before all else."""

    def __init__(self, count: int) -> None:
        self.count = count

    @abc.abstractmethod
    def check(self, size: int) -> int:
        """Check all of the index of an array of `size` tokens, in pieces. Return what `trust` takes instead of a check.

        FormatError if a document is not within the array, ends before it begins, or begins before the last ends.
        """

    def trust(self, checked: int) -> None:  # noqa: B027 - most find out nothing.
        """Take over what a check of the same index has returned."""

    @abc.abstractmethod
    def spans(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the first token of some documents, and how many tokens each has."""

    def starts(self, numbers: Integers) -> Integers:
        return self.spans(numbers)[0]

    @abc.abstractmethod
    def span(self, number: int) -> tuple[int, int]:
        """Return the same for one document, in a tenth of the time that an array with one number takes."""

    def lengths(self) -> Lengths:
        """Return how many tokens each document has, as an array that may be the index's own."""
        found: Lengths = np.empty(self.count, np.int32)
        for first, last in pieces(self.count):
            lengths = self._lengths(first, last)
            if found.dtype == np.int32 and lengths.max() > _LARGEST:
                found = found.astype(np.int64)
            found[first:last] = lengths
        return found

    def _lengths(self, first: int, last: int) -> Integers:
        return self.spans(np.arange(first, last))[1]


class Edges(Bounds):
    """Documents that follow each other without gaps.

    The edges are where each begins and where the last ends, in units, of which a token has `unit`.
    """

    def __init__(self, edges: Numbers, unit: int = 1) -> None:
        super().__init__(self._count(edges))
        self._edges = edges
        self._unit = unit

    def check(self, size: int) -> int:
        following = 0
        for first, last in pieces(self.count):
            edges = self._between(first, last)
            if self._unit > 1 and (edges % self._unit).any():
                raise FormatError(f"a document does not begin at a token: each has {self._unit} bytes")
            if edges[0] != following:
                raise FormatError(
                    f"document {first} begins at token {edges[0]}, and the one before ends at {following}"
                )
            wrong = np.flatnonzero(edges[1:] < edges[:-1])
            if wrong.size:
                number = int(wrong[0])
                begin, end = (edges[number : number + 2] // self._unit).tolist()
                raise FormatError(f"document {first + number} begins at token {begin} and ends at token {end}")
            following = int(edges[-1])
        if following != size * self._unit:
            raise FormatError(f"its documents have {following // self._unit} tokens, and there are {size}")
        return 0

    def spans(self, numbers: Integers) -> tuple[Integers, Integers]:
        starts = self._at(numbers)
        lengths = self._at(numbers + 1)
        lengths -= starts
        if self._unit > 1:
            starts //= self._unit
            lengths //= self._unit
        return starts, lengths

    def starts(self, numbers: Integers) -> Integers:
        starts = self._at(numbers)
        return starts // self._unit if self._unit > 1 else starts

    def _lengths(self, first: int, last: int) -> Integers:
        edges = self._between(first, last)
        lengths = edges[1:] - edges[:-1]
        return lengths // self._unit if self._unit > 1 else lengths

    def span(self, number: int) -> tuple[int, int]:
        start = self._edge(number)
        return start // self._unit, (self._edge(number + 1) - start) // self._unit

    def _count(self, edges: Numbers) -> int:
        return len(edges) - 1

    def _edge(self, number: int) -> int:
        return int(self._edges[number])

    def _at(self, numbers: Integers) -> Integers:
        """As a new array."""
        return self._edges[numbers].astype(np.int64)

    def _between(self, first: int, last: int) -> Integers:
        """Both included."""
        return self._edges[first : last + 1].astype(np.int64)


class Ends(Edges):
    """Documents that follow each other, from an index that has only their ends, in tokens."""

    def _count(self, edges: Numbers) -> int:
        return len(edges)

    def _edge(self, number: int) -> int:
        return int(self._edges[number - 1]) if number else 0

    def _at(self, numbers: Integers) -> Integers:
        edges = self._edges.take(numbers - 1, mode="clip").astype(np.int64)
        edges[numbers == 0] = 0
        return edges

    def _between(self, first: int, last: int) -> Integers:
        edges = np.zeros(last + 1 - first, np.int64)
        edges[first == 0 :] = self._edges[max(first - 1, 0) : last]
        return edges


class Spans(Bounds):
    """Documents with other tokens between them, perhaps."""

    def __init__(self, starts: Numbers, stops: Numbers) -> None:
        super().__init__(len(starts))
        self._starts = starts
        self._stops = stops

    def check(self, size: int) -> int:
        following = 0
        for first, last in pieces(self.count):
            starts, stops = self._starts[first:last], self._stops[first:last]
            before = np.concatenate([[following], stops[:-1]])
            wrong = np.flatnonzero((starts < before) | (stops < starts) | (stops > size))
            if wrong.size:
                number = int(wrong[0])
                raise FormatError(
                    f"document {first + number} lies from token {starts[number]} to {stops[number]}, and may lie from "
                    f"{before[number]}, where the one before ends, to {size}"
                )
            following = int(stops[-1])
        return 0

    def spans(self, numbers: Integers) -> tuple[Integers, Integers]:
        starts = self._starts[numbers]
        return starts, self._stops[numbers] - starts

    def span(self, number: int) -> tuple[int, int]:
        start = int(self._starts[number])
        return start, int(self._stops[number]) - start


def narrowed(lengths: Lengths) -> Lengths:
    fits = lengths.dtype == np.int32 or not lengths.size or int(lengths.max()) <= _LARGEST
    return lengths.astype(np.int32, copy=False) if fits else lengths


def pieces(count: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + _PIECE, count)) for first in range(0, count, _PIECE))

"""The base of sources of records: access by position, singly, in batches and in order."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from spdl._check import check_int, refuse
from spdl.source._records.defects import find_defects, is_defect
from spdl.source._records.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Records"]

Record = TypeVar("Record")

_WINDOW = 64


class Records(Sequence[Record]):
    """A sequence of records that are read when they are asked for; the base of the package's own.

    Any number of threads may read. A pipeline and the loaders go on in its middle at once.
    """

    @abc.abstractmethod
    def _read(self, positions: list[int]) -> list[Record]:
        """Return the records at some positions, each from 0 to ``len(self) - 1``, in the order of the positions."""

    def _read_apart(self, positions: list[int]) -> list[Any]:
        """Return the records at some positions as `_read` does, with a `Defect` for each that cannot be had."""
        return find_defects(self._read, [self._check(position) for position in positions], _is_content)

    def _name(self, position: int) -> str | None:  # noqa: ARG002 - for those that have files.
        """Return how messages call a record: where it lies. None if nobody can say."""
        return None

    @property
    @abc.abstractmethod
    def block_sizes(self) -> list[int]:
        """A new list of how many records lie together, in the order of the records: those of each file, say.

        `BlockShuffledOrder` takes it as ``block``, so that an epoch in random order reads few files at a time.
        """

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a short text that says which records in which order these are, wherever they are stored."""

    @overload
    def __getitem__(self, position: int) -> Record: ...
    @overload
    def __getitem__(self, position: slice) -> list[Record]: ...
    def __getitem__(self, position: int | slice) -> Record | list[Record]:
        if isinstance(position, slice):
            return self._read(list(range(*position.indices(len(self)))))
        return self._read([self._check(position)])[0]

    def __getitems__(self, positions: Iterable[int]) -> list[Record]:
        """Return the records at some positions. All are read at once, so this is the way to read a batch.

        Args:
            positions: In any order. Negative ones count from the end.

        Raises:
            IndexError: If there is no such record.
            OSError: If they cannot be read.
        """
        return self._read([self._check(position) for position in positions])

    def __iter__(self) -> Iterator[Record]:
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[Record]:
        """Return an iterator over the records from a position on, which begins there at once.

        Args:
            position: From 0 to the number of records.

        Raises:
            TypeError, ValueError: If it is no int in that range.
            Exception: What reading a record raises. The iterator yields those before it first, and ends there.
        """
        begin = check_int("position", position, least=0, most=len(self))
        return read_ahead(self._read_window, self._windows(begin), self._ahead())

    def _read_window(self, positions: list[int]) -> Iterable[Record]:
        # A window is how we read, not what was asked for: a bad record raises in its place, after the good ones.
        try:
            return self._read(positions)
        except Exception:
            if len(positions) == 1:
                raise
            return (record for position in positions for record in self._read([position]))

    def _windows(self, begin: int) -> Iterator[list[int]]:
        """Yield the positions from one on, in the pieces that an iterator reads."""
        size = len(self)
        return (list(range(first, min(first + _WINDOW, size))) for first in range(begin, size, _WINDOW))

    def _ahead(self) -> int:
        """Return how many pieces an iterator reads in advance."""
        return 0

    def _check(self, position: Any) -> int:
        if isinstance(position, bool) or not hasattr(position, "__index__"):
            refuse(TypeError, "position", "an int or a slice", position)
        number: int = position.__index__()
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"{self!r} has no position {position}")
        return number


def _is_content(error: Exception) -> bool:
    """Return whether an error tells of a record. What reads nothing but storage has no OSError of another kind."""
    return is_defect(error) and (isinstance(error, FileNotFoundError) or not isinstance(error, OSError))

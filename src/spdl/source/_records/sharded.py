"""The base of sources whose records lie in several files."""

from __future__ import annotations

import copy
import hashlib
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from spdl.io import FormatError
from spdl.io._common.format_error import name_path
from spdl.source._records.left_out import REMEDY, is_broken, leave_out
from spdl.source._records.place import missing
from spdl.source._records.read_ahead import read_together
from spdl.source._records.records import Records
from spdl.source._samplers.part import find_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction
    from typing import Self

    from spdl.source._records.left_out import ShardFailure
    from spdl.source._records.place import Place

__all__ = ["Shard", "ShardedRecords"]

Record = TypeVar("Record")
AnyShard = TypeVar("AnyShard", bound="Shard[Any]")

_AHEAD = 4
_WINDOW = 64


class Shard(Protocol[Record]):
    """A file of records. Several threads use it at once."""

    @property
    def place(self) -> Place:
        """Where it lies."""

    def __len__(self) -> int: ...

    def read(self, numbers: list[int]) -> list[Record]:
        """Return some of its records, by their numbers in this file."""


class ShardedRecords(Records[Record], Generic[Record, AnyShard]):
    """The records of several files, one after the other.

    Args:
        shards: The files.
        max_failures: How many of them may be damaged or missing, or which share. These are left out. None if users have
            no such choice.
    """

    _called = "files"

    def __init__(self, shards: Sequence[AnyShard], max_failures: int | Fraction | None = None) -> None:
        self._shards = list(shards)
        self._left_out: list[ShardFailure] = []
        # Without the only file there is no other.
        limit = None if max_failures == 0 and len(self._shards) == 1 else max_failures
        # Each may have to be looked at, and another machine answers late.
        try:
            found = read_together([partial(_size_of, shard, limit=limit) for shard in self._shards])
        except FileNotFoundError as error:
            lost = missing(self._called, [shard.place for shard in self._shards])
            if lost is None:
                raise
            raise lost from error
        if max_failures:
            pairs = list(zip(self._shards, found, strict=True))
            failed = [(shard.place.path, size) for shard, size in pairs if not isinstance(size, int)]
            self._left_out = leave_out(self._called, failed, len(pairs), max_failures)
            self._shards = [shard for shard, size in pairs if isinstance(size, int)]
        sizes = [size for size in found if isinstance(size, int)]
        self._starts = list(accumulate(sizes, initial=0))

    @property
    def block_sizes(self) -> list[int]:
        """A new list of how many records each file has, without those that have none.

        `BlockShuffledOrder` takes it as ``block``, so that an epoch in random order reads few files at a time.
        """
        return [size for size in self._sizes() if size]

    def fingerprint(self) -> str:
        """Return a short text that says which records in which order these are, wherever the files are.

        It is made of the files' names and how many records each has.
        """
        hasher = hashlib.sha256()
        for shard, size in zip(self._shards, self._sizes(), strict=True):
            hasher.update(f"{shard.place.name}\n{size}\n".encode("utf-8", "surrogateescape"))
        return f"{type(self).__name__}:{len(self)}:{hasher.hexdigest()[:16]}"

    def split(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        worker: int | None = None,
        num_workers: int | None = None,
    ) -> Self:
        """Return the records of every n-th file: those that one worker of one rank reads.

        No file is read by two of them, so they need not have the same number of records. If all ranks have to take
        equally many steps, leave the files together and share their records by an `EpochSampler`.

        Args:
            rank: The number of this process; with `world_size`, None asks ``torch.distributed``, then the environment.
            world_size: How many processes share the files.
            worker: The number of this worker; with `num_workers`, None asks PyTorch's ``DataLoader`` if this is one of
                its workers, else is the only one. These cannot send views, which records of mapped files have: make
                ``bytes`` of them there.
            num_workers: How many workers each process has.

        Raises:
            TypeError: If a number is no int.
            ValueError: If numbers do not fit each other, or if this one gets no record: there are too few files.
        """
        part, parts = find_part(rank, world_size, worker, num_workers)
        # With what a subclass has besides the files.
        chosen = copy.copy(self)
        ShardedRecords.__init__(chosen, self._shards[part::parts])
        chosen._left_out = self._left_out  # noqa: SLF001 - a copy of this one.
        if not len(chosen):
            raise ValueError(
                f"Worker {part} of {parts} of all ranks gets no record of the {len(self._shards)} {self._called}, "
                "each of which goes to one worker. Take fewer ranks or workers, write more files, or share the records "
                "by an EpochSampler."
            )
        return chosen

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self)} records in {len(self._shards)} {self._called}"

    def _read(self, positions: list[int]) -> list[Record]:
        # For each file the places in the result, and the numbers of the records.
        wanted: dict[int, tuple[list[int], list[int]]] = {}
        for place, position in enumerate(positions):
            shard, number = self._locate(position)
            places, numbers = wanted.setdefault(shard, ([], []))
            places.append(place)
            numbers.append(number)
        calls = [partial(_read, self._shards[shard], numbers) for shard, (_, numbers) in wanted.items()]
        # What is mapped takes no time worth a thread.
        stored = any(self._shards[shard].place.store is not None for shard in wanted)
        results = read_together(calls) if stored else [call() for call in calls]
        if len(results) == 1:
            return results[0]
        placed = {
            place: record
            for (places, _), found in zip(wanted.values(), results, strict=True)
            for place, record in zip(places, found, strict=True)
        }
        return [placed[place] for place in range(len(positions))]

    def _name(self, position: int) -> str | None:
        shard, number = self._find(position)
        return f"{shard.place.path}, record {number}"

    def _windows(self, begin: int) -> Iterator[list[int]]:
        while begin < len(self):
            end = min(begin + _WINDOW, self._starts[self._locate(begin)[0] + 1])
            yield list(range(begin, end))
            begin = end

    def _ahead(self) -> int:
        return _AHEAD if any(shard.place.store is not None for shard in self._shards) else 0

    def _find(self, position: int) -> tuple[AnyShard, int]:
        """Return the file that a record lies in, and the record's number there."""
        shard, number = self._locate(position)
        return self._shards[shard], number

    def _locate(self, position: int) -> tuple[int, int]:
        shard = bisect_right(self._starts, position) - 1
        return shard, position - self._starts[shard]

    def _sizes(self) -> list[int]:
        return [end - start for start, end in zip(self._starts, self._starts[1:], strict=False)]


def _size_of(shard: Shard[Any], *, limit: int | Fraction | None) -> int | Exception:
    """Return how many records a file has, or why it cannot be read if it may be left out."""
    try:
        return len(shard)
    except Exception as error:
        if isinstance(error, FormatError):
            name_path(error, shard.place.path)
        if limit and is_broken(error):
            return error
        if limit == 0 and is_broken(error):
            error.add_note(REMEDY)
        raise


def _read(shard: Shard[Record], numbers: list[int]) -> list[Record]:
    try:
        return shard.read(numbers)
    except FormatError as error:
        name_path(error, shard.place.path)
        raise

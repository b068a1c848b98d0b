"""The base of sources whose records lie in several files, which are mapped or read in ranges."""

from __future__ import annotations

import abc
import copy
import hashlib
import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from spdl._check import is_fraction
from spdl._processes import RenewedLock
from spdl.io import FormatError
from spdl.io._shared import OneVersion, map_regular, name_path
from spdl.source._place import Place, missing
from spdl.source._prefetch import read_together
from spdl.source._record_source import Defect, Records, is_defect
from spdl.source._samplers.distributed import find_part

if TYPE_CHECKING:
    from spdl.store import Entry


class Contents(Protocol):
    """A file whose parts can be read, by several threads at once."""

    @property
    def entry(self) -> Entry | None:
        """The version of an object in a store, if that is known yet."""

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        """Return parts of it as read-only views, in the order they were asked for."""


class MappedContents:
    # A mapping stays unchanged, also if another file takes the file's place.
    entry = None

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = map_regular(path)

    def whole(self) -> memoryview:
        return memoryview(self._file)

    def read(self, starts: list[int], lengths: list[int]) -> list[memoryview]:
        # A new view each time: without the GIL, Python 3.13 miscounts the slices of a memoryview that threads share.
        view = memoryview(self._file)
        size = len(view)
        parts = []
        for start, length in zip(starts, lengths, strict=True):
            if start + length > size:
                raise FormatError(
                    f"{self._path!r} has {size} bytes, but by its index a record goes up to byte {start + length}"
                )
            parts.append(view[start : start + length])
        return parts


def open_contents(place: Place, entry: Entry | None = None) -> Contents:
    """Open the file at a place; from a store in a version, or else in the one that is read first."""
    return MappedContents(place.path) if place.store is None else OneVersion(place.store, place.path, entry)


def kept_name(what: str, place: Place, entry: Entry) -> str | None:
    """Return a cache's key for what it keeps of a version of a file; None without an etag to tell versions apart."""
    if place.store is None:
        where = os.path.abspath(place.path)  # noqa: PTH100
    else:
        from spdl.store._store import identity_of  # noqa: PLC0415 - only for those who have a store.

        where = f"{identity_of(place.store)}\n{place.path}"
    return None if entry.etag is None else f"{what}\n{where}\n{entry.size}\n{entry.etag}"


Found = TypeVar("Found")


class LazyShard(abc.ABC, Generic[Found]):
    """A file that is opened when it is first asked for something. Copies in other processes open it again."""

    def __init__(self, place: Place) -> None:
        self.place = place
        # Which version is read, if it is in a store: copies read the same.
        self._entry: Entry | None = None
        self._opened: Found | None = None
        self._lock = RenewedLock()

    @abc.abstractmethod
    def _load(self) -> Found:
        """Open the file: in the version `_entry`, or any, which is then noted there."""

    def _open(self) -> Found:
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._load()
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


_REMEDY = "To leave out archives that are damaged or missing, say how many at most: max_failures=1."
_SHOWN = 5
_LOGGED = 10

_LOG = logging.getLogger("spdl.source")


class ShardFailure(NamedTuple):
    """An archive that was left out of a source, since it is damaged, cut short or missing.

    Example:
        >>> ShardFailure(path="train-0007.tar", reason="FormatError: 'train-0007.tar' is truncated").path
        'train-0007.tar'
    """

    path: str
    """Its path; in a store, its path there."""
    reason: str
    """What is wrong with it."""


def _is_broken(error: Exception) -> bool:
    """Return whether an error is about one file that is damaged or missing, and not about the storage."""
    return is_defect(error) and isinstance(error, FormatError | FileNotFoundError)


def _leave_out(
    called: str, failed: Sequence[tuple[str, Exception]], count: int, limit: int | Fraction
) -> list[ShardFailure]:
    """Return the record of files that are left out, and log it. FormatError if there are more than may be, or no other.

    A negative limit is none. Messages call the files `called`.
    """
    failures = [ShardFailure(path, Defect.of(error).reason) for path, error in failed]
    share = is_fraction(limit)
    most = limit * count if share else count if limit < 0 else limit
    if len(failures) > most or len(failures) == count:
        allowed = f"`max_failures` allows {limit}{' of them' if share else ''}"
        why = "none is left" if len(failures) == count else allowed
        shown = [f"{each.path}: {each.reason}" for each in failures[:_SHOWN]]
        if len(failures) > _SHOWN:
            shown.append(f"and {len(failures) - _SHOWN} more")
        message = f"{len(failures)} of {count} {called} cannot be read, and {why}: {'; '.join(shown)}"
        raise FormatError(message, path=failures[0].path) from failed[0][1]
    for each in failures[:_LOGGED]:
        _LOG.warning("%s cannot be read, and is left out: %s", each.path, each.reason)
    if failures:
        _LOG.warning("%d of %d %s are left out of the source", len(failures), count, called)
    return failures


def grouped(located: Iterable[tuple[int, int]]) -> dict[int, tuple[list[int], list[int]]]:
    """Return for each group what lies in it of some items: their places among these, and their numbers in it."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for place, (group, number) in enumerate(located):
        places, numbers = found.setdefault(group, ([], []))
        places.append(place)
        numbers.append(number)
    return found


Record = TypeVar("Record")
Result = TypeVar("Result")
AnyShard = TypeVar("AnyShard", bound="Shard[Any]")

_AHEAD = 4
_WINDOW = 64


class Shard(Protocol[Record]):
    """A file of records. Several threads use it at once."""

    @property
    def place(self) -> Place: ...

    def __len__(self) -> int: ...

    def read(self, numbers: list[int]) -> list[Record]:
        """Return some of its records, by their numbers in this file."""


class ShardedRecords(Records[Record], Generic[Record, AnyShard]):
    """The records of several files, one after the other.

    `max_failures` is how many of them may be damaged or missing, or which share: these are left out. None if users have
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
            self._left_out = _leave_out(self._called, failed, len(pairs), max_failures)
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
            TypeError: If a number is not an int.
            ValueError: If numbers do not fit each other, or if this one gets no record: there are too few files.
        """
        part, parts = find_part(rank, world_size, worker, num_workers)
        # With a subclass's other attributes.
        chosen = copy.copy(self)
        ShardedRecords.__init__(chosen, self._shards[part::parts])
        chosen._left_out = self._left_out  # noqa: SLF001 - a copy of this one.
        if not len(chosen):
            raise ValueError(
                f"Worker {part} of {parts} of all ranks gets no record of the {len(self._shards)} {self._called}: each "
                "of these goes to one worker. Use fewer ranks or workers, write more files, or share the records with "
                "an EpochSampler."
            )
        return chosen

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self)} records in {len(self._shards)} {self._called}"

    def _read(self, positions: list[int]) -> list[Record]:
        wanted = grouped(map(self._locate, positions))
        calls = [
            partial(read_named, self._shards[shard].place, partial(self._shards[shard].read, numbers))
            for shard, (_, numbers) in wanted.items()
        ]
        # Reading mapped files takes no time worth a thread.
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
        if limit and _is_broken(error):
            return error
        if limit == 0 and _is_broken(error):
            error.add_note(_REMEDY)
        raise


@contextmanager
def naming_place(place: Place, part: str = "") -> Iterator[None]:
    """Put a file's name and the part of it that is read in front of a FormatError, unless it names the file."""
    try:
        yield
    except FormatError as error:
        if str(place) in str(error):
            raise
        raise FormatError(f"{place}{part}: {error}", path=place.path) from error


def read_named(place: Place, read: Callable[[], Result]) -> Result:
    """Return what a call returns; a FormatError then has the path of the file as an attribute."""
    try:
        return read()
    except FormatError as error:
        name_path(error, place.path)
        raise

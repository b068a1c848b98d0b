"""The base of sources of records: access by position, singly, in batches and in order."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

from spdl._check import check_instance, check_int, escaped, refuse, show, shown_urls
from spdl.io._shared import ChangedError
from spdl.source._prefetch import read_ahead

# Errors of the program or the machine, and errors that records not read yet would raise, too.
_OF_ALL = (MemoryError, ImportError, NameError, ChangedError)


class Defect(NamedTuple):
    """A record that cannot be read, in its place."""

    reason: str
    """The exception for it, as text: the exception would keep the frames that have the other records."""

    @classmethod
    def of(cls, error: Exception) -> Defect:
        # It may be foreign text, with line ends, or with the address that could not be reached.
        text = escaped(shown_urls(str(error)))
        return cls(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def is_defect(error: Exception) -> bool:
    """Return whether an exception is about the record that was asked for, and not about the storage or the program.

    A file that is missing is a defect of what names it. Any other OSError of the system or of a store may be gone the
    next time. Without a number it comes from a library that cannot read some content, such as Pillow.
    """
    if isinstance(error, FileNotFoundError):
        return True
    if isinstance(error, OSError):
        from spdl.store import StoreError  # noqa: PLC0415 - only for those whose storage fails.

        return error.errno is None and not isinstance(error, StoreError | ConnectionError | TimeoutError)
    return not isinstance(error, _OF_ALL)


def find_defects(
    read: Callable[[list[int]], Sequence[Any]], positions: list[int], accepts: Callable[[Exception], bool] = is_defect
) -> list[Any]:
    """Return the records at some positions, with a `Defect` for each that cannot be had.

    If reading all of them fails, each half is read by itself, so few bad records take few reads. An exception is raised
    if it is not about a record, which `accepts` says, or if no record raises it by itself.
    """
    try:
        return list(read(positions))
    except Exception as error:
        if not accepts(error):
            raise
        if len(positions) == 1:
            return [Defect.of(error)]
        middle = len(positions) // 2
        found = [
            each for half in (positions[:middle], positions[middle:]) for each in find_defects(read, half, accepts)
        ]
        if not any(isinstance(each, Defect) for each in found):
            raise
        return found


Record = TypeVar("Record")


class Records(Sequence[Record]):
    """A sequence of records that are read when they are asked for; the base of the package's own.

    Any number of threads may read. A pipeline and the loaders continue in its middle at once.
    """

    _window: ClassVar[int] = 64
    """How many records an iterator reads at once."""

    @abc.abstractmethod
    def _read(self, positions: list[int]) -> list[Record]:
        """Return the records at some positions, each from 0 to ``len(self) - 1``, in the order of the positions."""

    def _read_apart(self, positions: list[int]) -> list[Any]:
        """As `_read`, with a `Defect` for each record that cannot be had."""
        return find_defects(self._read, [self._check(position) for position in positions], _is_content)

    def _name(self, position: int) -> str | None:  # noqa: ARG002 - for those that have files.
        """Return a record's place as messages name it. None if that is unknown."""
        return None

    @property
    @abc.abstractmethod
    def block_sizes(self) -> list[int]:
        """A new list of how many records lie together, in the order of the records: the number in each file, say.

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
            TypeError, ValueError: If it is not an int in that range.
            Exception: The errors of reading a record. The iterator yields those before it first, and ends there.
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
        size, length = len(self), self._window
        return (list(range(first, min(first + length, size))) for first in range(begin, size, length))

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
    """Return whether an error is about a record. Code that only reads storage raises no other OSError."""
    return is_defect(error) and (isinstance(error, FileNotFoundError) or not isinstance(error, OSError))


def read_apart(source: Sequence[Any], positions: list[int]) -> list[Any]:
    """Return the samples at some positions of any sequence, with a `Defect` for each that cannot be had."""
    read_all = getattr(type(source), "__getitems__", None)
    # A user's class may read differently.
    if isinstance(source, Records) and read_all is Records.__getitems__:
        return source._read_apart(positions)  # noqa: SLF001 - as all here, on behalf of the source.

    def accepts(error: Exception) -> bool:
        # An order that goes beyond the source is not a defect of a sample.
        return is_defect(error) and max(positions) < len(source)

    if callable(read_all):
        return find_defects(lambda some: read_all(source, some), positions, accepts)
    return [each for position in positions for each in find_defects(lambda one: [source[one[0]]], [position], accepts)]


def name_of(source: Sequence[Any], position: int) -> str | None:
    return source._name(position) if isinstance(source, Records) else None  # noqa: SLF001


Result = TypeVar("Result")


def apart(function: Callable[[Any], Result], record: Any) -> Result | Defect:
    """Return what a function makes of a record, or the `Defect` that either of them is."""
    if isinstance(record, Defect):
        return record
    try:
        return function(record)
    except Exception as error:
        if not is_defect(error):
            raise
        return Defect.of(error)


class MappedRecords(Records[Result]):
    """The records of a source, each as a function returns it: with the fields that a loader looks for, say.

    `ImageLoader` and its relatives look for a field ``image`` and make arrays of the others. In a tar archive the parts
    are named by the endings of files, and are bytes. Everything else is as in the source: reading of whole batches and
    in advance, blocks and fingerprint. So a state remains valid if only the function changes.

    Args:
        source: A source of records of this package, such as `TarShards`.
        function: Called with a record, by any number of threads at once. Its exceptions pass, with a note that names
            the record, and its file if there is one. The ready-made loaders leave such a record out, or put another in
            its place, if their ``on_error`` says so; also one for which it returns None.

    Raises:
        TypeError: If the source is another, or the function cannot be called.

    Example:
        >>> import io, tarfile, tempfile
        >>> from pathlib import Path
        >>> from spdl.source import MappedRecords, TarShards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tarfile.open(Path(folder, "train.tar"), "w") as archive:
        ...         for name, content in (("1.jpg", b"..."), ("1.cls", b"7")):
        ...             member = tarfile.TarInfo(name)
        ...             member.size = len(content)
        ...             archive.addfile(member, io.BytesIO(content))
        ...     samples = TarShards(Path(folder, "train.tar"))
        ...     pairs = MappedRecords(samples, lambda parts: {"image": parts["jpg"], "label": int(bytes(parts["cls"]))})
        ...     pair = pairs[0]
        >>> bytes(pair["image"]), pair["label"]
        (b'...', 7)
    """

    def __init__(self, source: Records[Record], function: Callable[[Record], Result]) -> None:
        check_instance("source", source, Records, "a source of records of this package, such as TarShards")
        if not callable(function):
            refuse(TypeError, "function", "a function of a record", function)
        self._source: Records[Any] = source
        self._function = function

    @property
    def block_sizes(self) -> list[int]:
        """A new list of how many records lie together in the source."""
        return self._source.block_sizes

    def fingerprint(self) -> str:
        """Return the fingerprint of the source."""
        return self._source.fingerprint()

    def iterate_from(self, position: int) -> Iterator[Result]:
        records = self._source.iterate_from(position)
        return (self._apply(number, record) for number, record in enumerate(records, position))

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        return f"MappedRecords of {self._source!r}"

    def _read(self, positions: list[int]) -> list[Result]:
        return [self._apply(*each) for each in zip(positions, self._source.__getitems__(positions), strict=True)]

    def _apply(self, position: int, record: Any) -> Result:
        try:
            return self._function(record)
        except Exception as error:
            which = f"record {position} of {self._source!r}{self._tell(position, record)}"
            error.add_note(f"spdl.source was mapping {which}")
            raise

    def _read_apart(self, positions: list[int]) -> list[Any]:
        # The source is read once, whichever records the function refuses.
        found = read_apart(self._source, positions)
        return [apart(partial(self._apply, position), each) for position, each in zip(positions, found, strict=True)]

    def _name(self, position: int) -> str | None:
        return name_of(self._source, position)

    def _tell(self, position: int, record: Any) -> str:
        name = self._name(position)
        fields = f" with the fields {show(list(record))}" if isinstance(record, Mapping) else ""
        return f": {name}{fields}" if name else ""

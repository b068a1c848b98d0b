"""The records of a source, each as a function returns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_instance, refuse, show
from spdl.source._records.defects import Defect, is_defect
from spdl.source._records.for_loaders import name_of, read_apart
from spdl.source._records.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["MappedRecords"]

Record = TypeVar("Record")
Result = TypeVar("Result")


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
        """Return that of the source."""
        return self._source.fingerprint()

    def iterate_from(self, position: int) -> Iterator[Result]:
        """Return an iterator over the records from a position on, which begins there at once.

        Args:
            position: From 0 to the number of records.

        Raises:
            TypeError, ValueError: If it is no int in that range.
        """
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
        return [self._apply_apart(*each) for each in zip(positions, found, strict=True)]

    def _apply_apart(self, position: int, record: Any) -> Any:
        if isinstance(record, Defect):
            return record
        try:
            return self._apply(position, record)
        except Exception as error:
            if not is_defect(error):
                raise
            return Defect.of(error)

    def _name(self, position: int) -> str | None:
        return name_of(self._source, position)

    def _tell(self, position: int, record: Any) -> str:
        name = self._name(position)
        fields = f" with the fields {show(list(record))}" if isinstance(record, Mapping) else ""
        return f": {name}{fields}" if name else ""

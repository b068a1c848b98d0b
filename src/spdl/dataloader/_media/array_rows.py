"""Samples that lie in the rows of large arrays."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from spdl._check import check_iterable, refuse
from spdl.dataloader._media.columns import shapes_of, to_array
from spdl.io import load_npz
from spdl.source import ArraySample
from spdl.source._labelled.fingerprint import fingerprint

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ArrayRow", "ArrayRows"]

Table: TypeAlias = str | os.PathLike[str] | bytes | Mapping[str, Any]

_ACCEPTED = "an npz file (a path or bytes), arrays by their names, or a list of these"


class ArrayRow(Mapping[str, Any]):
    """A row of some arrays: a view of each by its name.

    Args:
        arrays: The arrays, which have equally many rows.
        position: The number of the row.
    """

    __slots__ = ("arrays", "position")

    def __init__(self, arrays: Mapping[str, Any], position: int) -> None:
        self.arrays = arrays
        self.position = position

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name][self.position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"row {self.position} of {', '.join(self.arrays)}"


class _Part(NamedTuple):
    """One of the tables, and how messages call it."""

    name: str
    arrays: dict[str, np.ndarray[Any, Any]]


class ArrayRows(Sequence[ArraySample]):
    """The samples of npz files that hold many each, such as ``mnist.npz``: a sample is a row of every array.

    It is a sequence of `spdl.source.ArraySample` records, and a source of `ArrayLoader`, whose `data` and `label` say
    which array is which. A batch is gathered from the arrays by one operation for each. The arrays of an uncompressed
    file are views of the mapped file, of which only the rows that are asked for are read; those of a compressed one are
    inflated and kept in memory.

    Args:
        files: An npz file, as a path or as bytes; or arrays by their names, such as what ``numpy.load`` returns or
            ``{"image": spdl.io.load_npy("images.npy")}``; or a list of these, whose rows follow each other.
        names: The names of the arrays to take. None takes all, which must then have equally many rows.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no row, an array is missing or has no rows, the arrays of a file have not equally many,
            or files differ in names, dtypes or shapes of rows.
        FormatError: If a file is damaged or truncated.
        OSError: If one cannot be mapped.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader, ArrayRows
        >>> from spdl.io import save_npz
        >>> file = io.BytesIO()
        >>> save_npz(file, {"x": np.arange(12).reshape(3, 2, 2), "y": np.array([0, 1, 0])})
        >>> rows = ArrayRows(file.getvalue())
        >>> for data, labels in ArrayLoader(rows, 2, data="x", label="y", output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [0]
    """

    def __init__(self, files: Table | Iterable[Table], *, names: Iterable[str] | None = None) -> None:
        self._files: list[Any] = _to_list(files)
        self._names = _to_names(names)
        self._parts = self._load()
        # What else has arrays by their names, such as an open file, cannot be pickled.
        self._files = [
            part.arrays if isinstance(file, Mapping) else file
            for file, part in zip(self._files, self._parts, strict=True)
        ]
        sizes = (len(next(iter(part.arrays.values()))) for part in self._parts)
        self._starts = list(accumulate(sizes, initial=0))
        if not self._starts[-1]:
            refuse(ValueError, "files", "arrays with rows", files)

    def fingerprint(self) -> str:
        """Return a short text that says which rows of which arrays in which order these are, wherever the files are."""

        def describe(index: int) -> str:
            part, position = self._locate(index)
            return f"{os.path.basename(self._parts[part].name)}[{position}]"  # noqa: PTH119 - a name of any kind.

        return fingerprint("ArrayRows", len(self), describe, [str(shapes_of(self._parts[0].arrays))])

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> ArraySample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ArraySample]: ...
    def __getitem__(self, index: int | slice) -> ArraySample | list[ArraySample]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index if index >= 0 else index + len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} rows, got the index {index}")
        number, row = self._locate(position)
        part = self._parts[number]
        return ArraySample(ArrayRow(part.arrays, row), None, f"{part.name}[{row}]", position)

    def __getstate__(self) -> dict[str, Any]:
        # Files are mapped anew; arrays of the user's are copied once.
        return {**self.__dict__, "_parts": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = self._load()

    def __repr__(self) -> str:
        return f"ArrayRows: {len(self)} rows of {', '.join(self._parts[0].arrays)}"

    def _locate(self, position: int) -> tuple[int, int]:
        part = bisect_right(self._starts, position) - 1
        return part, position - self._starts[part]

    def _load(self) -> list[_Part]:
        parts = [_read(number, file, self._names) for number, file in enumerate(self._files)]
        first = parts[0]
        for part in parts[1:]:
            if shapes_of(part.arrays) != shapes_of(first.arrays):
                accepted = f"files whose rows are alike: those of {first.name} are {shapes_of(first.arrays)}"
                refuse(ValueError, "files", accepted, f"{part.name}: {shapes_of(part.arrays)}")
        return parts


def _to_list(files: Any) -> list[Any]:
    if isinstance(files, str | bytes | os.PathLike | Mapping):
        return [files]
    check_iterable("files", files, _ACCEPTED)
    found = list(files)
    if not found:
        refuse(ValueError, "files", "at least one file", files)
    for number, file in enumerate(found):
        if not isinstance(file, str | bytes | os.PathLike | Mapping):
            refuse(TypeError, f"files[{number}]", "an npz file (a path or bytes), or arrays by their names", file)
    return found


def _to_names(names: Any) -> list[str] | None:
    if names is None:
        return None
    accepted = "a list of names of arrays, or None"
    if isinstance(names, str | bytes):
        refuse(TypeError, "names", accepted, names)
    check_iterable("names", names, accepted)
    found = list(names)
    if not found or not all(isinstance(name, str) for name in found):
        refuse(ValueError if not found else TypeError, "names", accepted, names)
    return found


def _read(number: int, file: Any, names: list[str] | None) -> _Part:
    name = os.fsdecode(file) if isinstance(file, str | os.PathLike) else f"files[{number}]"
    given: Mapping[str, Any] = file if isinstance(file, Mapping) else load_npz(file)
    wanted = list(given) if names is None else names
    if missing := [each for each in wanted if each not in given]:
        refuse(ValueError, "names", f"names of arrays of {name}, such as {', '.join(map(repr, given))}", missing)
    arrays = {}
    for each in wanted:
        array = to_array(given[each])
        if array is None or not array.ndim or array.dtype.hasobject:
            refuse(ValueError, "files", "arrays with a row for each sample", f"{each!r} of {name}", _REMEDY)
        arrays[each] = array
    counts = {each: len(array) for each, array in arrays.items()}
    if len(set(counts.values())) > 1:
        refuse(ValueError, "files", "arrays with equally many rows", f"{counts} in {name}", _REMEDY)
    if not arrays:
        refuse(ValueError, "files", "files with arrays", name)
    return _Part(name, arrays)


_REMEDY = "`names` says which arrays to take."

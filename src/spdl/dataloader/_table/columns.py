"""The rule for each type of column, and columns of numbers side by side. A schema is accepted or refused unread."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spdl._check import refuse
from spdl.dataloader._loader.batches import Jagged
from spdl.io._shared import pack_columns

Nulls: TypeAlias = Literal["error", "mask"]

_LEAVE_OUT = "`columns` says which columns to read."


class Column(abc.ABC):
    """A column, and how its values become arrays. `fill` replaces nulls, unless it is None."""

    def __init__(self, name: str, fill: Any = None) -> None:
        self.name = name
        self.fill = fill

    @abc.abstractmethod
    def prepare(self, array: Any) -> Any:
        """Return a piece of the column in the kept form: all work that is needed only once per row is done."""

    @abc.abstractmethod
    def to_numpy(self, array: Any) -> Any:
        """Return rows as an array with its own memory, or as `Jagged`. Nulls become zeros or nothing."""

    def inner_nulls(self, array: Any) -> NDArray[np.int64]:  # noqa: ARG002 - for those that have elements.
        """Return the rows that have nulls in them without being null."""
        return np.empty(0, np.int64)


class Scalars(Column):
    """A number for each row."""

    dtype: np.dtype[Any]
    _null = 0
    """The number of a null, which its mask shows."""

    def view(self, array: Any) -> NDArray[Any]:
        return _view(array.fill_null(self._null) if array.null_count else array, self.dtype)

    def to_numpy(self, array: Any) -> NDArray[Any]:
        return _own(self.view(array))


class Numbers(Scalars):
    """Integers, floats and what has a number: bools, times, decimals."""

    def __init__(self, name: str, type_: Any, fill: Any = None) -> None:
        super().__init__(name, fill)
        self._kept, self.dtype = _number_type(type_)
        # NumPy would round a number, or let it overflow, in silence.
        if fill is not None:
            try:
                self._scalar = pa.scalar(bool(fill) if self.dtype == np.bool_ else fill).cast(self._kept)
            except (pa.ArrowException, TypeError, ValueError) as error:
                refuse(ValueError, f"fill_null[{name!r}]", f"a value of {type_}", fill, str(error))

    def prepare(self, array: Any) -> Any:
        found = _to_numbers(array, self._kept)
        return found if self.fill is None else found.fill_null(self._scalar)


class Codes(Scalars):
    """Text as its places in a dictionary."""

    dtype = np.dtype(np.int32)
    _null = -1

    def __init__(self, name: str, values: Any, fill: Any = None) -> None:
        super().__init__(name, fill)
        if fill is not None and (isinstance(fill, bool) or not isinstance(fill, int)):
            refuse(TypeError, f"fill_null[{name!r}]", "a code, such as -1", fill)
        # Before anything is read, the values are not known.
        if fill is not None and values is not None and not -1 <= fill <= len(values):
            accepted = f"-1, a code of the {len(values)} values in the dictionary, or their number"
            refuse(ValueError, f"fill_null[{name!r}]", accepted, fill)
        self.values = values

    def prepare(self, array: Any) -> Any:
        text = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        places = pc.index_in(text.dictionary.cast(self.values.type), value_set=self.values, skip_nulls=True)
        codes = places.take(text.indices)
        return codes if self.fill is None else codes.fill_null(self.fill)


class Lists(Column):
    """Lists of any length, of numbers or text."""

    def __init__(self, name: str, element: Scalars, fill: Any = None) -> None:
        super().__init__(name, fill)
        self._element = element

    def prepare(self, array: Any) -> Any:
        first = array.offsets[0].as_py() if len(array) else 0
        last = array.offsets[-1].as_py() if len(array) else 0
        values = self._element.prepare(array.values.slice(first, last - first))
        offsets = np.asarray(array.offsets) - first if len(array) else np.zeros(1, np.int64)
        mask = array.is_null() if self.fill is None and array.null_count else None
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)

    def to_numpy(self, array: Any) -> Jagged:
        offsets = np.asarray(array.offsets)
        first, last = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
        return Jagged(self._element.to_numpy(array.values.slice(first, last - first)), offsets - first)

    def inner_nulls(self, array: Any) -> NDArray[np.int64]:
        values = array.values
        if not values.null_count:
            return np.empty(0, np.int64)
        nulls = np.flatnonzero(np.asarray(values.is_null()))
        rows = np.searchsorted(np.asarray(array.offsets), nulls, side="right") - 1
        return np.unique(rows[(rows >= 0) & (rows < len(array))]).astype(np.int64)


class Vectors(Column):
    """Lists of one length as the rows of a matrix."""

    def __init__(self, name: str, element: Scalars, size: int, fill: Any = None) -> None:
        super().__init__(name, fill)
        self._element = element
        self._size = size

    def prepare(self, array: Any) -> Any:
        first = array.offset * self._size
        values = self._element.prepare(array.values.slice(first, len(array) * self._size))
        mask = array.is_null() if array.null_count else None
        if self.fill is not None and mask is not None:
            values = pc.if_else(pa.array(np.repeat(np.asarray(mask), self._size)), self.fill, values).cast(values.type)
            mask = None
        return pa.FixedSizeListArray.from_arrays(values, self._size, mask=mask)

    def to_numpy(self, array: Any) -> NDArray[Any]:
        values = array.values.slice(array.offset * self._size, len(array) * self._size)
        found: NDArray[Any] = self._element.to_numpy(values).reshape(len(array), self._size)
        if array.null_count:
            found[np.asarray(array.is_null())] = 0
        return found

    def inner_nulls(self, array: Any) -> NDArray[np.int64]:
        values = array.values.slice(array.offset * self._size, len(array) * self._size)
        nulls = np.asarray(values.is_null()).reshape(len(array), self._size).any(axis=1)
        return np.flatnonzero(nulls & np.asarray(array.is_valid()))


class Bytes(Column):
    """Byte strings: `Jagged` bytes, or the rows of a matrix if all have one length."""

    def __init__(self, name: str, type_: Any, fill: Any = None) -> None:
        super().__init__(name, fill)
        if fill is not None and not isinstance(fill, bytes):
            refuse(TypeError, f"fill_null[{name!r}]", "bytes", fill)
        self._width = type_.byte_width if pa.types.is_fixed_size_binary(type_) else None
        self._type = type_ if self._width is not None else pa.large_binary()

    def prepare(self, array: Any) -> Any:
        found = array.cast(self._type)
        return found if self.fill is None else found.fill_null(self.fill)

    def to_numpy(self, array: Any) -> Any:
        if self._width is not None:
            array = array.fill_null(bytes(self._width)) if array.null_count else array
            start = array.offset * self._width
            data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[start : start + len(array) * self._width]
            return _own(data).reshape(len(array), self._width)
        array = array.fill_null(b"") if array.null_count else array
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]
        return Jagged(_own(np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]), bounds - bounds[0])


def plan_columns(schema: Any, dictionaries: Mapping[str, Any], fills: Mapping[str, Any]) -> list[Column]:
    """Return how each column of a schema becomes arrays, or refuse all columns of types that have no array."""
    refused = [f"{field.name}: {field.type}" for field in schema if not _is_known(field.type)]
    if refused:
        accepted = (
            "columns of numbers, bools, times, decimals, text, bytes, and lists of these; structs, maps, lists of "
            "lists, intervals and extension types have no array"
        )
        refuse(ValueError, "columns", accepted, ", ".join(refused), _LEAVE_OUT)
    return [_plan(field.name, field.type, dictionaries.get(field.name), fills.get(field.name)) for field in schema]


def is_text(type_: Any) -> bool:
    """Return whether a column is text, or lists of text, or dictionaries, which become codes."""
    inner = _element_type(type_)
    return bool(pa.types.is_dictionary(inner) or pa.types.is_string(inner) or pa.types.is_large_string(inner))


def text_type(type_: Any) -> Any:
    inner = _element_type(type_)
    return inner.value_type if pa.types.is_dictionary(inner) else inner


def _element_type(type_: Any) -> Any:
    lists = pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    return type_.value_type if lists else type_


def _is_bytes(type_: Any) -> bool:
    return str(type_).startswith(("binary", "large_binary", "fixed_size_binary"))


def _is_known(type_: Any) -> bool:
    if is_text(type_) or _is_bytes(type_):
        return True
    try:
        _number_type(_element_type(type_))
    except TypeError:
        return False
    return True


def _plan(name: str, type_: Any, values: Any, fill: Any) -> Column:
    if _is_bytes(type_):
        return Bytes(name, type_, fill)
    inner = _element_type(type_)
    column = Codes(name, values, fill) if is_text(type_) else Numbers(name, inner, fill)
    if pa.types.is_fixed_size_list(type_):
        return Vectors(name, column, type_.list_size, fill)
    return column if inner is type_ else Lists(name, column, fill)


def _number_type(type_: Any) -> tuple[Any, np.dtype[Any]]:
    """Return the type in which numbers are kept, and the type of their arrays; a TypeError if they are not numbers."""
    if pa.types.is_boolean(type_):
        return pa.uint8(), np.dtype(np.bool_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return type_, np.dtype(type_.to_pandas_dtype())
    if pa.types.is_decimal(type_):
        return pa.float64(), np.dtype(np.float64)
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return pa.int32(), np.dtype(np.int32)
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return pa.int64(), np.dtype(np.int64)
    raise TypeError(type_)


def _to_numbers(array: Any, kept: Any) -> Any:
    if pa.types.is_temporal(array.type):
        # Some times can be cast by way of the integers of the same width alone.
        return array.view(kept)
    if pa.types.is_decimal(array.type):
        # The direct way is off by a bit at times: 0.071 becomes 0.07100000000000001.
        return array.cast(pa.string()).cast(kept)
    return array.cast(kept) if array.type != kept else array


def _view(array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Without a copy. The array has no nulls."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _own(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.writeable else array.copy()


# A name that no column can have.
_PACKED = "\0"
_NULLS = "\0nulls"


class Packing:
    """Keeps columns of numbers as one column of records.

    A row in a random place costs a cache miss for each column. In one record, it is one miss or two for all of them.
    Columns without numbers stay unchanged. A record has `beside` bytes that are not values.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        packed = [column for column in columns if isinstance(column, Scalars)]
        # The widest come first, so all are aligned.
        self._columns = sorted(packed, key=lambda column: -column.dtype.itemsize)
        # By numbers: numpy changes some names.
        fields: list[tuple[Any, ...]] = [(str(number), each.dtype) for number, each in enumerate(self._columns)]
        flags = (len(fields) + 7) // 8
        values = sum(column.dtype.itemsize for column in packed)
        size = values + flags
        self._record = np.dtype([*fields, (_NULLS, np.uint8, (flags + -size % 8,))])
        self.beside = self._record.itemsize - values

    def make_room(self, count: int) -> NDArray[Any] | None:
        return np.zeros(count, self._record) if self._columns else None

    def pack(self, columns: Mapping[str, Any], count: int, room: NDArray[Any] | None) -> Any:
        """Return a table in which all columns of numbers are one column of records, written into `room` if it fits."""
        own = {column.name for column in self._columns}
        rest = {name: array for name, array in columns.items() if name not in own}
        if not self._columns:
            return pa.table(rest)
        records = room if room is not None and room.size == count else np.zeros(count, self._record)
        values = [column.view(columns[column.name]) for column in self._columns]
        if count:
            fields = self._record.fields
            assert fields is not None
            pack_columns(
                [(array, fields[str(number)][1]) for number, array in enumerate(values)],
                records.view(np.uint8).reshape(count, -1),
            )
        for number, column in enumerate(self._columns):
            if columns[column.name].null_count:
                nulls = np.asarray(columns[column.name].is_null())
                records[_NULLS][:, number // 8] |= nulls.astype(np.uint8) << (number % 8)
        buffers = [None, pa.py_buffer(records)]
        packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(self._record.itemsize), count, buffers)
        return pa.table({_PACKED: packed, **rest})

    def unpack(self, kept: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        if not self._columns:
            return {}
        records = self._records(kept)
        return {column.name: np.ascontiguousarray(records[str(number)]) for number, column in enumerate(self._columns)}

    def find_nulls(self, kept: Mapping[str, Any]) -> dict[str, NDArray[np.bool_]]:
        found = {
            name: np.asarray(array.is_null()) for name, array in kept.items() if name != _PACKED and array.null_count
        }
        if self._columns:
            flags = self._records(kept)[_NULLS]
            if flags.any():
                for number, column in enumerate(self._columns):
                    nulls = (flags[:, number // 8] >> (number % 8) & 1).astype(bool)
                    if nulls.any():
                        found[column.name] = nulls
        return found

    def _records(self, kept: Mapping[str, Any]) -> NDArray[Any]:
        array = kept[_PACKED]
        buffer = array.buffers()[1]
        if not len(array):
            return np.empty(0, self._record)
        return np.frombuffer(buffer, self._record, len(array), array.offset * self._record.itemsize)

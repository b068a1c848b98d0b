"""Rows in any order from decoded row groups: a bounded cache, which the threads that need it fill together."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spdl._processes import renew_in_children
from spdl.io._shared import take_lists, take_rows
from spdl.source._record_source import is_defect

# Larger tables have offsets that do not fit into 32 bits.
_LARGEST = 1 << 30
# Added to a position, it gives a negative number: the group is not in this table.
_ABSENT = -(1 << 62)

Room: TypeAlias = "NDArray[Any] | None"
"""Memory for the rows of some groups, one after the other: an array with an element for each."""
Decode: TypeAlias = Callable[[int, Room], Any]
MakeRoom: TypeAlias = Callable[[int], Room]


class _Window:
    """Some row groups, in ascending order, as one table. All threads that need it decode its groups together."""

    def __init__(
        self, groups: list[int], size: int, decode: Decode, starts: NDArray[np.int64], make_room: MakeRoom
    ) -> None:
        self.groups = groups
        self.size = size
        self.errors: dict[int, Exception] = {}
        # Added to a position, it gives the row in the table.
        self.shifts = np.full(len(starts) - 1, _ABSENT, np.int64)
        self._starts = starts
        self._decode = decode
        rows = np.cumsum([0, *(starts[group + 1] - starts[group] for group in groups)]).tolist()
        self._room = make_room(rows[-1])
        self._places = dict(zip(groups, pairwise(rows), strict=True))
        self._waiting = deque(groups)
        self._tables: dict[int, Any] = {}
        self._left = len(groups)
        self._changed = threading.Condition()
        self._table: Any = None
        self._error: BaseException | None = None
        self.is_done = False

    def help(self, most: int) -> None:
        for _ in range(most):
            try:
                group = self._waiting.popleft()
            except IndexError:
                return
            self._read(group)

    def table(self) -> Any:
        """Return the table; None if no group could be read. `errors` has why."""
        while not self.is_done:
            self.help(len(self.groups))
            with self._changed:
                self._changed.wait_for(lambda: self.is_done or self._waiting)
        if self._error is not None:
            raise self._error
        return self._table

    def _read(self, group: int) -> None:
        table = None
        first, last = self._places[group]
        try:
            table = self._decode(group, None if self._room is None else self._room[first:last])
        except Exception as error:  # noqa: BLE001 - raised for those that ask for a row of this group.
            # Its frames would keep this object.
            self.errors[group] = error.with_traceback(None)
        except BaseException:
            # Ctrl-C: the others continue without this thread.
            with self._changed:
                self._waiting.append(group)
                self._changed.notify_all()
            raise
        with self._changed:
            if table is not None:
                self._tables[group] = table
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._join()

    def _join(self) -> None:
        try:
            first = 0
            tables = []
            for group in self.groups:
                table = self._tables.pop(group, None)
                if table is not None:
                    self.shifts[group] = first - self._starts[group]
                    first += len(table)
                    tables.append(table)
                    del table
            if tables:
                self._table = join_tables(tables, self._room)
            self._room = None
            self.size = 0 if self._table is None else self._table.nbytes
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else RuntimeError("joining row groups was interrupted")
            raise
        finally:
            with self._changed:
                self.is_done = True
                self._changed.notify_all()


class FoundRows(NamedTuple):
    table: Any
    """Those that could be read, in the order in which they were asked for; None without any."""
    places: NDArray[np.int64] | None
    """Their places among all that were asked for; None if all could be read."""
    errors: list[tuple[NDArray[np.int64], Exception]]
    """The places of others, and why their group cannot be read."""


class GroupTables:
    """Rows of row groups by their positions. Several threads may use it at once.

    Groups that are needed together are joined to one table, from which all their rows are taken at once: this costs a
    fifth of taking them from each group. Each group is in one table only. Up to `most` bytes of tables are kept; those
    in use may have more. `make_room` returns memory for a number of rows, in which `decode` may put a column, so that
    it need not be copied to join it.
    """

    def __init__(
        self, decode: Decode, rows: Sequence[int], sizes: Sequence[int], most: int, make_room: MakeRoom
    ) -> None:
        self._decode = decode
        self._make_room_for = make_room
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]).astype(np.int64)
        self._sizes = list(sizes)
        self._most = most
        total = sum(sizes)
        # This much is decoded together. While rows of one piece are taken, another can be decoded.
        self._piece = min(total if total <= most else most // 2, _LARGEST)
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        # The threads that decode do not exist in a forked process.
        self._lock = threading.Lock()
        self._owners: dict[int, _Window] = {}
        # The one that was used last is at the end.
        self._kept: OrderedDict[_Window, None] = OrderedDict()
        # The bytes of the tables so far, as estimated and as they were.
        self._estimated = self._taken = 0
        # The table of all groups, if they are in one.
        self._whole: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_owners": None, "_kept": None, "_whole": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew()
        renew_in_children(self)

    def read(self, positions: NDArray[np.int64], near: Callable[[], NDArray[np.int64]] | None = None) -> FoundRows:
        """Return the rows at some positions, at least one.

        `near` returns positions that will be asked for next. If a group has to be decoded, theirs are, too, as far as
        memory allows.
        """
        whole = self._whole
        if whole is not None:
            return FoundRows(take(whole, positions), None, [])
        groups = self._groups_of(positions)
        parts, places = [], []
        errors: list[tuple[NDArray[np.int64], Exception]] = []
        windows = self._find(self._distinct(groups), near)
        while windows:
            window = windows.pop(0)
            table = self._table_of(window)
            rows = positions + window.shifts[groups]
            if rows.min() >= 0:
                return FoundRows(take(table, rows), None, [])
            here = np.flatnonzero(rows >= 0)
            for group, error in window.errors.items():
                if (failed := np.flatnonzero(groups == group)).size:
                    errors.append((failed, error))
            if here.size:
                parts.append(take(table, rows[here]))
                places.append(here)
            # The next one takes its place in memory.
            del table, window
        if not parts:
            return FoundRows(None, np.empty(0, np.int64), errors)
        found = np.concatenate(places)
        turns = np.argsort(found)
        return FoundRows(take(join_tables(parts), turns), found[turns] if errors else None, errors)

    def has_all(self) -> bool:
        return len(self._owners) == len(self._sizes)

    def prepare(
        self,
        past: NDArray[np.int64],
        coming: NDArray[np.int64],
        near: Callable[[int], NDArray[np.int64]],
        steps: int,
    ) -> None:
        """Decode a part of what will be needed next, if there is room for it beside what is needed before.

        Other threads may be asking for `past`. `coming` may be a sample; `near` returns all that follows one of its
        places. By so many `steps` they are decoded.
        """
        groups = self._groups_of(coming).tolist()
        place = next((place for place, group in enumerate(groups) if group not in self._owners), None)
        others = [] if place is None else self._in_turn(near(place))
        groups += self._groups_of(past).tolist()
        with self._lock:
            begun = {window for window in self._kept if not window.is_done}
            needed = begun | {self._owners[group] for group in groups if group in self._owners}
            missing = self._first_of(others, [], self._piece)
            # Smaller pieces than one would make the next rows slower to take.
            if missing and self._most - sum(window.size for window in needed) >= self._piece:
                window = self._add(sorted(missing))
                self._make_room({window, *needed})
                begun.add(window)
        for window in begun:
            window.help(-(-len(window.groups) // steps))

    def _in_turn(self, positions: NDArray[np.int64]) -> list[int]:
        """Return the groups of some positions in the order in which they come first."""
        found, places = np.unique(self._groups_of(positions), return_index=True)
        groups: list[int] = found[np.argsort(places)].tolist()
        return groups

    def _first_of(self, groups: list[int], more: list[int], room: int) -> list[int]:
        """Return the first of some groups that are not here nor among others, as many as there is room for."""
        found: list[int] = []
        for group in groups:
            if group not in self._owners and group not in more:
                room -= self._size_of([group])
                # Later ones would be dropped before their turn.
                if room < 0:
                    break
                found.append(group)
        return found

    def _groups_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._starts, positions, side="right") - 1

    def _distinct(self, groups: NDArray[np.int64]) -> list[int]:
        flags = np.zeros(len(self._starts) - 1, bool)
        flags[groups] = True
        found: list[int] = np.flatnonzero(flags).tolist()
        return found

    def _size_of(self, groups: Iterable[int]) -> int:
        size = sum(self._sizes[group] for group in groups)
        return size * self._taken // self._estimated if self._estimated else size

    def _find(self, groups: list[int], near: Callable[[], NDArray[np.int64]] | None) -> list[_Window]:
        """Return the windows that have some groups. Some may have to be decoded first."""
        is_short = any(group not in self._owners for group in groups)
        others = self._in_turn(near()) if is_short and near is not None else []
        with self._lock:
            # A caller that does not say what comes next probably needs these groups again.
            self._drop_wasteful(groups if near is None else others)
            missing = [group for group in groups if group not in self._owners]
            if missing:
                missing += self._first_of(others, missing, self._piece - self._size_of(missing))
            for piece in self._cut(sorted(missing)):
                self._add(piece)
            windows = list(dict.fromkeys(self._owners[group] for group in groups))
            for window in windows:
                self._kept.move_to_end(window)
            self._make_room(set(windows))
        # Those that are here come first: what is decoded after them need not be in memory together with them.
        return sorted(windows, key=lambda window: not window.is_done)

    def _drop_wasteful(self, groups: list[int]) -> None:
        """Drop windows if only some of their groups are needed next, if memory has no room for them beside the others.

        They are left from another epoch, and would push each other out at every call. Their groups are decoded anew.
        The groups are those that are needed next, in their order.
        """
        wanted: set[int] = set()
        room = self._most
        for group in groups:
            room -= self._size_of([group])
            if room < 0:
                break
            wanted.add(group)
        owners = {self._owners[group] for group in wanted if group in self._owners}
        waste = {window: self._size_of(set(window.groups) - wanted) for window in owners}
        room = self._most - self._size_of(wanted) - sum(waste.values())
        for window in sorted(owners, key=lambda window: waste[window], reverse=True):
            if room >= 0:
                return
            room += waste[window]
            self._drop(window)

    def _cut(self, groups: list[int]) -> Iterable[list[int]]:
        piece: list[int] = []
        size = 0
        for group in groups:
            if piece and size + self._size_of([group]) > self._piece:
                yield piece
                piece, size = [], 0
            piece.append(group)
            size += self._size_of([group])
        if piece:
            yield piece

    def _add(self, groups: list[int]) -> _Window:
        window = _Window(groups, self._size_of(groups), self._decode, self._starts, self._make_room_for)
        self._kept[window] = None
        self._owners.update(dict.fromkeys(groups, window))
        return window

    def _table_of(self, window: _Window) -> Any:
        is_new = not window.is_done
        try:
            table = window.table()
        except Exception:
            with self._lock:
                self._drop(window)
            raise
        with self._lock:
            if is_new:
                self._estimated += sum(self._sizes[group] for group in window.groups if group not in window.errors)
                self._taken += window.size
            # Groups that could not be read are tried again when they are asked for again.
            self._disown(window, window.errors)
            if not all(map(is_defect, window.errors.values())):
                # It must not keep an error that is raised, whose frames keep the loader.
                self._drop(window)
            self._make_room({window})
            if len(window.groups) == len(self._sizes) and not window.errors and window in self._kept:
                self._whole = table
        return table

    def _make_room(self, spared: set[_Window]) -> None:
        size = sum(window.size for window in self._kept)
        for window in list(self._kept):
            if size <= self._most:
                return
            if window not in spared:
                size -= window.size
                self._drop(window)

    def _drop(self, window: _Window) -> None:
        self._whole = None
        self._kept.pop(window, None)
        self._disown(window, window.groups)

    def _disown(self, window: _Window, groups: Iterable[int]) -> None:
        for group in groups:
            if self._owners.get(group) is window:
                del self._owners[group]


def join_tables(tables: list[Any], room: Room = None) -> Any:
    """Return tables one below the other as one whose columns are in one piece, and empty the list.

    A column is freed as soon as it is joined, so only one of them is in memory twice. One in `room` stays there.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    schema = tables[0].schema
    parts = [list(table.columns) for table in tables]
    tables.clear()
    joined = []
    for number, field in enumerate(schema):
        chunks = [chunk for part in parts for chunk in part[number].chunks]
        for part in parts:
            part[number] = None
        column = _in_place(chunks, field.type, room) or pa.chunked_array(chunks, type=field.type)
        del chunks
        joined.append(pa.Table.from_arrays([column], names=[""]).combine_chunks().column(0))
    return pa.Table.from_arrays(joined, schema=schema)


def _in_place(chunks: list[Any], kind: Any, room: Room) -> Any | None:
    """Return a column whose pieces fill the beginning of `room`; None for others."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    if room is None or not pa.types.is_fixed_size_binary(kind) or kind.byte_width != room.itemsize:
        return None
    place = begin = room.ctypes.data
    for chunk in chunks:
        if chunk.buffers()[1].address + chunk.offset * room.itemsize != place:
            return None
        place += len(chunk) * room.itemsize
    count = (place - begin) // room.itemsize
    return pa.chunked_array([pa.FixedSizeBinaryArray.from_buffers(kind, count, [None, pa.py_buffer(room)])])


def take(table: Any, rows: NDArray[np.int64]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    rows = np.ascontiguousarray(rows)
    wanted = pa.array(rows)
    columns = [_take_column(column, rows, wanted) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _take_column(column: Any, rows: NDArray[np.int64], wanted: Any) -> Any:
    """Return what ``column.take`` does, in half of the time for records of fixed size and lists of plain values."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    types, kind = pa.types, column.type
    found = None
    if column.num_chunks == 1 and not column.null_count:
        if types.is_fixed_size_binary(kind) and kind.byte_width:
            found = _take_records(column.chunk(0), rows)
        elif types.is_list(kind) or types.is_large_list(kind):
            found = _take_lists(column.chunk(0), rows)
    return column.take(wanted) if found is None else found


def _take_records(array: Any, rows: NDArray[np.int64]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    width = array.type.byte_width
    begin = array.offset * width
    values = np.frombuffer(array.buffers()[1], np.uint8)[begin : begin + len(array) * width]
    found = take_rows(values.reshape(-1, width), rows)
    return type(array).from_buffers(array.type, rows.size, [None, pa.py_buffer(found)])


def _take_lists(array: Any, rows: NDArray[np.int64]) -> Any | None:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    values = array.values
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not plain or values.null_count or not len(values):
        return None
    width = values.type.bit_width // 8
    content = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    offsets = np.asarray(array.offsets)
    found = take_lists(offsets, content.reshape(-1, width), rows, _LARGEST)
    if found is None:
        return None
    buffers = [None, pa.py_buffer(found[1])]
    taken = pa.Array.from_buffers(values.type, len(found[1]), buffers)
    return type(array).from_arrays(pa.array(found[0].astype(offsets.dtype, copy=False)), taken, type=array.type)

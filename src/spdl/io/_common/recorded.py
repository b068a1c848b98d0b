"""Makes the file of a trace of what the native part has recorded."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING, TypeAlias

from spdl._trace_file import Events, trace_content, write_events

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Recorded", "write_recorded"]

Recorded: TypeAlias = tuple[list[tuple[int, int, bytes]], bytes, bytes, bool]
"""The threads (the row, the system's number, the name), the older records and the newer ones, and whether there were
more."""

# Records as the native part keeps them: the time in nanoseconds, the row or the counter, the kind, and the size of what
# follows, which is a name or a value.
_HEAD = struct.Struct("=QIHH")
_BEGIN, _END, _INTEGER = range(3)


def write_recorded(path: str, file: IO[bytes], process_name: str, recorded: Recorded) -> None:
    """Write a trace.

    Raises:
        OSError: If it cannot be written.
    """
    with trace_content(path, file) as content:
        write_events(content, _events(process_name, recorded))


def _events(process_name: str, recorded: Recorded) -> Iterator[str]:
    threads, older, newer, _ = recorded
    events = Events()
    yield from events.of_process(process_name)
    rows = {number: events.row(number, thread) for number, thread, _ in threads}
    for number, _, name in threads:
        yield events.of_row(rows[number], name.decode("utf-8", "replace"))
    begun = dict.fromkeys(rows, 0)
    for records in (older, newer):
        place = 0
        while place < len(records):
            nanoseconds, of, kind, size = _HEAD.unpack_from(records, place)
            place += _HEAD.size + size
            more, at = records[place - size : place], events.at_nanoseconds(nanoseconds)
            if kind == _BEGIN:
                begun[of] += 1
                yield events.begin(rows[of], more.decode("utf-8", "replace"), at)
            elif kind == _END:
                # The beginning may have been dropped.
                if begun[of]:
                    begun[of] -= 1
                    yield events.end(rows[of], at)
            else:
                (value,) = struct.unpack("=q" if kind == _INTEGER else "=d", more)
                yield events.count(f"counter {of}", at, "value", value)

"""MP4 files whose boxes are changed: other edit lists, and clocks of fragments that stop for a while."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEADER = 8


def _changed(data: bytes, way: Sequence[bytes], change: Callable[[bytes], bytes]) -> bytes:
    """Return the boxes with what is in those at the end of a way of names changed."""
    found, place = b"", 0
    while place < len(data):
        size, name = struct.unpack_from(">I4s", data, place)
        content = data[place + _HEADER : place + size]
        if name == way[0]:
            content = _changed(content, way[1:], change) if len(way) > 1 else change(content)
        found += _box(name, content)
        place += size
    return found


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", _HEADER + len(content), name) + content


def with_edits(data: bytes, edits: Sequence[tuple[int, int]]) -> bytes:
    """Return a file of one track, whose `moov` is behind all else, with another edit list.

    Args:
        data: The file.
        edits: The length of each part in milliseconds, and where it begins in units of the track; -1 is a pause.
    """
    content = struct.pack(">II", 0, len(edits)) + b"".join(struct.pack(">IiI", *it, 1 << 16) for it in edits)
    return _changed(data, [b"moov", b"trak", b"edts"], lambda _: _box(b"elst", content))


def with_pause(data: bytes, first: int, units: int) -> bytes:
    """Return a file whose fragments from the `first` on are decoded later, of which its segment index says nothing."""
    count = 0

    def moved(content: bytes) -> bytes:
        nonlocal count
        count += 1
        form = ">Q" if content[0] == 1 else ">I"
        (time,) = struct.unpack_from(form, content, 4)
        return content[:4] + struct.pack(form, time + (units if count > first else 0))

    return _changed(data, [b"moof", b"traf", b"tfdt"], moved)

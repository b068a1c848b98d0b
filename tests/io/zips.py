"""Zip archives of every make, by zipfile, and by hand where their headers must lie."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any, NamedTuple

from tests.io.arrays import Array, as_npy


def as_npz(arrays: dict[str, Array], compression: int = zipfile.ZIP_STORED, *, streamed: bool = False) -> bytes:
    """Have zipfile write the archive; `streamed` to a pipe, which makes it put sizes behind the members."""
    file = io.BytesIO()
    target: Any = _Pipe(file) if streamed else file
    with zipfile.ZipFile(target, "w", compression) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=len(key) % 2 == 0) as member:
                member.write(as_npy(array))
    return file.getvalue()


class _Pipe:
    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        pass


class Entry(NamedTuple):
    """A member as the directory is to describe it, whatever is true."""

    name: bytes
    content: bytes
    method: int = 0
    flags: int = 0
    crc: int = 0
    compressed_size: int | None = None
    size: int | None = None
    local_name: bytes | None = None
    offset: int | None = None
    extra: bytes = b""


def handmade(*entries: Entry, shift: int = 0, count: int | None = None, comment: bytes = b"") -> bytes:
    """Write an archive that says what it is told to say."""
    data, directory = bytearray(), bytearray()
    for entry in entries:
        offset = len(data) if entry.offset is None else entry.offset
        name = entry.name if entry.local_name is None else entry.local_name
        data += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, entry.method, 0, 33, 0, 0, 0, len(name), 0) + name
        data += entry.content
        compressed = len(entry.content) if entry.compressed_size is None else entry.compressed_size
        size = len(entry.content) if entry.size is None else entry.size
        directory += struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, entry.flags, entry.method, 0, 33, entry.crc, compressed, size,
            len(entry.name), len(entry.extra), 0, 0, 0, 0, offset,
        ) + entry.name + entry.extra  # fmt: skip
    total = len(entries) if count is None else count
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, total, total, len(directory), len(data) + shift, len(comment))
    return bytes(data + directory + end + comment)

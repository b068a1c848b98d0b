"""Writing arrays as .npz archives."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, refuse
from spdl.io._array.array_target import opened
from spdl.io._array.npy import npy_parts
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from spdl.io._array.array_target import ArrayTarget, Write

Compression: TypeAlias = Literal["deflate", "zstd"]

# Elements begin at multiples of this in the file, so that views of a mapped archive are aligned for any instruction.
_ALIGNMENT = 64

_METHODS = {None: 0, "deflate": 8, "zstd": 93}
_VERSIONS = {0: 20, 8: 20, 93: 63}
_ZIP64_VERSION = 45
_UTF8_NAME = 0x800

# The first day that the format knows, so that the same arrays give the same bytes.
_TIME, _DATE = 0, (1 << 5) | 1

_IN_64 = 0xFFFFFFFF
_COUNT_IN_64 = 0xFFFF
_MAX_NAME = 0xFFFF
_ATTRIBUTES = 0o600 << 16

# The id that zipalign uses for its padding.
_PADDING_ID = 0xD935


class _Member(NamedTuple):
    name: bytes
    flags: int
    method: int
    crc: int
    compressed_size: int
    size: int
    offset: int

    def fields(self, *, wide: bool) -> bytes:
        """Return the fields that the local header and the directory have in common."""
        version = max(_VERSIONS[self.method], _ZIP64_VERSION if wide else 0)
        sizes = (_IN_64, _IN_64) if wide else (self.compressed_size, self.size)
        return struct.pack("<HHHHHIII", version, self.flags, self.method, _TIME, _DATE, self.crc, *sizes)

    @property
    def wide(self) -> bool:
        """True if a size is too large for 32 bits."""
        return max(self.size, self.compressed_size) >= _IN_64

    def local_header(self) -> bytes:
        extra = struct.pack("<HHQQ", 1, 16, self.size, self.compressed_size) if self.wide else b""
        if self.method == 0:
            least = 6
            padding = -(self.offset + 30 + len(self.name) + len(extra) + least) % _ALIGNMENT
            extra += struct.pack("<HHH", _PADDING_ID, 2 + padding, _ALIGNMENT) + bytes(padding)
        lengths = struct.pack("<HH", len(self.name), len(extra))
        return b"PK\3\4" + self.fields(wide=self.wide) + lengths + self.name + extra

    def directory_entry(self) -> bytes:
        far = self.offset >= _IN_64
        wide = [self.size, self.compressed_size] if self.wide else []
        wide += [self.offset] if far else []
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        rest = struct.pack("<HHHHHII", len(self.name), len(extra), 0, 0, 0, _ATTRIBUTES, _IN_64 if far else self.offset)
        made_by = struct.pack("<H", 3 << 8 | _ZIP64_VERSION)
        return b"PK\1\2" + made_by + self.fields(wide=self.wide) + rest + self.name + extra


def save_npz(dst: ArrayTarget, arrays: Mapping[str, ArrayLike], *, compression: Compression | None = None) -> None:
    """Write arrays as a .npz file. ``numpy.load`` reads it too, zstd from Python 3.14 on.

    Compression runs without the GIL. The elements of stored arrays begin at multiples of 64 bytes in the file, so views
    of a mapped archive are aligned. The same arrays give the same bytes.

    Args:
        dst: A path or a file opened for writing in binary mode, which need not be seekable. Unlike ``numpy.savez``,
            this appends nothing to the path. An existing file is replaced when the new one is complete, so arrays that
            are views of it keep their values.
        arrays: The arrays by key, of any shape and dtype except ``object``.
        compression: None stores the arrays uncompressed, which loads fastest. ``"deflate"`` makes the archive smaller
            if the data allows it, and any zip program reads it. ``"zstd"`` inflates faster, unless the data compresses
            to next to nothing.

    Raises:
        OSError: If the file cannot be written, or, to replace a file, its folder.
        TypeError: If an array holds Python objects, which would have to be pickled, a key is not a str, or `dst` is
            neither a path nor a file.
        ValueError: If `compression` is unknown, or a key is empty or too long.

    Example:
        >>> file = io.BytesIO()
        >>> save_npz(file, {"image": np.zeros((4, 4), np.uint8), "label": np.arange(3)}, compression="deflate")
        >>> np.load(io.BytesIO(file.getvalue()))["label"]
        array([0, 1, 2])
    """
    check_choice("compression", compression, (None, *get_args(Compression)))
    # Check everything before writing anything.
    parts = {_name(key): npy_parts(array, f"arrays[{key!r}]") for key, array in arrays.items()}
    with opened(dst) as write:
        offset = 0
        members = []
        for name, (header, payload) in parts.items():
            content: tuple[bytes | memoryview, ...] = (header, payload)
            if compression is not None:
                content = (_packed(compression, header, payload),)
            packed = sum(map(len, content))
            flags = 0 if name.isascii() else _UTF8_NAME
            size = len(header) + len(payload)
            member = _Member(name, flags, _METHODS[compression], native.crc32(header, payload), packed, size, offset)
            local_header = member.local_header()
            write(local_header)
            for part in content:
                write(part)
            members.append(member)
            offset += len(local_header) + packed
        _write_directory(write, members, offset)


def _name(key: object) -> bytes:
    if not isinstance(key, str):
        refuse(TypeError, "arrays.keys()", "str", key)
    name = f"{key}.npy".encode()
    if not key or "\0" in key or len(name) > _MAX_NAME:
        refuse(ValueError, "arrays.keys()", "of 1 to 65531 bytes and without null characters", key)
    return name


def _packed(compression: Compression, header: bytes, payload: memoryview) -> bytes:
    return native.deflate(header, payload) if compression == "deflate" else native.zstd(header, payload)


def _write_directory(write: Write, members: list[_Member], offset: int) -> None:
    directory = b"".join(member.directory_entry() for member in members)
    write(directory)
    count, size = len(members), len(directory)
    if count >= _COUNT_IN_64 or max(size, offset) >= _IN_64:
        version = 3 << 8 | _ZIP64_VERSION
        write(
            struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, version, _ZIP64_VERSION, 0, 0, count, count, size, offset)
            + struct.pack("<4sIQI", b"PK\6\7", 0, offset + size, 1)
        )
    counts = (min(count, _COUNT_IN_64),) * 2
    write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *counts, min(size, _IN_64), min(offset, _IN_64), 0))

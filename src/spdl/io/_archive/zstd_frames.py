"""The content of zstd data frame by frame, with the places at which reading can begin."""

from __future__ import annotations

from collections.abc import Iterator

from spdl.io._archive.decompress import Read
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_MOST = 1 << 20
# What RFC 8878 allows for a block.
_LARGEST_BLOCK = 1 << 17


def is_zstd(first: bytes) -> bool:
    """Return whether data with these first bytes is of zstd: a frame, or one to pass over, as `pzstd` begins with."""
    magic = int.from_bytes(first[:4], "little")
    return magic == _MAGIC or magic & ~0xF == _SKIPPABLE


def zstd_frames(read: Read, offset: int = 0) -> Iterator[tuple[int | None, bytes]]:
    """Yield the content in pieces, and with the first piece of each frame the byte at which the frame begins.

    Args:
        read: Reads the compressed bytes, from the beginning of a frame on.
        offset: Which byte of the data comes first.

    Raises:
        FormatError: If the data is damaged or truncated.
    """
    source = _ExactReader(read, offset)
    while header := source.take(4, may_end=True):
        magic = int.from_bytes(header, "little")
        start: int | None = source.position - 4
        if magic & ~0xF == _SKIPPABLE:
            source.skip(int.from_bytes(source.take(4), "little"))
            continue
        if magic != _MAGIC:
            raise FormatError(f"the zstd data is damaged: no frame begins at byte {source.position - 4}")
        stream = native.ZstdStream()
        for compressed in _parts(source, header):
            stream.push(compressed)
            while piece := stream.pull(_MOST):
                yield start, piece
                start = None
        if not stream.between_frames():
            raise FormatError(
                f"the zstd data is damaged: a frame continues after its last block, at byte {source.position}"
            )


def _parts(source: _ExactReader, magic: bytes) -> Iterator[bytes]:
    """Yield a frame's header, its blocks and its checksum."""
    descriptor = source.take(1)
    flags = descriptor[0]
    is_single, has_checksum = flags & 0x20, flags & 0x04
    sizes = (0, 1, 2, 4)[flags & 3] + ((1 if is_single else 0), 2, 4, 8)[flags >> 6] + (0 if is_single else 1)
    yield magic + descriptor + source.take(sizes)
    is_last = False
    while not is_last:
        header = source.take(3)
        value = int.from_bytes(header, "little")
        is_last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
        # A block of one byte that is repeated says how often.
        stored = 1 if kind == 1 else size
        if stored > _LARGEST_BLOCK:
            raise FormatError(f"the zstd data is damaged: a block of {stored} bytes at byte {source.position - 3}")
        yield header + source.take(stored)
    if has_checksum:
        yield source.take(4)


class _ExactReader:
    """Reads exact numbers of bytes.

    Args:
        position: Which byte comes first.
    """

    def __init__(self, read: Read, position: int) -> None:
        self._read = read
        self._buffer = memoryview(b"")
        self.position = position

    def take(self, size: int, *, may_end: bool = False) -> bytes:
        """Return bytes; none at the end of the data if that may be here.

        Raises:
            FormatError: If it ends within them.
        """
        parts = []
        missing = size
        while missing:
            if not self._buffer:
                self._buffer = memoryview(self._read(_MOST))
                if not self._buffer:
                    if may_end and missing == size:
                        return b""
                    raise FormatError("the zstd data is truncated: it ends within a frame")
            parts.append(bytes(self._buffer[:missing]))
            self._buffer = self._buffer[missing:]
            missing -= len(parts[-1])
        self.position += size
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        while size:
            size -= len(self.take(min(size, _MOST)))

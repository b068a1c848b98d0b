"""Compressed streams, by the standard library and libzstd; and zstd data frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

Read = Callable[[int], bytes]
"""Returns up to the given number of bytes, and none at the end."""

_CHUNK = 1 << 16

# The first bytes of each format.
_GZIP, _ZSTD, _XZ, _BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"
_LONGEST = 6


def is_compressed(first: bytes) -> bool:
    """Return whether data with these first bytes is compressed by a method that `decompressed` knows."""
    return first.startswith((_GZIP, _ZSTD, _XZ, _BZIP2))


def decompressed(first: bytes, read: Read) -> Read:
    """Return a function that reads the content of a compressed stream, and raises a FormatError if that is damaged."""
    # Each library is imported only when it is needed.
    stream = _Pushed(first, read)
    if first.startswith(_ZSTD):
        return _ZstdReader(stream.read).read
    if first.startswith(_GZIP):
        import gzip  # noqa: PLC0415
        import zlib  # noqa: PLC0415

        file = gzip.GzipFile(fileobj=cast("IO[bytes]", stream))
        return _Guarded("gzip", file, (gzip.BadGzipFile, zlib.error), stream).read
    if first.startswith(_XZ):
        import lzma  # noqa: PLC0415

        return _Streams(
            "xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), (lzma.LZMAError,), stream.read, padding=4
        ).read
    import bz2  # noqa: PLC0415

    # For damaged data, bz2 raises OSError or ValueError.
    return _Streams("bzip2", bz2.BZ2Decompressor, (OSError, ValueError), stream.read).read


class _Pushed:
    """A stream whose first bytes were read already and are returned again."""

    def __init__(self, first: bytes, read: Read) -> None:
        self._first = first
        self._read = read
        self.failure: Exception | None = None

    def read(self, size: int) -> bytes:
        if self._first:
            piece, self._first = self._first[:size], self._first[size:]
            return piece
        try:
            return self._read(size)
        except Exception as error:
            self.failure = error
            raise


class _Guarded:
    """A file of the standard library whose errors are raised as FormatError."""

    def __init__(self, method: str, file: Any, errors: tuple[type[Exception], ...], stream: _Pushed) -> None:
        self._method = method
        self._file = file
        self._errors: tuple[type[Exception], ...] = (EOFError, *errors)
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            return cast("bytes", self._file.read(size))
        except self._errors as error:
            # A lost connection is not damage, even if its error has the same type.
            if error is self._stream.failure:
                raise
            truncated = isinstance(error, EOFError)
            says = "truncated: it ends before its end marker" if truncated else f"damaged: {error}"
            raise FormatError(f"the {self._method} data is {says}") from error


class _Streams:
    """One stream or several, one after the other, which the standard library's files would end at the first bad head.

    Zeros may follow a stream, in a multiple of `padding`, if that is not 0. `errors` are raised for damaged data.
    """

    def __init__(
        self, method: str, make: Callable[[], Any], errors: tuple[type[Exception], ...], read: Read, padding: int = 0
    ) -> None:
        self._method = method
        self._make = make
        self._errors = errors
        self._read = read
        self._padding = padding
        self._stream = make()
        self._compressed = b""

    def read(self, size: int) -> bytes:
        while size:
            if self._stream.eof:
                self._compressed = self._following(self._stream.unused_data)
                if not self._compressed:
                    break
                self._stream = self._make()
            if self._stream.needs_input and not self._compressed:
                self._compressed = self._read(_CHUNK)
                if not self._compressed:
                    raise FormatError(f"the {self._method} data is truncated: it ends before its end marker")
            given, self._compressed = self._compressed, b""
            try:
                piece: bytes = self._stream.decompress(given, size)
            except self._errors as error:
                raise FormatError(f"the {self._method} data is damaged: {error}") from error
            if piece:
                return piece
        return b""

    def _following(self, rest: bytes) -> bytes:
        """Return the first bytes of the next stream, or none at the end."""
        zeros = 0
        while rest or (rest := self._read(_CHUNK)):
            if not self._padding:
                return rest
            begun = rest.lstrip(b"\0")
            zeros += len(rest) - len(begun)
            rest = begun
            if rest:
                break
        if self._padding and zeros % self._padding:
            raise FormatError(f"the {self._method} data is damaged: {zeros} zeros follow a stream")
        return rest


class _ZstdReader:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._stream = native.ZstdStream()

    def read(self, size: int) -> bytes:
        while not (piece := self._stream.pull(min(size, 1 << 24))):
            if not size:
                return b""
            compressed = self._read(_CHUNK)
            if not compressed:
                if not self._stream.between_frames():
                    raise FormatError("the zstd data is truncated: it ends within a frame")
                return b""
            self._stream.push(compressed)
        return piece


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

    The first byte that is read is the one at `offset` of the data, where a frame begins. Damaged data is a FormatError.
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
    def __init__(self, read: Read, position: int) -> None:
        self._read = read
        self._buffer = memoryview(b"")
        self.position = position

    def take(self, size: int, *, may_end: bool = False) -> bytes:
        """Return bytes, or raise a FormatError if the data ends within them; none at its end if that may be here."""
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
        while size:
            size -= len(self.take(min(size, _MOST)))

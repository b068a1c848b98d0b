"""Iteration over the members of tar archives, compressed or not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias

from spdl._check import check_int
from spdl.io._archive.decompress import decompressed, is_compressed
from spdl.io._array.array_io import ArrayInput, map_input
from spdl.io._common.errors import FormatError, name_path
from spdl.io._common.inputs import Readable, is_bytes, is_url, map_file, open_url, refuse_text_file, url_of
from spdl.io._common.native import native

_BLOCK = 512
_CHUNK = 1 << 16


# The bytes before a member's content: headers of a mebibyte each at most.
_HEADERS = 1 << 22
_SMALL = 2 * _BLOCK


class _Counted:
    """A stream that knows how many bytes were read."""

    def __init__(self, read: Callable[[int], Any]) -> None:
        self._read = read
        self.place = 0

    def read(self, size: int) -> Any:
        piece = self._read(size)
        self.place += len(piece)
        return piece


class _Metered:
    """A stream whose members may not exceed a number of bytes."""

    def __init__(self, read: Callable[[int], Any], most: int) -> None:
        self._read = read
        self._most = most
        self._taken = 0
        self._before = "the first one"

    def read(self, size: int) -> Any:
        """Return up to `size` bytes, or raise a FormatError if a member is longer than it may be."""
        if size <= _SMALL:  # Of archives with many folders, there are headers alone for long.
            return _read_piece(self._read, size)
        left = self._most + _HEADERS - self._taken
        piece = _read_piece(self._read, min(size, left + 1))
        self._taken += len(piece)
        if len(piece) > left:
            self._refuse()
        return piece

    def passed(self, name: str, content: bytes) -> None:
        if len(content) > self._most:
            self._refuse()
        self._taken = 0
        self._before = f"the one after {name!r}"

    def _refuse(self) -> NoReturn:
        raise FormatError(
            f"a member, {self._before}, has more bytes than `max_member_bytes`, which is {self._most}: set it higher, "
            "or write the archive to a file without compression, whose members are not read into memory"
        )


def iter_stream(read: Callable[[int], Any], most: int, path: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an archive, which is all that there is to read if it has a path or is compressed."""
    counted = _Counted(lambda size: _read_piece(read, size))
    try:
        first = _read_up_to(counted.read, _BLOCK)
        if is_compressed(first):
            counted = _Counted(decompressed(first, counted.read))
            first = _read_up_to(counted.read, _BLOCK)
        elif path is None:
            yield from _members(read, first, most)
            return
        yield from _members(counted.read, first, most)
        # The checksum comes last, so read everything to have it compared.
        while piece := counted.read(_CHUNK):
            if any(piece):
                native.TarParser.fail_joined(counted.place - len(piece.lstrip(b"\0")))
    except FormatError as error:
        if path is not None:
            error.args = (f"{path!r}: {error}",)
            name_path(error, path)
        raise


def _members(read: Callable[[int], Any], first: bytes, most: int) -> Iterator[tuple[str, bytes]]:
    metered = _Metered(read, most)
    for name, content in native.TarStream(metered.read, first):
        metered.passed(name, content)
        yield name, content


def _read_up_to(read: Callable[[int], Any], size: int) -> bytes:
    whole = b""
    while len(whole) < size:
        piece = _read_piece(read, size - len(whole))
        if not piece:
            break
        whole += piece
    return whole


def _read_piece(read: Callable[[int], Any], size: int) -> bytes:
    """Read up to `size` bytes, and check that these are bytes."""
    piece = read(size)
    if piece is None:
        raise BlockingIOError("the stream has nothing to read yet: it is non-blocking, and has to block")
    try:
        view = memoryview(piece)
    except TypeError:
        refuse_text_file("src", getattr(read, "__self__", read), piece)
    if view.nbytes > size:
        raise ValueError(f"the stream gave more bytes than it was asked for: {view.nbytes}, not {size}")
    return piece if isinstance(piece, bytes) else bytes(view)


class BytesReader:
    """A reader of bytes in memory that does not copy them all."""

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data)
        self._position = 0

    def read(self, size: int) -> bytes:
        piece = bytes(self._view[self._position : self._position + size])
        self._position += len(piece)
        return piece


TarInput: TypeAlias = ArrayInput | Readable | socket.socket


_MOST = 1 << 30


def iter_tarfile(src: TarInput, *, max_member_bytes: int = _MOST) -> Iterator[tuple[str, memoryview | bytes]]:
    """Iterate over the regular files of a tar archive.

    The archive may be in ustar, GNU or pax format, with names of any length. It may be compressed by gzip, zstd, xz or
    bzip2, which is recognised by the first bytes. Folders, links and devices are left out.

    Args:
        src: The archive in memory (``bytes``, ``bytearray``, ``memoryview``, ``mmap``, a one-dimensional uint8 array),
            a path, whose file is mapped into memory (see `load_npy`), a URL, whose object is read from beginning to
            end, or a stream: an open binary file, a pipe, a socket. An uncompressed stream is read up to the end of the
            archive and no byte further; a compressed one is read to its end.
        max_member_bytes: The most bytes that a member of a stream or of a compressed archive may have, 1 GiB by
            default. Members of others are views, and may have any number.

    Returns:
        An iterator over names and contents. For an archive in memory or a path, contents are views that keep `src`
        alive and are writable if `src` is; only the headers are read. For streams and compressed archives, contents
        are ``bytes``, read one at a time.

    Raises:
        FormatError: While iterating, if this is not a tar archive, if it is damaged, if it holds a sparse file, or if
            it is truncated: it ends without the blocks of zeros that mark the end; if a file, an archive in memory or
            a compressed stream goes on after that end, as archives do that were joined by ``cat``; if a member has more
            than `max_member_bytes`. Members yielded before are intact.
        OSError: If the file cannot be mapped or the stream fails.
        TypeError: If `src` is something else, or `max_member_bytes` is not an int.
        ValueError: If `max_member_bytes` is negative.

    Example:
        >>> for name, content in iter_tarfile(archive):
        ...     print(name, bytes(content))
        a.txt b'1'
        a.cls b'7'
        b.txt b'2'
    """
    most = check_int("max_member_bytes", max_member_bytes, least=0)
    path: str | None = None
    if type(src) is not bytes:
        if is_url(src):
            file = open_url(os.fspath(src))
            if not isinstance(file, str):
                return iter_stream(file.read, most, url_of(src))
            src = file
        if isinstance(src, (str, os.PathLike)):
            path, src = os.fsdecode(src), map_file(src)
        elif isinstance(src, socket.socket):
            return iter_stream(src.recv, most)
        elif not is_bytes(src, "src") and isinstance(src, Readable):
            # A mapped file can be read like a file, but shows its memory too.
            return iter_stream(src.read, most)
        else:
            src = map_input(src, "src")
    if is_compressed(bytes(memoryview(src)[:8])):
        return iter_stream(BytesReader(src).read, most, path)
    return native.TarViews(src, "") if path is None else _iter_views(src, path)


def _iter_views(archive: Any, path: str) -> Iterator[tuple[str, memoryview]]:
    try:
        yield from native.TarViews(archive, f"{path!r}: ")
    except FormatError as error:
        name_path(error, path)
        raise

"""Iteration over the members of tar archives."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import check_int
from spdl.io._archive.decompress import is_compressed
from spdl.io._archive.tar_stream import BytesReader, iter_stream
from spdl.io._array.array_input import ArrayInput, map_input
from spdl.io._common.format_error import FormatError, name_path
from spdl.io._common.inputs import Readable, is_bytes
from spdl.io._common.mapped_file import map_file
from spdl.io._common.native import native
from spdl.io._common.remote import is_url, open_url, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TarInput: TypeAlias = ArrayInput | Readable | socket.socket


_MOST = 1 << 30


def iter_tarfile(src: TarInput, *, max_member_bytes: int = _MOST) -> Iterator[tuple[str, memoryview | bytes]]:
    """Iterate over the regular files of a tar archive.

    The archive may be in ustar, GNU or pax format, with names of any length. It may be compressed by gzip, zstd, xz or
    bzip2, which is recognised by the first bytes. Folders, links and devices are left out.

    Args:
        src: The archive in memory (``bytes``, ``bytearray``, ``memoryview``, ``mmap``, a one-dimensional uint8 array),
            a path, whose file is mapped into memory (see `load_npy`), a URL, whose object is read from begin to end, or
            a stream: an open binary file, a pipe, a
            socket. An uncompressed stream is read up to the end of the archive and no byte further; a compressed one
            is read to its end.
        max_member_bytes: The most bytes that a member of a stream or of a compressed archive may have, 1 GiB by
            default. Members of others are views, and may have any number.

    Returns:
        An iterator over names and contents. For an archive in memory or a path, contents are views that keep `src`
        alive and are writable if `src` is; only the headers are read. For streams and compressed archives, contents
        are ``bytes``, read one at a time.

    Raises:
        FormatError: While iterating, if this is no tar archive, if it is damaged, if it holds a sparse file, or if it
            is truncated: it ends without the blocks of zeros that mark the end; if a member has more than
            `max_member_bytes`. Members yielded before are intact.
        OSError: If the file cannot be mapped or the stream fails.
        TypeError: If `src` is none of these, or `max_member_bytes` no int.
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

"""The inputs that hold arrays and archives, and the targets that they are written to."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse
from spdl._files import replaced
from spdl.io._common.errors import FormatError, name_path
from spdl.io._common.inputs import map_file, resolve, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    ArrayTarget: TypeAlias = str | os.PathLike[str] | IO[bytes]
    Write: TypeAlias = Callable[[bytes | memoryview], object]

ArrayInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path or the content of the file.

A file is mapped into memory, read-only. Content is anything with the buffer protocol (``bytes``, ``bytearray``,
``memoryview``, ``mmap``, a one-dimensional uint8 array) or ``__array__`` (a tensor in main memory).
"""


def map_input(value: ArrayInput, argument: str, index: int | None = None) -> Any:
    """Return an object whose bytes are contiguous: the file, mapped, or the given bytes themselves.

    Raises a TypeError if it is neither a path nor bytes, and an OSError if the file cannot be mapped.
    """
    content = resolve(value, argument, index, files=False)
    return map_file(content) if isinstance(content, str) else content


def name_of(value: str | os.PathLike[str]) -> str:
    """Return what messages call a path, or a URL: without what may be a secret."""
    return url_of(value) or os.fsdecode(value)


def name_file(error: FormatError, value: ArrayInput) -> None:
    """Put the file's name in front of an error about its content, and into the error, if the input is a path."""
    if isinstance(value, (str, os.PathLike)):
        error.args = (f"{name_of(value)!r}: {error}",)
        name_path(error, name_of(value))


def opened(dst: ArrayTarget) -> AbstractContextManager[Write]:
    """Open a path for writing, or take an open file; gives a function that writes all of what it gets."""
    if not (isinstance(dst, (str, os.PathLike)) or hasattr(dst, "write")):
        # Not in the generator, whose caller is the standard library.
        refuse(TypeError, "dst", "a path (str or os.PathLike) or a file opened in binary mode", dst)
    return _opened(dst)


@contextmanager
def _opened(dst: ArrayTarget) -> Iterator[Write]:
    if isinstance(dst, (str, os.PathLike)):
        with replaced(dst) as file:
            yield file.write
    elif isinstance(dst, io.RawIOBase):
        yield partial(_write_all, dst)
    else:
        yield dst.write


def _write_all(file: Any, data: bytes | memoryview) -> None:
    """Write to an unbuffered file, which may take only a part at a time."""
    left = memoryview(data)
    while len(left) > 0:
        written = file.write(left)
        if not written:
            raise BlockingIOError("the file takes nothing now: it is non-blocking, and has to block")
        left = left[written:]

"""The targets that arrays and archives are written to: a path, whose file is replaced, or an open file."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse
from spdl._replaced import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    ArrayTarget: TypeAlias = str | os.PathLike[str] | IO[bytes]

    Write: TypeAlias = Callable[[bytes | memoryview], object]


def opened(dst: ArrayTarget) -> AbstractContextManager[Write]:
    """Open a path for writing, or take an open file; gives a function that writes all of what it gets.

    Raises:
        TypeError: If `dst` is neither.
    """
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
            msg = "the file takes nothing now: it is non-blocking, and has to block"
            raise BlockingIOError(msg)
        left = left[written:]

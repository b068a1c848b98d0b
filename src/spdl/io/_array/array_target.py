"""The targets that arrays and archives are written to: a path, whose file is replaced, or an open file."""

from __future__ import annotations

import io
import os
import stat
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse
from spdl.io._common.address import not_to_write

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


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that replaces the one at `path` when it is complete, and never if writing fails.

    Readers and mappings of the old file keep it, even if it is the array that is being written. Anything but a regular
    file, such as a pipe, is opened and written to.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - takes what os.fspath takes.
    except FileNotFoundError:
        mode = None
    else:
        if not stat.S_ISREG(status.st_mode):
            with open(path, "wb") as file:  # noqa: PTH123 - half the time of Path.open.
                yield file
            return
        mode = stat.S_IMODE(status.st_mode)
        if not os.access(path, os.W_OK):
            # A file need not be writable to be replaced, but a read-only file is to stay.
            open(path, "r+b").close()  # noqa: PTH123 - raises.
    # The target of a link is replaced, not the link.
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)  # noqa: PTH120
    temporary = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")  # noqa: PTH118
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # The user does not know the name of the new file.
        error.filename = folder
        raise not_to_write(error, path) from None
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor.
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise


def _write_all(file: Any, data: bytes | memoryview) -> None:
    """Write to an unbuffered file, which may take only a part at a time."""
    left = memoryview(data)
    while len(left) > 0:
        written = file.write(left)
        if not written:
            msg = "the file takes nothing now: it is non-blocking, and has to block"
            raise BlockingIOError(msg)
        left = left[written:]

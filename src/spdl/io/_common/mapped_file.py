"""Files that are mapped into memory."""

from __future__ import annotations

import errno
import os
import stat

from spdl.io._common.errors import FormatError
from spdl.io._common.native import native


def map_file(path: str | os.PathLike[str]) -> native.MappedFile | bytes:
    """Map a file into memory, read-only. A file that cannot be mapped, such as a pipe, is read instead."""
    try:
        # Python's own mapping keeps a descriptor: a program may have more arrays than files that it may open.
        return native.map_file(os.fsdecode(path))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
    with open(path, "rb") as file:  # noqa: PTH123 - half the time of Path.open.
        return file.read()


def map_regular(path: str | os.PathLike[str]) -> native.MappedFile | bytes:
    """Map a file as `map_file` does; any part may be asked for at any time.

    Raises:
        FormatError: If it is a pipe, a socket or a device. Opening one could wait forever.
        OSError: If it cannot be mapped.
    """
    check_regular(path)
    return map_file(path)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise FormatError if a path names a pipe, a socket or a device; see `map_regular`."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - takes what os.fspath takes.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        name = os.fsdecode(path)
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        msg = f"{name!r} is {kind}, and only of a file can any part be read: write its content to a file"
        raise FormatError(msg, path=name)

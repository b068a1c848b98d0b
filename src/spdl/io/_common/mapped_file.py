"""Files that are mapped into memory."""

from __future__ import annotations

import errno
import os

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

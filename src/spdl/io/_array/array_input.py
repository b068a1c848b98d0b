"""Where arrays and archives come from: a path, which is mapped, or bytes, which are used in place."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.io._common.address import not_to_read
from spdl.io._common.native import native

if TYPE_CHECKING:
    from spdl.io._common.format_error import FormatError

ArrayInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path or the content of the file.

A file is mapped into memory, read-only. Content is anything with the buffer protocol (``bytes``, ``bytearray``,
``memoryview``, ``mmap``, a one-dimensional uint8 array) or ``__array__`` (a tensor in main memory).
"""


def resolve(given: ArrayInput, name: str) -> Any:
    """Bring an input into the form that native code takes: an object whose bytes are contiguous.

    Raises:
        TypeError: If it is neither a path nor bytes; the message names the argument `name`.
        OSError: If the file cannot be mapped.
    """
    if type(given) is bytes:
        return given
    if isinstance(given, (str, os.PathLike)):
        return map_file(given)
    content: Any = given
    try:
        view = memoryview(content)
    except (BufferError, TypeError, ValueError) as error:
        if not hasattr(given, "__array__"):
            # A mapping that was closed, a view that was released.
            reason = f", of which Python says: {error}" if isinstance(error, ValueError) else ""
            msg = (
                f"`{name}` must be a path (str or os.PathLike) or bytes (bytes, bytearray, memoryview, mmap, or a "
                f"one-dimensional uint8 array), got {type(given).__name__}{reason}"
            )
            raise TypeError(msg) from None
        content = content.__array__()
        view = memoryview(content)
    with view:
        if view.ndim != 1 or view.itemsize != 1:
            msg = (
                f"`{name}` must be a one-dimensional array of single bytes, got {view.ndim} dimensions of "
                f"{view.itemsize}-byte elements"
            )
            raise TypeError(msg)
        if not view.c_contiguous:
            msg = (
                f"`{name}` must be contiguous, to be read in place, got bytes with gaps or in reverse: "
                "pass a copy, such as bytes(array)"
            )
            raise TypeError(msg)
    return content


def map_file(path: str | os.PathLike[str]) -> native.MappedFile | bytes:
    """Map a file into memory, read-only. What cannot be mapped, such as a pipe, is read."""
    try:
        # Python's own mapping keeps a descriptor: a program may have more arrays than files that it may open.
        return native.map_file(os.fsdecode(path))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise not_to_read(error, path) from None
    with open(path, "rb") as file:  # noqa: PTH123 - half the time of Path.open.
        return file.read()


def look_at(path: str | os.PathLike[str]) -> os.stat_result:
    """Return what the system knows of a file."""
    try:
        return os.stat(path)  # noqa: PTH116 - takes what os.fspath takes.
    except OSError as error:
        raise not_to_read(error, path) from None


def file_prefix(given: ArrayInput) -> str:
    """Return what errors begin with where the input is a path, and else nothing."""
    return f"{os.fsdecode(given)!r}: " if isinstance(given, (str, os.PathLike)) else ""


def name_file(error: FormatError, given: ArrayInput) -> None:
    """Put the file in front of what an error says of its content, if the input is a path."""
    error.args = (f"{file_prefix(given)}{error}",)

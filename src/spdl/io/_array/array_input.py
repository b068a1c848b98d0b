"""The inputs that hold arrays and archives."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from spdl.io._common.format_error import FormatError, name_path
from spdl.io._common.inputs import resolve
from spdl.io._common.mapped_file import map_file
from spdl.io._common.remote import url_of

ArrayInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path or the content of the file.

A file is mapped into memory, read-only. Content is anything with the buffer protocol (``bytes``, ``bytearray``,
``memoryview``, ``mmap``, a one-dimensional uint8 array) or ``__array__`` (a tensor in main memory).
"""


def map_input(value: ArrayInput, argument: str, index: int | None = None) -> Any:
    """Return an object whose bytes are contiguous: the file, mapped, or the given bytes themselves.

    Args:
        value: The input.
        argument: The name of the argument, for messages.
        index: The input's position, if the argument holds several.

    Raises:
        TypeError: If it is neither a path nor bytes.
        OSError: If the file cannot be mapped.
    """
    content = resolve(value, argument, index, files=False)
    return map_file(content) if isinstance(content, str) else content


def file_prefix(value: ArrayInput) -> str:
    """Return the beginning of error messages: the file's name if the input is a path, else nothing."""
    return f"{name_of(value)!r}: " if isinstance(value, (str, os.PathLike)) else ""


def name_of(value: str | os.PathLike[str]) -> str:
    """Return what messages call a path, or a URL: without what may be a secret."""
    return url_of(value) or os.fsdecode(value)


def name_file(error: FormatError, value: ArrayInput) -> None:
    """Put the file's name in front of an error about its content, and into the error, if the input is a path."""
    error.args = (f"{file_prefix(value)}{error}",)
    if isinstance(value, (str, os.PathLike)):
        name_path(error, name_of(value))

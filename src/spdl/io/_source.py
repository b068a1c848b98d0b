"""What may be given as an encoded image."""

import os
from typing import Any, Protocol, TypeAlias, runtime_checkable

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.


@runtime_checkable
class _Readable(Protocol):
    def read(self) -> bytes: ...


ImageSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path, the encoded bytes, or an open binary file.

Bytes are ``bytes``, ``bytearray``, ``memoryview``, a one-dimensional uint8 array or tensor in main memory: anything
with the buffer protocol or ``__array__``. They are read in place, so they must not be written to meanwhile.
"""


def resolve(source: ImageSource) -> Any:
    """Bring a source into one of the two forms that native code takes.

    Returns:
        A ``str``, which is a path, or an object with the buffer protocol, which is encoded bytes.

    Raises:
        TypeError: If it is neither a path, nor bytes, nor a binary file.
    """
    if type(source) is str or isinstance(source, (bytes, bytearray, memoryview)):
        return source
    if isinstance(source, (str, os.PathLike)):
        # Names that are not UTF-8 keep their bytes as surrogate escapes.
        return os.fsdecode(source)
    if _has_buffer(source):
        return source
    if isinstance(source, _Readable):
        content: object = source.read()
        if not isinstance(content, (bytes, bytearray, memoryview)):
            msg = f"a file of an encoded image must be opened in binary mode: read() returned {type(content).__name__}"
            raise TypeError(msg)
        return content
    if hasattr(source, "__array__"):
        return source.__array__()
    msg = (
        "an image source must be a path (str or os.PathLike), encoded bytes (bytes, bytearray, memoryview, or a "
        f"one-dimensional uint8 array), or a binary file, got {type(source).__name__}"
    )
    raise TypeError(msg)


def describe(source: object, name: str | None) -> str:
    """Name a resolved source for error messages: by `name` where given, else by its path or its size."""
    if name is None and isinstance(source, str):
        name = source
    if name is not None:
        # Names that are not UTF-8 hold surrogates, which no message can carry.
        return name.encode("utf-8", "backslashreplace").decode()
    return f"image of {memoryview(source).nbytes} bytes"  # type: ignore[arg-type]


def _has_buffer(source: object) -> bool:
    try:
        memoryview(source).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True

"""What may be given as an encoded image."""

import os
from typing import Any, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class _Readable(Protocol):
    def read(self) -> bytes: ...


ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path, the encoded bytes, or an open binary file.

Bytes are ``bytes``, ``bytearray``, ``memoryview``, a one-dimensional uint8 array or tensor in main memory: anything
with the buffer protocol or ``__array__``. They are read in place, so they must not be written to meanwhile.
"""


def resolve(given: ImageInput, index: int | None = None) -> Any:
    """Bring an input into one of the two forms that native code takes.

    Returns:
        A ``str``, which is a path, or an object with the buffer protocol, which is encoded bytes.

    Raises:
        TypeError: If it is neither a path, nor bytes, nor a binary file. `index` is its place in `srcs`, for the
            message; None where there is one input alone.
    """
    if type(given) is str or isinstance(given, (bytes, bytearray)):
        return given
    if isinstance(given, (str, os.PathLike)):
        # Names that are not UTF-8 keep their bytes as surrogate escapes.
        return os.fsdecode(given)
    name = "src" if index is None else f"srcs[{index}]"
    if _is_bytes(given, name):
        return given
    if isinstance(given, _Readable):
        try:
            content: object = given.read()
        except Exception as error:
            error.add_note(f"spdl.io was reading `{name}`")
            raise
        if _is_bytes(content, name):
            return content
        msg = f"`{name}` must be a file opened in binary mode: its read() returned {type(content).__name__}"
        raise TypeError(msg)
    if hasattr(given, "__array__"):
        array = given.__array__()
        if _is_bytes(array, name):
            return array
    msg = (
        f"`{name}` must be a path (str or os.PathLike), encoded bytes (bytes, bytearray, memoryview, or a "
        f"one-dimensional uint8 array), or a binary file, got {type(given).__name__}"
    )
    raise TypeError(msg)


def is_single(given: object) -> bool:
    """Whether this is one input, though it may be iterable: a path, its characters; a file, its lines."""
    return isinstance(given, (str, bytes, bytearray, memoryview, os.PathLike, _Readable))


def describe(given: object, name: str | None) -> str:
    """Name a resolved input for error messages: by `name` where given, else by its path or its size."""
    if name is None and isinstance(given, str):
        name = given
    if name is not None:
        # Names that are not UTF-8 hold surrogates, which no message can carry; a null character would end it.
        return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00") or "''"
    return f"image of {memoryview(given).nbytes} bytes"  # type: ignore[arg-type]


def _is_bytes(given: Any, name: str) -> bool:
    """Whether this shows its memory; raises TypeError where that holds no bytes that can be read in place."""
    try:
        view = memoryview(given)
    except (BufferError, TypeError, ValueError):
        return False
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
    return True

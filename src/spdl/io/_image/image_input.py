"""The inputs that hold encoded images."""

import os
from typing import Any, TypeAlias

ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
"""A path, the encoded bytes, or an open binary file.

Bytes are ``bytes``, ``bytearray``, ``memoryview``, a one-dimensional uint8 array or tensor in main memory: anything
with the buffer protocol or ``__array__``. They are read in place, so they must not be written to meanwhile.
"""


def describe(resolved: object, name: str | None) -> str:
    """Return how error messages call a resolved input: `name` if there is one, else its path or its size."""
    if name is None and isinstance(resolved, str):
        name = resolved
    if name is not None:
        # Names that are not UTF-8 hold surrogates, which no message can carry; a null character would end it.
        return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00") or "''"
    return f"image of {memoryview(resolved).nbytes} bytes"  # type: ignore[arg-type]

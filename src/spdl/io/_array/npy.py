"""Arrays in NumPy's .npy format."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._check import refuse, refuse_masked
from spdl.io._array.array_io import ArrayInput, map_input, name_file, opened
from spdl.io._common.errors import FormatError
from spdl.io._common.native import native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from spdl.io._array.array_io import ArrayTarget

    DType: TypeAlias = np.dtype[Any]

# numpy aligns the elements to this, so that a file can be mapped.
_ALIGNMENT = 64

# The longest header of version 1.
_MAX_SHORT = 0xFFFF


def load_npy(data: ArrayInput, *, copy: bool = False) -> np.ndarray[Any, Any]:
    """View the content of a .npy file as an array.

    For bytes in memory, only the header is read. That takes less than a microsecond, so the GIL is kept. Bytes after
    the array are ignored. Nothing is ever unpickled.

    Args:
        data: The content (``bytes``, ``bytearray``, ``memoryview``, ``mmap`` or a one-dimensional uint8 array) or a
            path, whose file is mapped into memory, read-only. While a view of the file lives, the file may be replaced,
            as `save_npy` does, but not truncated: reading a part that is gone ends the process (SIGBUS).
        copy: Whether the array gets its own memory, which is writable.

    Returns:
        An array of any dtype, byte order, shape and memory order that ``numpy.save`` writes without pickle. Unless
        `copy` is true, it shares memory with `data`, keeps `data` alive, and is writable if `data` is. Its alignment
        follows from its position in `data`.

    Raises:
        FormatError: If this is not npy data, if it is truncated or damaged, or if it holds Python objects.
        OSError: If the file cannot be mapped.
        TypeError: If `data` is neither a path nor bytes.

    Example:
        >>> file = io.BytesIO()
        >>> save_npy(file, np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> load_npy(file.getvalue())
        array([[0., 1., 2.],
               [3., 4., 5.]], dtype=float32)
    """
    content = data if type(data) is bytes else map_input(data, "data")
    try:
        return native.load_npy(content, copy)
    except FormatError as error:
        name_file(error, data)
        raise


def save_npy(dst: ArrayTarget, array: ArrayLike) -> None:
    """Write an array as a .npy file, which ``numpy.load`` reads too.

    Args:
        dst: A path or a file opened for writing in binary mode. Unlike ``numpy.save``, this appends nothing to the
            path. An existing file is replaced when the new one is complete, so arrays that are views of it keep their
            values, even if `array` is one of them.
        array: An array of any shape and dtype except ``object``, or anything that numpy turns into one. It is written
            without a copy, unless it has gaps.

    Raises:
        OSError: If the file cannot be written, or, to replace a file, its folder.
        TypeError: If the array holds Python objects, which would have to be pickled (nothing is written then), or if
            `dst` is neither a path nor a file.

    Example:
        >>> file = io.BytesIO()
        >>> save_npy(file, [[1, 2], [3, 4]])
        >>> np.load(io.BytesIO(file.getvalue()))
        array([[1, 2],
               [3, 4]])
    """
    header, payload = npy_parts(array, "array")
    with opened(dst) as write:
        write(header)
        write(payload)


def npy_parts(array: ArrayLike, name: str) -> tuple[bytes, memoryview]:
    """Return the header and the elements of an array as .npy data. Errors call the array `name`."""
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.
    from numpy.lib.format import dtype_to_descr  # noqa: PLC0415

    refuse_masked(name, array)
    given = np.asarray(array)
    if given.dtype.hasobject:
        remedy = "They would have to be pickled: convert them to numbers, or to strings as in `array.astype(str)`."
        refuse(TypeError, name, "an array without Python objects", given.dtype, remedy)
    fortran = given.flags.f_contiguous and not given.flags.c_contiguous
    text = f"{{'descr': {dtype_to_descr(given.dtype)!r}, 'fortran_order': {fortran}, 'shape': {given.shape!r}, }}"
    ordered = given.T if fortran else given if given.flags.c_contiguous else given.copy(order="C")
    elements = ordered.reshape(-1)
    payload = elements.view(np.uint8).data if elements.nbytes else memoryview(b"")
    return _header(text), payload


def _header(text: str) -> bytes:
    try:
        encoded, version = text.encode("latin1"), 1
    except UnicodeEncodeError:
        encoded, version = text.encode(), 3
    if version == 1 and len(encoded) + _ALIGNMENT > _MAX_SHORT:
        version = 2
    width = 2 if version == 1 else 4
    lead = 8 + width
    padding = -(lead + len(encoded) + 1) % _ALIGNMENT
    encoded += b" " * padding + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(encoded).to_bytes(width, "little") + encoded


# As numpy writes a plain type: the byte order, a letter, a size, and for times the unit.
_PLAIN = re.compile(r"[<>|=]?[a-zA-Z][0-9]{0,10}(?:\[[0-9a-zA-Z/]{1,24}\])?")

_SHOWN = 60


def plain_dtype(text: str) -> DType:
    """Return the type that a string describes, such as ``">f4"``."""
    if _PLAIN.fullmatch(text) is None:
        msg = f"the npy header describes its elements as {_shown(text)}, which is not a type that numpy writes"
        raise FormatError(msg)
    return _accepted(text, text)


def structured_dtype(text: str) -> DType:
    """Return the type that a list of fields describes. `text` is a Python literal with matching brackets."""
    try:
        fields = _literal(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        msg = f"the npy header describes its elements by a list that cannot be read: {_shown(text)}"
        raise FormatError(msg) from error
    return _accepted(fields, text)


def _literal(text: str) -> Any:
    if sys.version_info < (3, 11, 8):
        # The parser there counts the depth of all threads together, so it fails if another one parses at the same time
        # (https://github.com/python/cpython/issues/106905).
        for _ in range(1000):
            try:
                return ast.literal_eval(text)
            except SystemError:
                continue
    return ast.literal_eval(text)


def _accepted(descr: Any, text: str) -> DType:
    from numpy.lib.format import descr_to_dtype  # noqa: PLC0415 - as above.

    try:
        dtype: DType = descr_to_dtype(descr)
    except Exception as error:
        msg = f"the npy header describes its elements as {_shown(text)}, which numpy does not accept: {error}"
        raise FormatError(msg) from error
    if dtype.hasobject:
        raise FormatError(
            f"the npy data holds Python objects ({_shown(text)}): reading them would mean unpickling, which may run "
            "any code. Save plain arrays, with np.save(..., allow_pickle=False), and metadata as text"
        )
    return dtype


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")

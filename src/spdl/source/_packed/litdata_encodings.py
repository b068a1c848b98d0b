"""How LitData writes the parts of a sample."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import FormatError
from spdl.source._packed.item_list import decode_list
from spdl.source._packed.nested import decode_nested
from spdl.source._packed.picture import decode_picture

if TYPE_CHECKING:
    from collections.abc import Callable

    Decode = Callable[[memoryview], Any]

__all__ = ["find_decoder"]

_ARRAYS = ("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?")
_TENSORS: dict[int, str] = {0: "<f4", 1: "<f4", 2: "<f8", 3: "<f8", 4: "<c8", 5: "<c8", 6: "<c16", 7: "<c16"}
_TENSORS |= {8: "<f2", 9: "<f2", 11: "u1", 12: "i1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8"}
_TENSORS |= {19: "?", 20: "<u2"}
_MOST_DIMENSIONS = 64
# The contents of files, with the ending of their names behind a colon.
_FILES = ("image", "audio", "video", "nifti", "mesh")


def find_decoder(name: str) -> Decode | None:
    """Return what decodes a format by its name; None if it cannot be read.

    Raises:
        FormatError: If it names an unknown type of arrays.
    """
    kind, _, code = name.partition(":")
    if kind in ("no_header_numpy", "no_header_tensor") and code.isascii() and code.isdigit():
        dtype = _dtype(int(code), tensor=kind == "no_header_tensor")
        return partial(np.frombuffer, dtype=dtype)
    if kind in _FILES and code:
        return memoryview
    return _DECODERS.get(name)


def _dtype(code: int, *, tensor: bool) -> np.dtype[Any]:
    known = _TENSORS if tensor else dict(enumerate(_ARRAYS))
    if code not in known:
        raise FormatError(f"{'tensors' if tensor else 'arrays'} of the type {code} are not read")
    return np.dtype(known[code])


def _array(content: memoryview, *, tensor: bool) -> Any:
    order = ">" if tensor else "<"
    code, count = struct.unpack_from(f"{order}2I", content)
    if count > _MOST_DIMENSIONS:
        raise FormatError(f"an array has {count} dimensions")
    shape = struct.unpack_from(f"{order}{count}I", content, 8)
    return np.frombuffer(content[8 + 4 * count :], _dtype(code, tensor=tensor)).reshape(shape)


def _number(content: memoryview, *, code: str) -> Any:
    (value,) = struct.unpack(code, content)
    return value


def _text(content: memoryview) -> str:
    return bytes(content).decode("utf-8")


_DECODERS: dict[str, Decode] = {
    "str": _text,
    "text": _text,
    "bytes": bytes,
    "int": partial(_number, code="<q"),
    "float": partial(_number, code="<d"),
    "bool": partial(_number, code="?"),
    "json": decode_nested,
    # Still encoded: the loaders decode them.
    "jpeg": memoryview,
    "file": memoryview,
    "pdf": memoryview,
    "tifffile": memoryview,
    "jpeg_array": partial(decode_list, decode=memoryview),
    "pil": partial(decode_picture, mode_first=False),
    "numpy": partial(_array, tensor=False),
    "tensor": partial(_array, tensor=True),
}

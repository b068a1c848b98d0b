"""How MosaicML Streaming writes the columns of a sample."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import FormatError
from spdl.source._packed.item_list import decode_list
from spdl.source._packed.picture import decode_picture

if TYPE_CHECKING:
    from collections.abc import Callable

    Decode = Callable[[memoryview], Any]

__all__ = ["find_decoder"]

_NUMBERS = re.compile(r"(u?int|float)(8|16|32|64)")
_ARRAY = re.compile(r"ndarray(?::([a-z0-9]+)(?::([0-9]+(?:,[0-9]+)*))?)?")
# The first byte of an array says its type: the number of bits, and this.
_KINDS = "uif"
# The second byte says how many dimensions there are, and how many bytes each has.
_WIDTHS = ("u1", "<u2", "<u4", "<u8")


def find_decoder(encoding: str) -> Decode | None:
    """Return what decodes an encoding by its name; None if none can be read."""
    if encoding in _DECODERS:
        return _DECODERS[encoding]
    if match := _NUMBERS.fullmatch(encoding):
        return partial(_number, dtype=_dtype(encoding)) if match[0] != "float8" else None
    if match := _ARRAY.fullmatch(encoding):
        shape = tuple(map(int, match[2].split(","))) if match[2] else None
        return partial(_array, dtype=_dtype(match[1]) if match[1] else None, shape=shape)
    return None


def _dtype(name: str) -> np.dtype[Any]:
    if not _NUMBERS.fullmatch(name):
        raise FormatError(f"there are no arrays of the type {name!r}")
    return np.dtype(name).newbyteorder("<")


def _number(content: memoryview, *, dtype: np.dtype[Any]) -> Any:
    (value,) = np.frombuffer(content, dtype)
    return value


def _array(content: memoryview, *, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> Any:
    place = 0
    if dtype is None:
        code = content[0]
        bits, kind = code & ~3, code & 3
        if kind >= len(_KINDS) or bits not in (8, 16, 32, 64) or (kind == 2 and bits == 8):  # noqa: PLR2004
            raise FormatError(f"an array has the unknown type {code}")
        dtype = np.dtype(f"<{_KINDS[kind]}{bits // 8}")
        place = 1
    if shape is None:
        count, width = divmod(content[place], len(_WIDTHS))
        sizes = np.frombuffer(content[place + 1 :], _WIDTHS[width], count)
        shape = tuple(sizes.tolist())
        place += 1 + sizes.nbytes
    return np.frombuffer(content[place:], dtype).reshape(shape)


def _text(content: memoryview) -> str:
    return bytes(content).decode("utf-8")


def _json(content: memoryview) -> Any:
    return json.loads(bytes(content))


def _int(content: memoryview) -> int:
    return int(_number(content, dtype=np.dtype("<i8")))


def _text_int(content: memoryview) -> int:
    return int(_text(content))


def _text_float(content: memoryview) -> float:
    return float(_text(content))


def _decimal(content: memoryview) -> Decimal:
    try:
        return Decimal(_text(content))
    except InvalidOperation as error:
        raise FormatError(f"{bytes(content[:40])!r} is no decimal number") from error


_DECODERS: dict[str, Decode] = {
    "bytes": bytes,
    "str": _text,
    "int": _int,
    "str_int": _text_int,
    "str_float": _text_float,
    "str_decimal": _decimal,
    "json": _json,
    # Still encoded: the loaders decode them.
    "jpeg": memoryview,
    "png": memoryview,
    "pil": partial(decode_picture, mode_first=False),
}
_DECODERS |= dict.fromkeys(("jpegarray", "jpeg_array"), partial(decode_list, decode=memoryview))
# Behind a number that is always 0.
_DECODERS |= {f"list[{name}]": partial(decode_list, decode=_DECODERS[name], skip=4) for name in ("jpeg", "png", "pil")}

"""Lists and dicts as LitData writes them: as JSON, or in a form of its own with a tag before each value."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decode_nested"]

_WORD = struct.Struct("<I")
_INTEGER = struct.Struct("<q")
_REAL = struct.Struct("<d")
_MOST_TAG = 0x20
"""A text of JSON begins with a larger byte."""


def decode_nested(content: memoryview) -> Any:
    """Return a value.

    Raises:
        ValueError, IndexError, struct.error, RecursionError, FormatError: If the bytes are damaged.
    """
    if not len(content) or content[0] > _MOST_TAG:
        return json.loads(bytes(content))
    reader = _Reader(content)
    value = reader.tagged()
    reader.check_end()
    return value


class _Reader:
    """Reads values one after the other."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._place = 0

    def check_end(self) -> None:
        if self._place != len(self._content):
            raise FormatError("there are bytes behind its end")

    def tagged(self) -> Any:
        tag = self._take(1)[0]
        if tag not in _TAGGED:
            raise FormatError(f"a value in it has the unknown tag {tag}")
        return _TAGGED[tag](self)

    def _take(self, count: int) -> memoryview:
        part = self._content[self._place : self._place + count]
        if len(part) != count:
            raise FormatError("it ends too early")
        self._place += count
        return part

    def _count(self) -> int:
        """Return how many values follow, each of which takes a byte or more, but for records without fields."""
        (count,) = _WORD.unpack(self._take(_WORD.size))
        return int(count)

    def json(self) -> Any:
        return json.loads(bytes(self._take(self._count())))

    def text(self) -> str:
        return bytes(self._take(self._count())).decode("utf-8")

    def integer(self) -> int:
        return int(_INTEGER.unpack(self._take(_INTEGER.size))[0])

    def real(self) -> float:
        return float(_REAL.unpack(self._take(_REAL.size))[0])

    def flag(self) -> bool:
        return self._take(1)[0] != 0

    def nothing(self) -> None:
        return None

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self._count())]

    def integers(self) -> Any:
        return np.frombuffer(self._take(_INTEGER.size * self._count()), "<i8").tolist()

    def reals(self) -> Any:
        return np.frombuffer(self._take(_REAL.size * self._count()), "<f8").tolist()

    def flags(self) -> list[bool]:
        return [each != 0 for each in self._take(self._count())]

    def mapping(self) -> dict[str, Any]:
        found = {}
        for _ in range(self._count()):
            name = self.text()
            found[name] = self.tagged()
        return found

    def records(self) -> list[dict[str, Any]]:
        count = self._count()
        names = self.texts()
        if not names and count > len(self._content):
            raise FormatError(f"it says it has {count} records without fields")
        return [{name: self._field() for name in names} for _ in range(count)]

    def _field(self) -> Any:
        kind = self._take(1)[0]
        if kind not in _FIELDS:
            raise FormatError(f"a field in it has the unknown tag {kind}")
        return _FIELDS[kind](self)


_TAGGED: dict[int, Callable[[_Reader], Any]] = {
    0: _Reader.json,
    1: _Reader.texts,
    2: _Reader.integers,
    3: _Reader.reals,
    4: _Reader.flags,
    5: _Reader.mapping,
    6: _Reader.records,
    7: _Reader.text,
    8: _Reader.integer,
    9: _Reader.real,
    10: _Reader.flag,
    11: _Reader.nothing,
}
_FIELDS: dict[int, Callable[[_Reader], Any]] = {
    16: _Reader.nothing,
    17: _Reader.text,
    18: _Reader.integer,
    19: _Reader.real,
    20: _Reader.flag,
}

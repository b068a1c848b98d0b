"""What the bytes of an item stand for."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl.io import FormatError
from spdl.io._archive.decompress import decompressed, is_compressed
from spdl.io._archive.tar_stream import BytesReader
from spdl.source._parquet.shard import import_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.source._records.place import Place

__all__ = ["METHODS", "Packing", "Tree", "decode_nested", "decode_picture", "open_packed"]

_VERSION = 1


class Tree:
    """The structure of a sample.

    Args:
        text: What PyTorch has written of it.

    Attributes:
        count: How many leaves there are.

    Raises:
        FormatError: If it has other parts than dicts, lists and tuples, or is damaged.
    """

    def __init__(self, text: str) -> None:
        try:
            version, root = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(f"its 'data_spec' is no structure of samples: {error}") from error
        if version != _VERSION:
            raise FormatError(f"its 'data_spec' has version {version!r}, and {_VERSION} is read")
        self._text = text
        try:
            self._make, self.count = _read(root)
        except RecursionError as error:
            raise FormatError("its 'data_spec' has too many levels") from error

    def build(self, leaves: list[Any]) -> Any:
        """Return leaves in their structure."""
        return self._make(iter(leaves))

    def __reduce__(self) -> tuple[type[Tree], tuple[str]]:
        return Tree, (self._text,)


def _read(node: Any) -> tuple[Callable[[Iterator[Any]], Any], int]:
    if not isinstance(node, dict) or not isinstance(node.get("children_spec"), list):
        raise FormatError(f"its 'data_spec' is damaged: {str(node)[:80]}")
    kind, inner = node.get("type"), [_read(child) for child in node["children_spec"]]
    count = sum(leaves for _, leaves in inner)
    makers = [maker for maker, _ in inner]
    if kind is None:
        return next, 1
    if kind == "builtins.dict":
        names = _names(node.get("context"), len(makers))
        return lambda leaves: {name: make(leaves) for name, make in zip(names, makers, strict=True)}, count
    if kind == "builtins.list":
        return lambda leaves: [make(leaves) for make in makers], count
    if kind == "builtins.tuple":
        return lambda leaves: tuple([make(leaves) for make in makers]), count
    raise FormatError(f"its samples have parts of the type {kind!r}: only dicts, lists and tuples are read")


def _names(context: Any, count: int) -> list[Any]:
    try:
        names = json.loads(context)
    except (ValueError, TypeError) as error:
        raise FormatError(f"its 'data_spec' is damaged: {str(context)[:80]}") from error
    if not isinstance(names, list) or len(names) != count or not all(isinstance(each, str | int) for each in names):
        raise FormatError(f"its 'data_spec' is damaged: {str(context)[:80]}")
    return names


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


# How many values a pixel has, and of which type, by Pillow's modes.
_MODES = {"L": (1, "u1"), "RGB": (3, "u1"), "RGBA": (4, "u1"), "CMYK": (4, "u1"), "YCbCr": (3, "u1"), "HSV": (3, "u1")}
_MODES |= {"LA": (2, "u1"), "La": (2, "u1"), "PA": (2, "u1"), "P": (1, "u1"), "LAB": (3, "u1"), "RGBX": (4, "u1")}
_MODES |= {"RGBa": (4, "u1"), "I": (1, "<i4"), "F": (1, "<f4"), "I;16": (1, "<u2"), "I;16L": (1, "<u2")}
_MODES |= {"I;16B": (1, ">u2")}
# A bit for each pixel.
_BITS = "1"


def decode_picture(content: memoryview, *, mode_first: bool) -> np.ndarray[Any, Any]:
    """Return the pixels of a picture of Pillow's that was stored with its size and mode.

    Args:
        content: Three numbers, the mode, and the pixels.
        mode_first: Whether the length of the mode is the first of the numbers, or the last.
    """
    numbers = struct.unpack_from("<3I", content)
    length, width, height = numbers if mode_first else (numbers[2], *numbers[:2])
    mode = bytes(content[12 : 12 + min(length, 16)]).decode("ascii", "replace")
    if mode == _BITS:
        rows = np.frombuffer(content[12 + length :], np.uint8).reshape((height, -(-width // 8)))
        return np.unpackbits(rows, axis=1, count=width).view(bool)
    if mode not in _MODES:
        raise FormatError(f"pictures of the mode {mode!r} cannot be read: {', '.join((_BITS, *_MODES))} can")
    channels, kind = _MODES[mode]
    pixels = np.frombuffer(content[12 + length :], kind)
    return pixels.reshape((height, width, channels) if channels > 1 else (height, width))


METHODS = ("zstd", "gz", "bz2", "br", "snappy")
"""The names of the methods, as Streaming has them."""

# Those whose streams have no mark at their beginning, with their names in pyarrow, which decompresses them.
_UNMARKED = {"br": "brotli", "snappy": "snappy"}


class Packing(NamedTuple):
    """How a file is compressed."""

    method: str
    size: int
    """How many bytes the content has, by the index."""

    def check(self) -> None:
        """Raise ImportError if a library is missing that the method needs; the message has the command."""
        if self.method in _UNMARKED:
            import_arrow(f"A shard that is compressed by {self.method}")


def open_packed(place: Place, packing: Packing | None) -> Callable[[int], bytes]:
    """Return a function that reads the content of a compressed file, so many bytes at a time.

    Args:
        place: Where the file is.
        packing: How it is compressed; None finds out by its first bytes.

    Raises:
        FormatError: If it is compressed by another method, or not at all; now or while reading if it is damaged.
        OSError: If it cannot be read.
    """
    content = place.read()
    if packing is not None and packing.method in _UNMARKED:
        return BytesReader(_decompress(place, content, packing)).read
    if not is_compressed(content[:8]):
        raise FormatError(
            f"{place} is compressed by a method that cannot be read, or not at all: it begins with {content[:8]!r}. "
            "Its index says it is compressed"
        )
    return decompressed(content[:8], BytesReader(memoryview(content)[8:]).read)


def _decompress(place: Place, content: bytes, packing: Packing) -> memoryview:
    arrow, _ = import_arrow(f"A shard that is compressed by {packing.method}")
    try:
        found = arrow.decompress(content, packing.size, codec=_UNMARKED[packing.method])
    except (arrow.ArrowException, OSError, MemoryError) as error:
        raise FormatError(f"{place} is damaged: {error}") from error
    return memoryview(found)

"""A shard whose items lie one after the other, with a table of their beginnings, and the decoding of their bytes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from spdl._check import check_path, show
from spdl.io import FormatError
from spdl.io._shared import BytesReader, decompressed, is_compressed
from spdl.source._place import Place, find_folder
from spdl.source._prefetch import ByteCache
from spdl.source._shards.parquet_shard import import_arrow
from spdl.source._shards.sharded import Contents, LazyShard, naming_place, open_contents

if TYPE_CHECKING:
    from spdl.store import Store

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Shard = TypeVar("Shard", bound="PackedShard")


_VERSION = 1


class Tree:
    """The structure of a sample, as PyTorch has written it: of dicts, lists and tuples."""

    def __init__(self, text: str) -> None:
        try:
            version, root = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(f"its 'data_spec' is not a structure of samples: {error}") from error
        if version != _VERSION:
            raise FormatError(f"its 'data_spec' has version {version!r}, and {_VERSION} is read")
        self._text = text
        try:
            # The latter is the number of leaves.
            self._make, self.count = _read(root)
        except RecursionError as error:
            raise FormatError("its 'data_spec' has too many levels") from error

    def build(self, leaves: list[Any]) -> Any:
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


_WORD_BYTES = struct.Struct("<I")
_INTEGER = struct.Struct("<q")
_REAL = struct.Struct("<d")
_MOST_TAG = 0x20
"""A text of JSON begins with a larger byte."""


def decode_nested(content: memoryview) -> Any:
    """Return a value. Bytes that are damaged raise `DAMAGE` or FormatError."""
    if not len(content) or content[0] > _MOST_TAG:
        return json.loads(bytes(content))
    reader = _NestedReader(content)
    value = reader.tagged()
    reader.check_end()
    return value


class _NestedReader:
    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._place = 0

    def check_end(self) -> None:
        if self._place != len(self._content):
            raise FormatError("there are bytes after its end")

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
        """Return how many values follow. Each takes a byte or more, but for records without fields."""
        (count,) = _WORD_BYTES.unpack(self._take(_WORD_BYTES.size))
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


_TAGGED: dict[int, Callable[[_NestedReader], Any]] = {
    0: _NestedReader.json,
    1: _NestedReader.texts,
    2: _NestedReader.integers,
    3: _NestedReader.reals,
    4: _NestedReader.flags,
    5: _NestedReader.mapping,
    6: _NestedReader.records,
    7: _NestedReader.text,
    8: _NestedReader.integer,
    9: _NestedReader.real,
    10: _NestedReader.flag,
    11: _NestedReader.nothing,
}
_FIELDS: dict[int, Callable[[_NestedReader], Any]] = {
    16: _NestedReader.nothing,
    17: _NestedReader.text,
    18: _NestedReader.integer,
    19: _NestedReader.real,
    20: _NestedReader.flag,
}


# How many values a pixel has, and their type, by Pillow's modes.
_MODES = {"L": (1, "u1"), "RGB": (3, "u1"), "RGBA": (4, "u1"), "CMYK": (4, "u1"), "YCbCr": (3, "u1"), "HSV": (3, "u1")}
_MODES |= {"LA": (2, "u1"), "La": (2, "u1"), "PA": (2, "u1"), "P": (1, "u1"), "LAB": (3, "u1"), "RGBX": (4, "u1")}
_MODES |= {"RGBa": (4, "u1"), "I": (1, "<i4"), "F": (1, "<f4"), "I;16": (1, "<u2"), "I;16L": (1, "<u2")}
_MODES |= {"I;16B": (1, ">u2")}
# A bit for each pixel.
_BITS = "1"


def decode_text(content: memoryview) -> str:
    return bytes(content).decode("utf-8")


def decode_number(content: memoryview, *, code: str) -> Any:
    (value,) = struct.unpack(code, content)
    return value


def decode_picture(content: memoryview) -> np.ndarray[Any, Any]:
    """Return the pixels of a picture of Pillow's that was stored with its size and mode."""
    width, height, length = struct.unpack_from("<3I", content)
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


class Compression(NamedTuple):
    method: str
    size: int
    """How many bytes the content has, by the index."""

    def check(self) -> None:
        """Raise ImportError if a library is missing that the method needs; the message has the command."""
        if self.method in _UNMARKED:
            import_arrow(f"A shard that is compressed by {self.method}")


def open_packed(place: Place, packing: Compression | None) -> Callable[[int], bytes]:
    """Return a function that reads the content of a compressed file, some bytes at a time.

    FormatError, now or while reading, if it is compressed otherwise or damaged. Without `packing`, its first bytes say
    how it is compressed.
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


def _decompress(place: Place, content: bytes, packing: Compression) -> memoryview:
    arrow, _ = import_arrow(f"A shard that is compressed by {packing.method}")
    try:
        found = arrow.decompress(content, packing.size, codec=_UNMARKED[packing.method])
    except (arrow.ArrowException, OSError, MemoryError) as error:
        raise FormatError(f"{place} is damaged: {error}") from error
    return memoryview(found)


_NAME = "index.json"
# Samples are found by numbers of 32 bits.
_LARGEST = (1 << 32) - 1


class IndexFile:
    """The index of a folder, whose parts are checked when they are taken."""

    def __init__(self, folder: str | os.PathLike[str], store: Store | None) -> None:
        check_path("folder", folder)
        root = find_folder("folder", folder, store)
        path = root.path.rstrip("/")
        self.place = root._replace(path=f"{path}/{_NAME}" if path or not root.path else f"/{_NAME}")
        if store is not None and not path:
            self.place = root._replace(path=_NAME)
        self.content: Any = self.place.read_json()
        self.take(self.content, "index", dict)

    def take(self, value: Any, what: str, *kinds: type) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise self.refuse(f"its {what} is {show(value)}, not of the type {names}")
        return value

    def count(self, value: Any, what: str) -> int:
        number: int = self.take(value, what, int)
        if not 0 <= number <= _LARGEST:
            raise self.refuse(f"its {what} is {show(number)}, not a number from 0 to {_LARGEST}")
        return number

    def file(self, name: Any, what: str) -> Place:
        """Return the place of a file that the index names, which is below the folder."""
        return self.place.below(self.take(name, what, str), {})

    def refuse(self, why: str) -> FormatError:
        return FormatError(f"{self.place}: {why}")


_WORD = 4


def decode_list(content: memoryview, *, decode: Callable[[memoryview], Any], skip: int = 0) -> list[Any]:
    """Return the items of a list: after `skip` zeros their number, the size of each, as uint32, and their bytes."""
    if any(content[:skip]):
        raise FormatError(f"a list begins with {bytes(content[:skip])!r}, which is not known")
    (count,) = struct.unpack_from("<I", content, skip)
    place = skip + _WORD * (1 + count)
    sizes = np.frombuffer(content[skip + _WORD : place], "<u4", count).tolist()
    if place + sum(sizes) != len(content):
        raise FormatError(f"a list of {count} has another size than its items")
    items = []
    for size in sizes:
        items.append(decode(content[place : place + size]))
        place += size
    return items


DAMAGE = (ValueError, IndexError, struct.error, OverflowError, RecursionError)
"""What decoding raises for bytes that are not what they should be, besides FormatError."""

_AT_ONCE = 1 << 24


class PackedShard(LazyShard[tuple[Contents, Offsets]]):
    """A file of samples: their number, where each begins and where the last ends, as uint32, and their bytes.

    The cache keeps the content of a file that is compressed, of `most` bytes at the most; it is None for others.
    """

    def __init__(
        self,
        place: Place,
        count: int,
        decode: Callable[[memoryview], dict[str, Any]],
        cache: ByteCache | None,
        *,
        most: int,
        packing: Compression | None = None,
    ) -> None:
        super().__init__(place)
        self._count = count
        self._table_bytes = _WORD * (count + 2)
        self._decode = decode
        self._cache = cache
        self._most = most
        self._packing = packing

    def __len__(self) -> int:
        return self._count

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        records = []
        for number, piece in zip(numbers, self._pieces(numbers), strict=True):
            try:
                records.append(self._decode(piece))
            except FormatError as error:
                error.args = (f"{self.place}, sample {number}: {error}",)
                raise
            except DAMAGE as error:
                raise FormatError(f"{self.place}, sample {number}, is damaged: {error}") from error
        return records

    def _pieces(self, numbers: list[int]) -> list[memoryview]:
        if self._cache is not None:
            view, offsets = self._cache.get(id(self), self._decompress)
            return [memoryview(view)[offsets[number] : offsets[number + 1]] for number in numbers]
        return self._stored(numbers)

    def _stored(self, numbers: list[int]) -> list[memoryview]:
        contents, offsets = self._open()
        starts = offsets[numbers]
        lengths = offsets[np.asarray(numbers, np.int64) + 1] - starts
        return contents.read(starts.tolist(), lengths.tolist())

    def _load(self) -> tuple[Contents, Offsets]:
        contents = open_contents(self.place, self._entry)
        offsets = self._find_offsets(contents)
        self._entry = contents.entry
        return contents, offsets

    def _find_offsets(self, contents: Contents) -> Offsets:
        return self._read_table(contents.read([0], [self._table_bytes])[0])

    def _decompress(self) -> tuple[tuple[bytes, Offsets], int]:
        with naming_place(self.place):
            self._bounded(max(self._table_bytes, self._packing.size if self._packing else 0))
            read = open_packed(self.place, self._packing)
            offsets = self._read_table(memoryview(read_exactly(read, self._table_bytes)))
            size = int(offsets[-1])
            if self._packing is not None and size != self._packing.size:
                raise FormatError(f"it has {size} bytes when it is decompressed, and {self._packing.size} by its index")
            # As much as the table says and no more, whatever the stream would become.
            rest = read_exactly(read, self._bounded(size) - self._table_bytes)
        whole = bytes(self._table_bytes) + rest
        return (whole, offsets), len(whole)

    def _bounded(self, size: int) -> int:
        if size > self._most:
            raise FormatError(
                f"{self.place}: it becomes {size} bytes when it is decompressed, and `max_uncompressed_bytes` is "
                f"{self._most}. If that is meant, set it higher",
                path=self.place.path,
            )
        return size

    def _read_table(self, table: memoryview) -> Offsets:
        words = np.frombuffer(table, "<u4").astype(np.int64) if len(table) % _WORD == 0 else np.zeros(1, np.int64)
        if len(words) != self._count + 2 or words[0] != self._count:
            raise FormatError(
                f"{self.place} is damaged, or not the file of its index, which says it has {self._count} samples"
            )
        offsets: Offsets = words[1:]
        if offsets[0] < _WORD * len(words) or (np.diff(offsets) < 0).any():
            raise FormatError(f"{self.place} is damaged: its table of samples is invalid")
        return offsets


def checked(shards: list[Shard]) -> list[Shard]:
    """Return shards, after a look at the files of those that have no samples by the index: nothing else reads them."""
    for shard in shards:
        if not len(shard):
            shard.read([])
    return shards


def read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    pieces = []
    while size > 0:
        piece = read(min(size, _AT_ONCE))  # Some make room for as many as they are asked for.
        if not piece:
            raise FormatError("the decompressed data ends too early")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)

"""A shard whose items lie one behind the other, with a table of where they begin."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_path, show
from spdl._forks import RenewedLock
from spdl.io import FormatError
from spdl.source._packed.unpack import open_packed
from spdl.source._records.place import find_folder
from spdl.source._records.sharded import open_contents

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from spdl.source._packed.unpack import Packing
    from spdl.source._records.place import Place
    from spdl.source._records.read_ahead import ByteCache
    from spdl.source._records.sharded import Contents
    from spdl.store import Entry, Store

    Offsets = np.ndarray[Any, np.dtype[np.int64]]

__all__ = ["DAMAGE", "IndexFile", "PackedShard", "decode_list", "read_exactly"]

_NAME = "index.json"
# Samples are found by numbers of 32 bits.
_LARGEST = (1 << 32) - 1


class IndexFile:
    """The index of a folder, whose parts are checked when they are taken.

    Args:
        folder: The folder, a path or URL, or a folder of the store.
        store: Where it is, or None.

    Raises:
        TypeError: If an argument has the wrong type.
        FormatError: If the index is no JSON object.
        OSError: If it cannot be read.
    """

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
        """Return a value of the index if it is of one of some types."""
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise self.refuse(f"its {what} is {show(value)}, not of the type {names}")
        return value

    def count(self, value: Any, what: str) -> int:
        """Return a number of samples or bytes of the index, which the table of a shard could say, too."""
        number: int = self.take(value, what, int)
        if not 0 <= number <= _LARGEST:
            raise self.refuse(f"its {what} is {show(number)}, and no shard has more than {_LARGEST} or fewer than none")
        return number

    def file(self, name: Any, what: str) -> Place:
        """Return the place of a file that the index names, which is below the folder."""
        return self.place.below(self.take(name, what, str), {})

    def refuse(self, why: str) -> FormatError:
        """Return the error that says why the index cannot be used."""
        return FormatError(f"{self.place}: {why}")


_WORD = 4


def decode_list(content: memoryview, *, decode: Callable[[memoryview], Any], skip: int = 0) -> list[Any]:
    """Return the items of a list: their number, the size of each, as uint32, and their bytes.

    Args:
        content: The list.
        decode: Makes an item of its bytes.
        skip: How many zeros come first.
    """
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


class PackedShard:
    """A file of samples: their number, where each begins and where the last ends, as uint32, and their bytes.

    It is opened when the first sample is asked for.

    Args:
        place: Where it is.
        count: How many samples the index says it has.
        decode: Makes a record of the bytes of a sample.
        cache: Keeps the content of files that are compressed; None if this one is not.
        most: How many bytes its content may have when it is decompressed.
        packing: How it is compressed, and how many bytes its content has by the index. None if the index does not say.
    """

    def __init__(
        self,
        place: Place,
        count: int,
        decode: Callable[[memoryview], dict[str, Any]],
        cache: ByteCache | None,
        *,
        most: int,
        packing: Packing | None = None,
    ) -> None:
        self.place = place
        self._count = count
        self._decode = decode
        self._cache = cache
        self._most = most
        self._packing = packing
        self._opened: tuple[Contents, Offsets] | None = None
        # Which version is read, if it is in a store: also by copies in other processes.
        self._entry: Entry | None = None
        self._lock = RenewedLock()

    def __len__(self) -> int:
        return self._count

    def read(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return records.

        Raises:
            FormatError: If the file is damaged, or is not the one of the index.
            OSError: If it cannot be read.
        """
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
        """Return the bytes of samples."""
        if self._cache is not None:
            view, offsets = self._cache.get(id(self), self._decompress)
            return [memoryview(view)[offsets[number] : offsets[number + 1]] for number in numbers]
        contents, offsets = self._open()
        starts = offsets[numbers]
        lengths = offsets[np.asarray(numbers) + 1] - starts
        return contents.read(starts.tolist(), lengths.tolist())

    def _open(self) -> tuple[Contents, Offsets]:
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._load()
                    self._entry = self._opened[0].entry
        return self._opened

    def _load(self) -> tuple[Contents, Offsets]:
        contents = open_contents(self.place, self._entry)
        table = contents.read([0], [_WORD * (self._count + 2)])[0]
        return contents, self._read_table(table)

    def _decompress(self) -> tuple[tuple[bytes, Offsets], int]:
        try:
            self._bounded(max(_WORD * (self._count + 2), self._packing.size if self._packing else 0))
            read = open_packed(self.place, self._packing)
            offsets = self._read_table(memoryview(read_exactly(read, _WORD * (self._count + 2))))
            size = int(offsets[-1])
            if self._packing is not None and size != self._packing.size:
                raise FormatError(f"it has {size} bytes when it is decompressed, and {self._packing.size} by its index")  # noqa: TRY301
            # As much as the table says and no more, whatever the stream would become.
            rest = read_exactly(read, self._bounded(size) - _WORD * (self._count + 2))
        except FormatError as error:
            if str(self.place) in str(error):
                raise
            raise FormatError(f"{self.place}: {error}") from error
        whole = bytes(_WORD * (self._count + 2)) + rest
        return (whole, offsets), len(whole)

    def _bounded(self, size: int) -> int:
        """Return how many bytes something becomes when it is decompressed, if it may become so many."""
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
            raise FormatError(f"{self.place} is damaged: its table of samples is none")
        return offsets

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """Return so many bytes.

    Raises:
        FormatError: If there are fewer.
    """
    pieces = []
    while size > 0:
        piece = read(min(size, _AT_ONCE))  # Some make room for as many as they are asked for.
        if not piece:
            raise FormatError("the decompressed data ends too early")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)

"""Shards of MosaicML Streaming."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int, show
from spdl.io import FormatError
from spdl.source._place import Place
from spdl.source._prefetch import ByteCache
from spdl.source._shards.indexed import (
    DAMAGE,
    METHODS,
    Compression,
    IndexFile,
    PackedShard,
    checked,
    decode_list,
    decode_number,
    decode_picture,
    decode_text,
)
from spdl.source._shards.sharded import ShardedRecords

if TYPE_CHECKING:
    from spdl.store import Store

Decode = Callable[[memoryview], Any]


_NUMBERS = re.compile(r"(u?int|float)(8|16|32|64)")
_ARRAY = re.compile(r"ndarray(?::([a-z0-9]+)(?::([0-9]+(?:,[0-9]+)*))?)?")
# The first byte of an array says its type: the number of bits, and this.
_KINDS = "uif"
# The second byte says how many dimensions there are, and how many bytes each has.
_WIDTHS = ("u1", "<u2", "<u4", "<u8")


def find_decoder(encoding: str) -> Decode | None:
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


def _parsed(content: memoryview, *, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(decode_text(content))
    except InvalidOperation as error:
        raise FormatError(f"{bytes(content[:40])!r} is not a decimal number") from error


_DECODERS: dict[str, Decode] = {
    "bytes": bytes,
    "str": decode_text,
    "int": partial(decode_number, code="<q"),
    "str_int": partial(_parsed, parse=int),
    "str_float": partial(_parsed, parse=float),
    "str_decimal": partial(_parsed, parse=Decimal),
    "json": partial(_parsed, parse=json.loads),
    # Still encoded: the loaders decode them.
    "jpeg": memoryview,
    "png": memoryview,
    "pil": decode_picture,
}
_DECODERS |= dict.fromkeys(("jpegarray", "jpeg_array"), partial(decode_list, decode=memoryview))
# Behind a number that is always 0.
_DECODERS |= {f"list[{name}]": partial(decode_list, decode=_DECODERS[name], skip=4) for name in ("jpeg", "png", "pil")}


_WORD = 4


class MDSShards(ShardedRecords[dict[str, Any], PackedShard]):
    """The samples of a folder in the MDS format of MosaicML Streaming: in any order, from this machine or a store.

    A record is a dict of the columns. Columns that Streaming encodes as ``jpeg`` or ``png`` are views of the encoded
    bytes, which the loaders decode; ``pil`` and ``ndarray`` are NumPy arrays; numbers, texts and JSON are values; lists
    of images are lists of these. Only what is asked for is read: of a sample one range. Neither Streaming nor anything
    of its is imported.

    Shards that are compressed are read and decompressed whole: those by zstd, gz and bz2, and with pyarrow those by br
    and snappy.

    Args:
        folder: The folder with ``index.json``, or its URL.
        store: The store of the folder, unless it is on this machine or named by a URL.
        cache_bytes: How many bytes of decompressed shards are kept, in addition to the one in use.
        max_uncompressed_bytes: The most bytes that a shard that is compressed may have when it is decompressed, 1 GiB
            by default. The index says how many it has.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number of bytes is negative.
        FormatError: If the index is invalid or of another format, a column has an encoding that cannot be read, such as
            ``pkl`` (unpickling may run any program), or shards are compressed otherwise; when a sample is read, if its
            shard is damaged.
        ImportError: If shards are compressed by br or snappy and pyarrow is not installed.
        OSError: If the index cannot be read; when a sample is read, if its shard cannot be.

    Example:
        >>> from spdl.source import MDSShards
        >>> samples = MDSShards("s3://bucket/train")  # doctest: +SKIP
        >>> samples[5]  # doctest: +SKIP
        {'image': <memory at 0x7f3e8c1d3100>, 'label': 3}
    """

    _called = "shards"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: Store | None = None,
        cache_bytes: int = 1 << 28,
        max_uncompressed_bytes: int = 1 << 30,
    ) -> None:
        most = check_int("max_uncompressed_bytes", max_uncompressed_bytes, least=0)
        cache = ByteCache(check_int("cache_bytes", cache_bytes, least=0))
        index = IndexFile(folder, store)
        super().__init__(list_shards(index, cache, most))
        if not len(self):
            raise index.refuse("it has no samples")


def list_shards(index: IndexFile, cache: ByteCache, most: int) -> list[PackedShard]:
    shards = index.take(index.content.get("shards"), "'shards'", list)
    return checked([_shard(index, each, cache, most) for each in shards])


def _shard(index: IndexFile, shard: Any, cache: ByteCache, most: int) -> PackedShard:
    index.take(shard, "shard", dict)
    if shard.get("format") != "mds" or shard.get("version") != 2:  # noqa: PLR2004
        kind = f"{show(shard.get('format'))} of version {show(shard.get('version'))}"
        raise index.refuse(f"its shards have the format {kind}, and 'mds' of version 2 is read")
    names, encodings, sizes = (
        index.take(shard.get(name), f"'{name}'", list) for name in ("column_names", "column_encodings", "column_sizes")
    )
    count = index.count(shard.get("samples"), "'samples'")
    if not len(names) == len(encodings) == len(sizes):
        raise index.refuse("the columns of a shard are not as many as their encodings and sizes")
    columns = []
    for name, encoding, size in zip(names, encodings, sizes, strict=True):
        index.take(name, "name of a column", str)
        index.take(encoding, "encoding of a column", str)
        index.take(size, "size of a column", int, type(None))
        columns.append((name, _decoder(index, name, encoding), size))
    compression = index.take(shard.get("compression"), "'compression'", str, type(None))
    decode = partial(_decode, columns=columns)
    if compression is None:
        return PackedShard(_file(index, shard, "raw_data"), count, decode, None, most=most)
    packing = _packing(index, shard, compression)
    return PackedShard(_file(index, shard, "zip_data"), count, decode, cache, most=most, packing=packing)


def _file(index: IndexFile, shard: Any, which: str) -> Place:
    stored = index.take(shard.get(which), "file of a shard", dict)
    return index.file(stored.get("basename"), "'basename'")


def _packing(index: IndexFile, shard: Any, compression: str) -> Compression:
    method = compression.partition(":")[0]
    if method not in METHODS:
        raise index.refuse(f"its shards are compressed by {compression!r}, and {', '.join(METHODS)} can be read")
    raw = index.take(shard.get("raw_data"), "'raw_data'", dict)
    packing = Compression(method, index.count(raw.get("bytes"), "'bytes'"))
    packing.check()
    return packing


def _decoder(index: IndexFile, name: str, encoding: str) -> Callable[[memoryview], Any]:
    try:
        decode = find_decoder(encoding)
    except FormatError as error:
        raise index.refuse(f"the column {name!r}: {error}") from error
    if decode is None:
        why = ": unpickling may run any program. Write it again as 'json'" if encoding == "pkl" else ""
        raise index.refuse(f"the column {name!r} has the encoding {encoding!r}, which is not read{why}")
    return decode


def _decode(
    sample: memoryview, *, columns: list[tuple[str, Callable[[memoryview], Any], int | None]]
) -> dict[str, Any]:
    # The sizes of the columns without a fixed size come first.
    open_ended = sum(1 for _, _, size in columns if size is None)
    given = iter(np.frombuffer(sample[: _WORD * open_ended], "<u4", open_ended).tolist())
    place = _WORD * open_ended
    record = {}
    for name, decode, fixed in columns:
        size = next(given) if fixed is None else fixed
        content = sample[place : place + size]
        if len(content) != size:
            raise FormatError(f"the column {name!r} ends after the sample")
        try:
            record[name] = decode(content)
        except DAMAGE as error:
            raise FormatError(f"the column {name!r} is damaged: {error}") from error
        place += size
    if place != len(sample):
        raise FormatError(f"its columns have {place} bytes, and the sample {len(sample)}")
    return record

"""Chunks of LitData."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int
from spdl.io import FormatError
from spdl.io._shared import BytesReader, decompressed, is_compressed
from spdl.source._place import Place
from spdl.source._prefetch import ByteCache
from spdl.source._shards.indexed import (
    IndexFile,
    Offsets,
    PackedShard,
    Tree,
    checked,
    decode_list,
    decode_nested,
    decode_number,
    decode_picture,
    decode_text,
    read_exactly,
)
from spdl.source._shards.parquet_shard import import_arrow
from spdl.source._shards.sharded import Contents, ShardedRecords, naming_place

if TYPE_CHECKING:
    from spdl.store import Store

Decode = Callable[[memoryview], Any]


_ARRAYS = ("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?")
_TENSORS: dict[int, str] = {0: "<f4", 1: "<f4", 2: "<f8", 3: "<f8", 4: "<c8", 5: "<c8", 6: "<c16", 7: "<c16"}
_TENSORS |= {8: "<f2", 9: "<f2", 11: "u1", 12: "i1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8"}
_TENSORS |= {19: "?", 20: "<u2"}
_MOST_DIMENSIONS = 64
_LARGE = (1 << 24) - 1
# The contents of files, with the ending of their names after a colon.
_FILES = ("image", "audio", "video", "nifti", "mesh")


def find_decoder(name: str) -> Decode | None:
    kind, _, code = name.partition(":")
    if kind in ("no_header_numpy", "no_header_tensor") and code.isascii() and code.isdigit():
        dtype = dtype_of(int(code), tensor=kind == "no_header_tensor")
        return partial(np.frombuffer, dtype=dtype)
    if kind in _FILES and code:
        return memoryview
    return _DECODERS.get(name)


def dtype_of(code: int, *, tensor: bool) -> np.dtype[Any]:
    known = _TENSORS if tensor else dict(enumerate(_ARRAYS))
    if code not in known:
        raise FormatError(f"{'tensors' if tensor else 'arrays'} of the type {code} are not read")
    return np.dtype(known[code])


def _array(content: memoryview, *, tensor: bool) -> Any:
    order = "<"
    code, count = struct.unpack_from("<2I", content)
    # Since a version of 2025, the heads of tensors are in big-endian order, which makes small numbers large ones.
    if tensor and max(code, count) > _LARGE:
        order = ">"
        code, count = struct.unpack_from(">2I", content)
    if count > _MOST_DIMENSIONS:
        raise FormatError(f"an array has {count} dimensions")
    shape = struct.unpack_from(f"{order}{count}I", content, 8)
    return np.frombuffer(content[8 + 4 * count :], dtype_of(code, tensor=tensor)).reshape(shape)


_DECODERS: dict[str, Decode] = {
    "str": decode_text,
    "text": decode_text,
    "bytes": bytes,
    "int": partial(decode_number, code="<q"),
    "float": partial(decode_number, code="<d"),
    "bool": partial(decode_number, code="?"),
    "json": decode_nested,
    # Still encoded: the loaders decode them.
    "jpeg": memoryview,
    "file": memoryview,
    "pdf": memoryview,
    "tifffile": memoryview,
    "jpeg_array": partial(decode_list, decode=memoryview),
    "pil": decode_picture,
    "numpy": partial(_array, tensor=False),
    "tensor": partial(_array, tensor=True),
}


_WORD = 4
_ZSTD = b"\x28\xb5\x2f\xfd"
_FRAMED = b"LDFZ01\0\0"
# Behind the magic: the version, and the numbers of samples, of samples in a frame, and of frames.
_HEAD = struct.Struct("<8s4I")
# The first sample and how many there are, where the frame begins, its size and its content's size.
_FRAME = struct.Struct("<2IQ2I")
_ARROW = b"ARROW1"
# Behind the Arrow file: its size, and this.
_ARROW_END = b"LDARW01\0"


class LitDataChunk(PackedShard):
    """A chunk whose samples are read by their numbers.

    Samples of single values alone, newer versions write as an Arrow file, for which pyarrow is needed. The cache keeps
    what was decompressed: the chunk, frames or samples, each of `most` bytes at the most.
    """

    def __init__(
        self,
        place: Place,
        count: int,
        decode: Callable[[memoryview], Any],
        cache: ByteCache,
        *,
        most: int,
        compressed: bool,
        parts: int,
    ) -> None:
        super().__init__(place, count, decode, cache if compressed else None, most=most)
        self._kept = cache
        self._frames: list[tuple[int, int, int, int, int]] | None = None
        self._is_arrow = False
        self._parts = parts
        # Whether the samples lie after a table, though the index says that the chunk is compressed.
        self._are_open = False

    def read(self, numbers: list[int]) -> list[Any]:
        self._open()
        if not self._is_arrow:
            return super().read(numbers)
        table = self._kept.get(id(self), self._read_arrow)
        records: list[Any] = table.take(numbers).to_pylist()
        return records

    def _pieces(self, numbers: list[int]) -> list[memoryview]:
        contents, offsets = self._open()
        if self._are_open:
            return [self._decompress_sample(*each) for each in zip(numbers, self._stored(numbers), strict=True)]
        if self._frames is None:
            return super()._pieces(numbers)
        firsts = [frame[0] for frame in self._frames]
        pieces = []
        for number in numbers:
            frame = bisect_right(firsts, number) - 1
            content = self._kept.get((id(self), frame), lambda frame=frame: self._read_frame(contents, frame))  # type: ignore[misc]
            base = offsets[firsts[frame]]
            pieces.append(memoryview(content)[offsets[number] - base : offsets[number + 1] - base])
        return pieces

    def _find_offsets(self, contents: Contents) -> Offsets:
        if self._cache is None:
            # One read, as every chunk that is not compressed as a whole has at least these bytes.
            table = contents.read([0], [self._table_bytes])[0]
            if bytes(table[: len(_FRAMED)]) != _FRAMED:
                offsets = self._read_table(table)
                self._is_arrow = self._begins_arrow(contents, int(offsets[0]), int(offsets[-1]))
                return offsets
        size = self.place.describe().size
        begin = contents.read([0], [min(size, max(_HEAD.size, self._table_bytes))])[0]
        # A chunk of one short sample is smaller than that head.
        if bytes(begin[: len(_FRAMED)]) == _FRAMED and size >= _HEAD.size:
            _, _, count, _, frames = _HEAD.unpack(begin[: _HEAD.size])
            return self._load_frames(contents, count, frames, size)
        if self._cache is None:
            raise FormatError(f"{self.place} is damaged: it has {size} bytes")
        if is_compressed(bytes(begin[:8])):
            # As a whole: it has its table inside.
            return np.zeros(1, np.int64)
        offsets = self._read_table(begin[: self._table_bytes])
        self._is_arrow = self._begins_arrow(contents, int(offsets[0]), int(offsets[-1]))
        self._are_open = not self._is_arrow
        return offsets

    def _begins_arrow(self, contents: Contents, first: int, last: int) -> bool:
        """Return whether an Arrow file lies where the samples would. Its table says that all of them are empty."""
        if first != last:
            return False
        left = self.place.describe().size - first
        return left >= len(_ARROW) and contents.read([first], [len(_ARROW)])[0] == _ARROW

    def _load_frames(self, contents: Contents, count: int, frames: int, size: int) -> Offsets:
        length = _WORD * (self._count + 1) + _FRAME.size * frames
        if count != self._count or _HEAD.size + length > size:
            raise FormatError(
                f"{self.place} is damaged, or not the file of its index, which says it has {self._count} samples"
            )
        table = contents.read([_HEAD.size], [length])[0]
        offsets: Offsets = np.frombuffer(table, "<u4", self._count + 1).astype(np.int64)
        found = [_FRAME.unpack_from(table, length - _FRAME.size * left) for left in range(frames, 0, -1)]
        following = 0
        for first, samples, start, stored, raw in found:
            end = first + samples
            sound = first == following and samples and end <= count and start + stored <= size
            if not sound or raw != offsets[end] - offsets[first]:
                raise FormatError(f"{self.place} is damaged: its table of frames is invalid")
            following = end
        if following != count or (np.diff(offsets) < 0).any():
            raise FormatError(f"{self.place} is damaged: its table of frames is invalid")
        self._frames = found
        return offsets

    def _read_frame(self, contents: Contents, number: int) -> tuple[bytes, int]:
        assert self._frames is not None
        _, _, start, stored, raw = self._frames[number]
        frame = bytes(contents.read([start], [stored])[0])
        if not is_compressed(frame[:8]):
            raise FormatError(f"{self.place} is damaged: frame {number} is not compressed by zstd")
        with naming_place(self.place, f", frame {number}"):
            content = read_exactly(decompressed(frame[:8], BytesReader(memoryview(frame)[8:]).read), self._bounded(raw))
        return content, raw

    def _decompress_sample(self, number: int, stored: memoryview) -> memoryview:
        # LitData leaves some uncompressed, whatever the index says. One that is not compressed begins with the size of
        # a part, which would be 4 GB.
        if bytes(stored[: len(_ZSTD)]) != _ZSTD:
            return stored
        read = decompressed(bytes(stored[:8]), BytesReader(stored[8:]).read)
        with naming_place(self.place, f", sample {number}"):
            sizes = read_exactly(read, _WORD * self._parts)
            # As much as it says itself and no more, whatever the stream would become.
            content = read_exactly(read, self._bounded(int(np.frombuffer(sizes, "<u4").sum(dtype=np.int64))))
        return memoryview(sizes + content)

    def _read_arrow(self) -> tuple[Any, int]:
        arrow, _ = import_arrow("A chunk of LitData that holds an Arrow file")
        import pyarrow.ipc  # noqa: PLC0415 - an optional dependency.

        content = memoryview(self.place.read())[self._table_bytes :]
        size = len(content) - len(_ARROW_END) - _WORD
        if size < 0 or content[size:] != struct.pack("<I", size) + _ARROW_END:
            raise FormatError(f"{self.place} is damaged: expected the Arrow file size at the end")
        try:
            table = pyarrow.ipc.open_file(arrow.BufferReader(arrow.py_buffer(content[:size]))).read_all()
            # Arrow trusts what it is given: a damaged offset would be read as an address.
            table.validate(full=True)
        except (arrow.ArrowException, OSError, MemoryError, ValueError) as error:
            raise FormatError(f"{self.place} is damaged: {error}") from error
        if len(table) != self._count:
            raise FormatError(f"{self.place} has {len(table)} samples, and its index says {self._count}")
        return table, table.nbytes

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_frames": None, "_is_arrow": False, "_are_open": False}


_LOADER = "PyTreeLoader"


class LitDataShards(ShardedRecords[Any, LitDataChunk]):
    """The samples that LitData's ``optimize`` has written: in any order, from this machine or a store.

    A record is what was written: usually a dict. JPEG images, and files of images, sounds and videos are views of their
    bytes, which the loaders decode; ``pil`` pictures, NumPy arrays and tensors are NumPy arrays; numbers and texts are
    values. Only what is asked for is read: of a sample one range. Neither LitData nor PyTorch is imported.

    Chunks that are compressed by zstd are decompressed whole, or by the frames or samples of newer versions. Samples of
    single values alone, newer versions write as Arrow files; to read these, pyarrow is needed.

    Args:
        folder: The folder with ``index.json``, or its URL.
        store: The store of the folder, unless it is on this machine or named by a URL.
        cache_bytes: How many bytes of decompressed chunks are kept, in addition to the one in use.
        max_uncompressed_bytes: The most bytes that a chunk that is compressed may have when it is decompressed, 1 GiB
            by default; or a frame, or a sample, if these are compressed.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number of bytes is negative.
        FormatError: If the index is invalid, chunks are encrypted, are for another loader than ``PyTreeLoader``, or
            have parts that cannot be read, such as ``pickle`` (unpickling may run any program); when a sample is read,
            if its chunk is damaged.
        OSError: If the index cannot be read; when a sample is read, if its chunk cannot be.

    Example:
        >>> from spdl.source import LitDataShards
        >>> samples = LitDataShards("s3://bucket/optimized")  # doctest: +SKIP
        >>> samples[5]  # doctest: +SKIP
        {'image': <memory at 0x7f3e8c1d3100>, 'label': 3}
    """

    _called = "chunks"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: Store | None = None,
        cache_bytes: int = 1 << 28,
        max_uncompressed_bytes: int = 1 << 30,
    ) -> None:
        cache = ByteCache(check_int("cache_bytes", cache_bytes, least=0))
        index = IndexFile(folder, store)
        config = index.take(index.content.get("config"), "'config'", dict)
        chunks = index.take(index.content.get("chunks"), "'chunks'", list)
        make = partial(
            LitDataChunk,
            decode=_decoder(index, config),
            cache=cache,
            most=check_int("max_uncompressed_bytes", max_uncompressed_bytes, least=0),
            compressed=_is_compressed(index, config),
            parts=len(config["data_format"]),
        )
        super().__init__(checked([_chunk(index, chunk, make) for chunk in chunks]))
        if not len(self):
            raise index.refuse("it has no samples")


def _chunk(index: IndexFile, chunk: Any, make: Callable[[Place, int], LitDataChunk]) -> LitDataChunk:
    index.take(chunk, "chunk", dict)
    count = index.count(chunk.get("chunk_size"), "'chunk_size'")
    if chunk.get("dim") is not None:
        # The first versions did not name the loader, and wrote samples of one tensor so.
        raise index.refuse(
            "its chunks have one tensor after the other, without their sizes, as those for TokensLoader: `TokenFiles` "
            "reads them if they have one dimension"
        )
    return make(index.file(chunk.get("filename"), "'filename'"), count)


def _is_compressed(index: IndexFile, config: dict[str, Any]) -> bool:
    loader = index.take(config.get("item_loader", _LOADER), "'item_loader'", str)
    if loader != _LOADER:
        raise index.refuse(f"its chunks are for the loader {loader!r}, and those for {_LOADER} are read")
    if config.get("encryption") is not None:
        raise index.refuse("its chunks are encrypted, and encrypted ones are not read")
    compression = index.take(config.get("compression"), "'compression'", str, type(None))
    if compression is not None and compression.partition(":")[0] != "zstd":
        raise index.refuse(f"its chunks are compressed by {compression!r}, and zstd can be read")
    return compression is not None


def _decoder(index: IndexFile, config: dict[str, Any]) -> Callable[[memoryview], Any]:
    formats = index.take(config.get("data_format"), "'data_format'", list)
    decoders = []
    with naming_place(index.place):
        tree = Tree(index.take(config.get("data_spec"), "'data_spec'", str))
        for name in formats:
            index.take(name, "format of a part", str)
            decode = find_decoder(name)
            if decode is None:
                why = ": unpickling may run any program" if name == "pickle" else ""
                raise FormatError(f"its samples have parts of the format {name!r}, which is not read{why}")
            decoders.append(decode)
    if tree.count != len(formats):
        raise index.refuse(f"its samples have {tree.count} parts, and {len(formats)} formats")
    return partial(_decode, decoders=decoders, tree=tree)


def _decode(sample: memoryview, *, decoders: list[Callable[[memoryview], Any]], tree: Tree) -> Any:
    place = _WORD * len(decoders)
    leaves = []
    for number, size in enumerate(np.frombuffer(sample[:place], "<u4", len(decoders)).tolist()):
        content = sample[place : place + size]
        if len(content) != size:
            raise FormatError(f"part {number} ends after the sample")
        leaves.append(decoders[number](content))
        place += size
    return tree.build(leaves)

"""One chunk of LitData: samples behind a table, each compressed or not, in compressed frames, or as an Arrow file."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl.io import FormatError
from spdl.io._archive.decompress import decompressed, is_compressed
from spdl.io._archive.tar_stream import BytesReader
from spdl.source._packed.packed_shard import PackedShard, read_exactly
from spdl.source._parquet.arrow import import_arrow
from spdl.source._records.contents import open_contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.source._packed.packed_shard import Offsets
    from spdl.source._records.byte_cache import ByteCache
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place

__all__ = ["LitDataChunk"]

_WORD = 4
_ZSTD = b"\x28\xb5\x2f\xfd"
_FRAMED = b"LDFZ01\0\0"
# Behind the magic: the version, and the numbers of samples, of samples in a frame, and of frames.
_HEAD = struct.Struct("<8s4I")
# The first sample and how many there are, where the frame begins, its size and that of its content.
_FRAME = struct.Struct("<2IQ2I")
_ARROW = b"ARROW1"
# Behind the Arrow file: its size, and this.
_ARROW_END = b"LDARW01\0"


class LitDataChunk(PackedShard):
    """A chunk whose samples are read by their numbers.

    Samples of single values alone, newer versions write as an Arrow file, for which pyarrow is needed.

    Args:
        place: Where it is.
        count: How many samples the index says it has.
        decode: Makes a record of the bytes of a sample.
        cache: Keeps what was decompressed.
        most: How many bytes the chunk, a frame or a sample may have when it is decompressed.
        compressed: Whether the index says that it is compressed.
        parts: How many parts a sample has.
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
        # Whether the samples lie behind a table, though the index says that the chunk is compressed.
        self._are_open = False

    def read(self, numbers: list[int]) -> list[Any]:
        """Return records.

        Raises:
            FormatError: If the chunk is damaged, or is not the one of the index.
            OSError: If it cannot be read.
            ImportError: If pyarrow is needed and not installed.
        """
        self._open()
        if not self._is_arrow:
            return super().read(numbers)
        table = self._kept.get(id(self), self._read_arrow)
        records: list[Any] = table.take(numbers).to_pylist()
        return records

    def _pieces(self, numbers: list[int]) -> list[memoryview]:
        contents, offsets = self._open()
        if self._are_open:
            starts = offsets[numbers]
            lengths = offsets[np.asarray(numbers) + 1] - starts
            stored = contents.read(starts.tolist(), lengths.tolist())
            return [self._decompress_sample(*each) for each in zip(numbers, stored, strict=True)]
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

    def _load(self) -> tuple[Contents, Offsets]:
        contents = open_contents(self.place, self._entry)
        if self._cache is None:
            # One read, as every chunk that is not compressed as a whole has at least these bytes.
            table = contents.read([0], [_WORD * (self._count + 2)])[0]
            if bytes(table[: len(_FRAMED)]) != _FRAMED:
                offsets = self._read_table(table)
                self._is_arrow = self._begins_arrow(contents, int(offsets[0]), int(offsets[-1]))
                return contents, offsets
        size = self.place.describe().size
        length = _WORD * (self._count + 2)
        begin = contents.read([0], [min(size, max(_HEAD.size, length))])[0]
        # A chunk of one short sample is smaller than that head.
        if bytes(begin[: len(_FRAMED)]) == _FRAMED and size >= _HEAD.size:
            _, _, count, _, frames = _HEAD.unpack(begin[: _HEAD.size])
            return contents, self._load_frames(contents, count, frames, size)
        if self._cache is None:
            raise FormatError(f"{self.place} is damaged: it has {size} bytes")
        if is_compressed(bytes(begin[:8])):
            # As a whole: it has its table inside.
            return contents, np.zeros(1, np.int64)
        offsets = self._read_table(begin[:length])
        self._is_arrow = self._begins_arrow(contents, int(offsets[0]), int(offsets[-1]))
        self._are_open = not self._is_arrow
        return contents, offsets

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
                raise FormatError(f"{self.place} is damaged: its table of frames is none")
            following = end
        if following != count or (np.diff(offsets) < 0).any():
            raise FormatError(f"{self.place} is damaged: its table of frames is none")
        self._frames = found
        return offsets

    def _read_frame(self, contents: Contents, number: int) -> tuple[bytes, int]:
        assert self._frames is not None
        _, _, start, stored, raw = self._frames[number]
        frame = bytes(contents.read([start], [stored])[0])
        if not is_compressed(frame[:8]):
            raise FormatError(f"{self.place} is damaged: frame {number} is not compressed by zstd")
        try:
            content = read_exactly(decompressed(frame[:8], BytesReader(memoryview(frame)[8:]).read), self._bounded(raw))
        except FormatError as error:
            raise FormatError(f"{self.place}, frame {number}: {error}") from error
        return content, raw

    def _decompress_sample(self, number: int, stored: memoryview) -> memoryview:
        # LitData leaves some as they are, whatever the index says. One that is not compressed begins with the size of a
        # part, which would be 4 GB.
        if bytes(stored[: len(_ZSTD)]) != _ZSTD:
            return stored
        read = decompressed(bytes(stored[:8]), BytesReader(stored[8:]).read)
        try:
            sizes = read_exactly(read, _WORD * self._parts)
            # As much as it says itself and no more, whatever the stream would become.
            content = read_exactly(read, self._bounded(int(np.frombuffer(sizes, "<u4").sum(dtype=np.int64))))
        except FormatError as error:
            raise FormatError(f"{self.place}, sample {number}: {error}") from error
        return memoryview(sizes + content)

    def _read_arrow(self) -> tuple[Any, int]:
        arrow, _ = import_arrow("A chunk of LitData that holds an Arrow file")
        import pyarrow.ipc  # noqa: PLC0415 - an optional dependency.

        content = memoryview(self.place.read())[_WORD * (self._count + 2) :]
        size = len(content) - len(_ARROW_END) - _WORD
        if size < 0 or content[size:] != struct.pack("<I", size) + _ARROW_END:
            raise FormatError(f"{self.place} is damaged: it is to end with the size of an Arrow file")
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

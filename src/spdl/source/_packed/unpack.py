"""The content of shards that are compressed as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl.io import FormatError
from spdl.io._archive.decompress import decompressed, is_compressed
from spdl.io._archive.tar_stream import BytesReader
from spdl.source._parquet.arrow import import_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.source._records.place import Place

__all__ = ["METHODS", "Packing", "open_packed"]

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

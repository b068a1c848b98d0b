"""The samples of LitData's chunks, by their positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int
from spdl.io import FormatError
from spdl.source._packed.index_file import IndexFile
from spdl.source._packed.litdata_chunk import LitDataChunk
from spdl.source._packed.litdata_encodings import find_decoder
from spdl.source._packed.tree import Tree
from spdl.source._records.byte_cache import ByteCache
from spdl.source._records.sharded import ShardedRecords

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from spdl.source._records.place import Place
    from spdl.store import Store

__all__ = ["LitDataShards"]

_WORD = 4
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
        store: Where the folder is, if neither on this machine nor where a URL says.
        cache_bytes: How many bytes of decompressed chunks are kept, besides the one in use.
        max_uncompressed_bytes: The most bytes that a chunk that is compressed may have when it is decompressed, 1 GiB
            by default; or a frame, or a sample, if these are compressed.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number of bytes is negative.
        FormatError: If the index is none, chunks are encrypted, are for another loader than ``PyTreeLoader``, or have
            parts that cannot be read, such as ``pickle`` (unpickling may run any program); when a sample is read, if
            its chunk is damaged.
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
        super().__init__([_chunk(index, chunk, make) for chunk in chunks])
        if not len(self):
            raise index.refuse("it has no samples")


def _chunk(index: IndexFile, chunk: Any, make: Callable[[Place, int], LitDataChunk]) -> LitDataChunk:
    index.take(chunk, "chunk", dict)
    count = index.count(chunk.get("chunk_size"), "'chunk_size'")
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
    try:
        tree = Tree(index.take(config.get("data_spec"), "'data_spec'", str))
        for name in formats:
            index.take(name, "format of a part", str)
            decode = find_decoder(name)
            if decode is None:
                why = ": unpickling may run any program" if name == "pickle" else ""
                raise FormatError(f"its samples have parts of the format {name!r}, which is not read{why}")  # noqa: TRY301
            decoders.append(decode)
    except FormatError as error:
        if str(index.place) in str(error):
            raise
        raise index.refuse(str(error)) from error
    if tree.count != len(formats):
        raise index.refuse(f"its samples have {tree.count} parts, and {len(formats)} formats")
    return partial(_decode, decoders=decoders, tree=tree)


def _decode(sample: memoryview, *, decoders: list[Callable[[memoryview], Any]], tree: Tree) -> Any:
    place = _WORD * len(decoders)
    leaves = []
    for number, size in enumerate(np.frombuffer(sample[:place], "<u4", len(decoders)).tolist()):
        content = sample[place : place + size]
        if len(content) != size:
            raise FormatError(f"part {number} ends behind the sample")
        leaves.append(decoders[number](content))
        place += size
    return tree.build(leaves)

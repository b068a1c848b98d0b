"""Chunks that LitData has written for its ``TokensLoader``, as litgpt does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spdl._check import show
from spdl.io import FormatError
from spdl.source._place import Place
from spdl.source._shards.indexed import IndexFile
from spdl.source._shards.litdata import dtype_of
from spdl.source._text.bounds import Edges
from spdl.source._text.token_shard import Flat, FlatShard, Options, Parts, TokenShard

_LOADER = "TokensLoader"
_WORD = 4


def litdata_shards(index: IndexFile, options: Options) -> list[TokenShard]:
    config = index.take(index.content.get("config"), "'config'", dict)
    # The first versions did not say it.
    loader = index.take(config.get("item_loader", _LOADER), "'item_loader'", str)
    formats = index.take(config.get("data_format"), "'data_format'", list)
    kind, _, code = str(formats[0]).partition(":") if len(formats) == 1 else ("", "", "")
    known = kind in ("no_header_tensor", "no_header_numpy") and code.isascii() and code.isdigit()
    if loader != _LOADER or not known:
        raise index.refuse(
            f"its chunks are for the loader {loader!r} and have the format {show(formats)}: those for {_LOADER} are "
            "token files, of one tensor or array in one dimension per document. LitDataShards reads others"
        )
    for what in ("compression", "encryption"):
        if config.get(what) is not None:
            raise index.refuse(f"its chunks have the {what} {show(config[what])}, and tokens are read without any")
    try:
        dtype = dtype_of(int(code), tensor=kind == "no_header_tensor")
    except FormatError as error:
        raise index.refuse(str(error)) from error
    shards: list[TokenShard] = []
    for chunk in index.take(index.content.get("chunks"), "'chunks'", list):
        index.take(chunk, "chunk", dict)
        count = index.count(chunk.get("chunk_size"), "'chunk_size'")
        size = index.take(chunk.get("dim"), "'dim'", int)
        place = index.file(chunk.get("filename"), "'filename'")
        shards.append(FlatShard(place, options, partial(_load, dtype=dtype, count=count, size=size)))
    return shards


def _load(files: Parts, place: Place, options: Options, *, dtype: np.dtype[Any], count: int, size: int) -> Flat:
    file = files.open(place)
    begin = _WORD * (count + 2)
    if begin > file.entry.size:
        raise FormatError(
            f"{place} has {file.entry.size} bytes, and its index says it has {count} documents", path=place.path
        )
    words = np.frombuffer(file.contents.read([0], [begin])[0], "<u4").astype(np.int64)
    if words[0] != count or words[1] != begin:
        raise FormatError(
            f"{place} is damaged, or not the file of its index, which says it has {count} documents", path=place.path
        )
    flat = Flat.of(file, dtype, options, begin)
    if flat.size != size:
        raise FormatError(f"{place} has {flat.size} tokens, and its index says {size}", path=place.path)
    return flat.bounded(file, Edges(words[1:] - begin, dtype.itemsize), options)

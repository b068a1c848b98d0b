"""Files of tokens after a head or beside an index: OLMo, Dolma, nanoGPT, llm.c, NumPy; datatrove; LitData; Megatron."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import logging
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from spdl._check import show
from spdl.io import FormatError
from spdl.io._shared import check_fetched, kept_arrays
from spdl.source._place import Place, is_there
from spdl.source._shards.indexed import IndexFile
from spdl.source._shards.litdata import dtype_of
from spdl.source._shards.sharded import kept_name
from spdl.source._text.bounds import Bounds, Edges, Ends, Integers, Lengths, Numbers, Spans, pieces
from spdl.source._text.token_shard import File, Flat, FlatShard, Options, Parts, TokenShard

_LOG = logging.getLogger("spdl.source")

_NUMPY = b"\x93NUMPY"
_HEAD = 1 << 14  # NumPy's are shorter.
# llm.c and modded-nanogpt: 256 numbers of 32 bits, and three are used.
_LLM_C = struct.Struct("<3i")
_LLM_C_SIZE = 1024
# The version and the type of the tokens, by the first number.
_LLM_C_KINDS = {20240520: (1, "<u2"), 20240801: (7, "<u4")}
_LLM_C_EVALUATION = 20240522
_VERSION = 1
_PIECE = 1 << 22
_LINE = 1 << 20
_MORE = 1 << 16


def load_raw(files: Parts, place: Place, options: Options) -> Flat:
    """Open a ``.bin`` or ``.npy`` file: of Megatron if an ``.idx`` lies beside it, else by its first bytes."""
    index = _beside(place, ".bin", ".idx")
    if index is not None and is_there(index):
        return load_megatron(files, place, index, options)
    file = files.open(place)
    head = bytes(file.contents.read([0], [min(file.entry.size, _HEAD)])[0])
    dtype, skip, count = _read_head(place, head, options)
    flat = Flat.of(file, dtype, options, skip)
    if count is not None and count != flat.size:
        raise FormatError(
            f"{place} is damaged: it says it has {count} tokens, and has {flat.size} of {dtype}", path=place.path
        )
    metadata = _beside(place, place.name[place.name.rfind(".") :], ".csv.gz")
    if metadata is not None and is_there(metadata):
        listed = files.open(metadata)
        name = kept_name(f"token bounds {_VERSION}\n{flat.size}", metadata, listed.entry)
        kept = kept_arrays("tokens", name, options.cache, lambda: _read_bounds(metadata, listed.whole(), flat.size))
        bounded = flat.bounded(listed, Spans(kept["starts"], kept["stops"]), options)
        left_out = flat.size - int((kept["stops"] - kept["starts"]).sum())
        if left_out:
            _LOG.warning("%s lists no document for %d of the %d tokens of %s", metadata, left_out, flat.size, place)
        return bounded
    return flat.bounded(file, _unlisted(file, flat, options), options)


def load_datatrove(files: Parts, place: Place, options: Options) -> Flat:
    index = place._replace(path=f"{place.path}.index")
    file = files.open(place)
    if not is_there(index):
        if options.dtype is None:
            raise _without_type(place, f"{index.name} is missing, and ")
        flat = Flat.of(file, options.dtype, options)
        return flat.bounded(file, _unlisted(file, flat, options), options)
    listed = files.open(index)
    if listed.entry.size % 8:
        raise FormatError(f"{index} has {listed.entry.size} bytes, and each end of a document has 8", path=index.path)
    ends = np.frombuffer(listed.whole(), "<u8") if listed.entry.size else np.empty(0, "<u8")
    last = int(ends[-1]) if len(ends) else 0
    types = {2 * last: "<u2", 4 * last: "<u4"}
    if file.entry.size not in types:
        raise FormatError(
            f"{place} has {file.entry.size} bytes, and by {index.name} it has {last} tokens of 2 or 4 bytes: it is "
            "damaged, or that is the index of another file",
            path=place.path,
        )
    dtype = np.dtype(types[file.entry.size])
    if not last and options.dtype is not None:
        dtype = options.dtype
    return Flat.of(file, dtype, options).bounded(listed, Ends(ends), options)


def _read_head(place: Place, head: bytes, options: Options) -> tuple[np.dtype[Any], int, int | None]:
    """Return the type of the tokens, their offset in bytes, and their number if the head has it."""
    check_fetched(head, str(place), place.path)
    if head.startswith(_NUMPY):
        return _read_numpy_head(place, head)
    magic, version, count = _LLM_C.unpack(head[: _LLM_C.size]) if len(head) >= _LLM_C.size else (0, 0, 0)
    if magic == _LLM_C_EVALUATION:
        raise FormatError(f"{place} has questions of an evaluation of llm.c, not documents", path=place.path)
    if magic in _LLM_C_KINDS:
        known, dtype = _LLM_C_KINDS[magic]
        if version != known:
            raise FormatError(
                f"{place} is a shard of llm.c of version {version}, and version {known} is read", path=place.path
            )
        return np.dtype(dtype), _LLM_C_SIZE, count
    if options.dtype is None:
        raise _without_type(
            place, f"{index.name} is missing, and " if (index := _beside(place, ".bin", ".idx")) else ""
        )
    return options.dtype, 0, None


def _without_type(place: Place, why: str) -> FormatError:
    return FormatError(
        f"{place}: {why}the file does not say which type its tokens have. Say it if there is nothing but tokens in it: "
        "dtype='uint16' for nanoGPT and tokenizers of up to 65,536 tokens, dtype='uint32' for most others",
        path=place.path,
    )


def _read_numpy_head(place: Place, head: bytes) -> tuple[np.dtype[Any], int, int]:
    try:
        # From version 2 on the length has 32 bits.
        length = struct.Struct("<8xH" if head[6] == 1 else "<8xI")
        skip = length.size + length.unpack_from(head)[0]
        described = ast.literal_eval(head[length.size : skip].decode())
        shape, dtype = described["shape"], np.dtype(described["descr"])
        (count,) = shape if len(shape) == 1 else (0,)
        if type(count) is not int:
            raise ValueError(f"its shape is {show(shape)}")  # noqa: TRY301
    except (ValueError, TypeError, LookupError, SyntaxError, RecursionError, MemoryError, struct.error) as error:
        raise FormatError(f"{place} has a damaged head of NumPy: {error}", path=place.path) from error
    if len(shape) != 1 or dtype.kind not in "iuf":
        raise FormatError(
            f"{place} is an array of the shape {show(shape)} and the type {dtype}, and tokens are numbers in one "
            "dimension",
            path=place.path,
        )
    return dtype, skip, count


def _unlisted(file: File, flat: Flat, options: Options) -> Bounds:
    """Return the bounds of documents in a file that has none: by a token if the user has named one, or of one."""
    token, begins = options.end_token, False
    if token is None:
        token, begins = options.start_token, True
    if token is None or not flat.size:
        return Edges(np.array([0, flat.size] if flat.size else [0], np.int64))
    name = kept_name(f"token {token} {begins} {_VERSION}\n{flat.dtype.str} {flat.skip}", file.place, file.entry)
    return Edges(kept_arrays("tokens", name, options.cache, lambda: _find(flat, token, begins=begins))["edges"])


def _find(flat: Flat, token: int, *, begins: bool) -> Mapping[str, Any]:
    found = [np.zeros(1, np.int64)]
    for first in range(0, flat.size, _PIECE):
        length = min(_PIECE, flat.size - first)
        (tokens,) = flat.read(np.array([first]), np.array([length]))
        found.append(np.flatnonzero(tokens == token) + (first if begins else first + 1))
    edges = np.concatenate([*found, [flat.size]])
    # A token at the very beginning or end does not divide documents.
    return {"edges": edges[np.diff(edges, prepend=-1) > 0]}


def _read_bounds(place: Place, content: memoryview, size: int) -> Mapping[str, Any]:
    starts, stops = array("q"), array("q")
    try:
        # Python takes nothing at all for a compressed file without content.
        if not content:
            raise EOFError("it is empty")  # noqa: TRY301
        with gzip.open(io.BytesIO(content), "rt", encoding="utf-8", errors="surrogateescape", newline="") as text:
            for row in csv.reader(_lines(text)):
                if len(starts) > size + _MORE:
                    raise FormatError(f"{place} lists more than {len(starts)} documents of {size} tokens")  # noqa: TRY301
                starts.append(int(row[0]))
                stops.append(int(row[1]))
    except FormatError:
        raise
    except (OSError, EOFError, zlib.error, csv.Error, ValueError, IndexError, OverflowError) as error:
        raise FormatError(
            f"{place}, row {len(stops)}: it is not a table in gzip whose rows begin with the first token of a document "
            f"and the one after its last: {error}",
            path=place.path,
        ) from error
    return {"starts": np.array(starts, np.int64), "stops": np.array(stops, np.int64)}


def _lines(text: Any) -> Iterator[str]:
    while line := text.readline(_LINE):
        if len(line) == _LINE:
            raise ValueError(f"a line has {_LINE} characters or more")
        yield line


def _beside(place: Place, ending: str, other: str) -> Place | None:
    if not place.path.endswith(ending):
        return None
    return place._replace(path=place.path.removesuffix(ending) + other)


_LITDATA = "TokensLoader"
_WORD = 4


def litdata_shards(index: IndexFile, options: Options) -> list[TokenShard]:
    config = index.take(index.content.get("config"), "'config'", dict)
    # The first versions did not say it.
    loader = index.take(config.get("item_loader", _LITDATA), "'item_loader'", str)
    formats = index.take(config.get("data_format"), "'data_format'", list)
    kind, _, code = str(formats[0]).partition(":") if len(formats) == 1 else ("", "", "")
    known = kind in ("no_header_tensor", "no_header_numpy") and code.isascii() and code.isdigit()
    if loader != _LITDATA or not known:
        raise index.refuse(
            f"its chunks are for the loader {loader!r} and have the format {show(formats)}: those for {_LITDATA} are "
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
        shards.append(FlatShard(place, options, partial(_load_chunk, dtype=dtype, count=count, size=size)))
    return shards


def _load_chunk(files: Parts, place: Place, options: Options, *, dtype: np.dtype[Any], count: int, size: int) -> Flat:
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


_MAGIC = b"MMIDIDX\0\0"
# After the magic: the version, the type, and the numbers of sequences and of bounds of documents.
_INDEX_HEAD = struct.Struct("<9sQBQQ")
_INDEX_VERSION = 1
_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}
_SEQUENCE_SIZE = 4  # Bytes of the size of a sequence.
_SEQUENCE_PLACE = 8  # Bytes of its place, and of a bound of documents.


class Sequences(Edges):
    """Documents of some sequences each.

    `documents` are the first sequence of each, and the number of sequences; `places` the first byte of each sequence,
    and `sizes` how many tokens each has, of `unit` bytes.
    """

    def __init__(self, documents: Numbers, places: Numbers, sizes: Numbers, unit: int) -> None:
        super().__init__(documents, unit)
        self._places = places
        self._sizes = sizes
        self._end = int(places[-1]) + int(sizes[-1]) * unit if len(places) else 0
        # Whether each document is one sequence, as for GPT: then nothing has to be looked up.
        self._single = self.count == len(places)

    def check(self, size: int) -> int:
        self._check_sequences(size * self._unit)
        count = len(self._places)
        following = 0
        for first, last in pieces(self.count):
            documents = self._edges[first : last + 1]
            wrong = np.flatnonzero(documents[1:] < documents[:-1])
            if documents[0] != following or wrong.size:
                raise FormatError(
                    f"document {first + int(wrong[0]) if wrong.size else first} does not begin at the sequence that "
                    "follows the one before it"
                )
            following = int(documents[-1])
            self._single = self._single and bool((documents == np.arange(first, last + 1)).all())
        if following != count:
            raise FormatError(
                f"its documents end at sequence {following} of {count}: its writer has not called `end_document` "
                "for the others"
            )
        return int(self._single)

    def trust(self, checked: int) -> None:
        self._single = bool(checked)

    def _check_sequences(self, end: int) -> None:
        following = 0
        for first, last in pieces(len(self._places)):
            places, sizes = self._places[first:last], self._sizes[first:last]
            if sizes.min() < 0:
                number = int(sizes.argmin())
                raise FormatError(f"sequence {first + number} has {sizes[number]} tokens")
            ends = sizes.astype(np.int64)
            ends *= self._unit
            begins = places.copy()
            ends += begins
            wrong = np.flatnonzero(ends[:-1] != begins[1:])
            if begins[0] != following or wrong.size:
                number = int(wrong[0]) + 1 if wrong.size and begins[0] == following else 0
                before = ends[number - 1] if number else following
                raise FormatError(
                    f"sequence {first + number} begins at byte {begins[number]}, and the one before it ends at byte "
                    f"{before}"
                )
            following = int(ends[-1])
            if following > end:
                break
        if following != end:
            raise FormatError(
                f"its sequences end at byte {following}{' or later' if following > end else ''}, and the .bin file has "
                f"{end}"
            )

    def spans(self, numbers: Integers) -> tuple[Integers, Integers]:
        if self._single:
            return self._places[numbers] // self._unit, self._sizes[numbers].astype(np.int64)
        return super().spans(numbers)

    def starts(self, numbers: Integers) -> Integers:
        return self._places[numbers] // self._unit if self._single else super().starts(numbers)

    def lengths(self) -> Lengths:
        return self._sizes if self._single else super().lengths()

    def _edge(self, number: int) -> int:
        sequence = int(self._edges[number])
        return int(self._places[sequence]) if sequence < len(self._places) else self._end

    def _at(self, numbers: Integers) -> Integers:
        return self._begin(self._edges[numbers])

    def _between(self, first: int, last: int) -> Integers:
        return self._begin(self._edges[first : last + 1])

    def _begin(self, sequences: Numbers) -> Integers:
        count = len(self._places)
        begins = np.full(len(sequences), self._end, np.int64)
        inside = sequences < count
        begins[inside] = self._places[sequences[inside]]
        return begins


def load_megatron(files: Parts, place: Place, index: Place, options: Options) -> Flat:
    listed = files.open(index)
    view = listed.whole()
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise FormatError(
            f"{index} is not an index of Megatron or NeMo: it begins with {bytes(view[: len(_MAGIC)])!r}, and these "
            f"begin with {_MAGIC!r}",
            path=index.path,
        )
    if len(view) < _INDEX_HEAD.size:
        raise FormatError(
            f"{index} is cut off: it has {len(view)} bytes, and its head has {_INDEX_HEAD.size}", path=index.path
        )
    _, version, code, sequences, bounds = _INDEX_HEAD.unpack(view[: _INDEX_HEAD.size])
    if version != _INDEX_VERSION:
        raise FormatError(f"{index} has version {version}, and version {_INDEX_VERSION} is read", path=index.path)
    if code not in _TYPES:
        known = ", ".join(f"{number} ({np.dtype(name)})" for number, name in _TYPES.items())
        raise FormatError(f"{index}: its tokens have the type {code}, and {known} are known", path=index.path)
    # Before anything is made of these numbers, which may be any.
    expected = _INDEX_HEAD.size + sequences * (_SEQUENCE_SIZE + _SEQUENCE_PLACE) + bounds * _SEQUENCE_PLACE
    if len(view) == expected + sequences > expected:
        raise FormatError(
            f"{index} is multimodal: it has the mode of each sequence, `sequence_modes`, and only text is read",
            path=index.path,
        )
    if len(view) != expected or not bounds:
        raise FormatError(
            f"{index} is damaged: it says it has {sequences} sequences and {bounds} bounds of documents, which take "
            f"{expected} bytes, and it has {len(view)}",
            path=index.path,
        )
    dtype = np.dtype(_TYPES[code])
    flat = Flat.of(files.open(place), dtype, options)
    sizes = np.frombuffer(view, "<i4", sequences, _INDEX_HEAD.size)
    places = np.frombuffer(view, "<i8", sequences, _INDEX_HEAD.size + sizes.nbytes)
    documents = np.frombuffer(view, "<i8", bounds, _INDEX_HEAD.size + sizes.nbytes + places.nbytes)
    return flat.bounded(listed, Sequences(documents, places, sizes, dtype.itemsize), options)

"""Files of tokens without packing: documents by their numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import check_int, check_path, check_str, positive, refuse
from spdl.source._place import Place, find_places
from spdl.source._prefetch import ByteCache, read_together
from spdl.source._shards.indexed import IndexFile
from spdl.source._shards.mds import list_shards
from spdl.source._shards.parquet_shard import import_arrow
from spdl.source._shards.sharded import ShardedRecords, read_named
from spdl.source._text.bounds import Integers, Lengths
from spdl.source._text.raw_tokens import litdata_shards, load_datatrove, load_raw
from spdl.source._text.token_columns import ArrowShard, MDSTokens, ParquetTokens
from spdl.source._text.token_shard import Cuts, FlatShard, Options, Tokens, TokenShard

if TYPE_CHECKING:
    from spdl.store import Store

_FOLDER = "index.json"
_CACHED = 1 << 28
_FEW = 128
"""Up to here, the places of documents in several files are found faster one by one than file by file."""
# The arrays that are made when they are first needed, and not pickled.
_MADE = ("_lengths", "_parts", "_offsets")
_ENDINGS = (".bin", ".npy", ".ds", ".parquet", ".arrow")
_ACCEPTED = (
    "token files: .bin (Megatron, nanoGPT, llm.c), .npy (OLMo, Dolma, NumPy), .ds (datatrove), .parquet, .arrow, or a "
    "folder with index.json (MDS, LitData), or that file"
)


class TokenFiles(ShardedRecords[Tokens, TokenShard]):
    """The documents of token files as they are: in any order, mapped, or read in ranges from a store.

    A document is a NumPy array of the file's own type, in one dimension. For a mapped file it is a read-only view:
    nothing is copied or converted, and only what is used is read. Files of different formats may be mixed:

    * ``.bin`` with an ``.idx`` beside it: Megatron-LM and NeMo. A document has all sequences that the index says it
      has. Multimodal ones are refused.
    * ``.bin`` with the head of llm.c and modded-nanogpt, of 16 or 32 bits.
    * ``.bin`` and ``.npy`` of nothing but tokens, as nanoGPT, OLMo and Dolma have them: `dtype` says their type. The
      bounds are in the ``.csv.gz`` beside the file, if there is one. A ``.npy`` that NumPy has written says its
      type.
    * ``.ds`` with a ``.ds.index`` beside it: datatrove.
    * a folder with an ``index.json``: chunks of LitData for ``TokensLoader``, as litgpt has them; or MDS shards
      whose `column` has arrays, or bytes of the type `dtype`.
    * ``.parquet`` and ``.arrow``: lists of integers in `column`. An Arrow file that is not compressed gives
      views, too.

    A file without bounds is one document, unless `end_token` or `start_token` names the token that bounds documents.

    Indexes are checked whole when the files are opened: no document reaches out of its file, or overlaps the one
    before. This takes some 15 seconds for a billion documents; from 8 million on, a cache keeps that it was done. Ids
    are compared with `vocab_size` as they are read, and the first 4,096 of each mapped file at once.

    It is pickled as its paths; copies open the files again, and refuse one that has changed.

    Args:
        files: The files in the order of their documents: paths, URLs or patterns such as
            ``train-{000..127}_text_document.bin``.
        store: The store of the files, unless they are on this machine or named by URLs; paths are relative to the
            store.
        dtype: The type of the ids in files that do not say it, such as ``"uint16"``.
        vocab_size: How many ids there are. A document with a negative id or a larger one is an error. None does not
            look at them.
        end_token: The id that ends a document, in files without bounds. It is the document's last token. Tokens
            after the last one are a document, too.
        start_token: The id that begins a document, in files without bounds; llm.c and modded-nanogpt write it.
        column: The name of the column; None is ``input_ids`` in Parquet and Arrow files, and ``tokens`` in MDS shards.
        cache: The folder that keeps the bounds that were found by a token or in a ``.csv.gz``, the lengths in
            Parquet files and MDS shards, and which large indexes were checked, which ranks and later runs share. None
            is a folder in the user's cache.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no document, a file has another ending, or an argument is invalid.
        FormatError: If a file or an index is of another format or version, is damaged, or does not fit the other; when
            a document is read, if it has ids outside of the vocabulary.
        ImportError: If pyarrow is needed and not installed.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from spdl.source import TokenFiles
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "train.bin")
        >>> np.array([5, 6, 0, 7, 0], np.uint16).tofile(path)
        >>> files = TokenFiles(path, dtype="uint16", end_token=0, cache=folder.name)
        >>> len(files), files.lengths, files[1], files.dtype
        (2, array([3, 2], dtype=int32), array([7, 0], dtype=uint16), dtype('uint16'))
        >>> folder.cleanup()
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        dtype: Any = None,
        vocab_size: int | None = None,
        end_token: int | None = None,
        start_token: int | None = None,
        column: str | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if vocab_size is not None:
            positive("vocab_size", vocab_size)
        for name, token in (("end_token", end_token), ("start_token", start_token)):
            if token is not None:
                check_int(name, token, least=0)
        if end_token is not None and start_token is not None:
            refuse(ValueError, "start_token", "None if `end_token` is given: one of them is the bound", start_token)
        if column is not None:
            check_str("column", column)
        if cache is not None:
            check_path("cache", cache)
        options = Options(_dtype(dtype), vocab_size, start_token, end_token, column, cache)
        parquet = ByteCache(_CACHED)
        shards = [
            shard for place in find_places("files", files, store) for shard in _shards(place, options, parquet, files)
        ]
        super().__init__(shards)
        if not len(self):
            refuse(ValueError, "files", "files with documents in them", files)
        self._vocab_size = vocab_size
        found = {shard.dtype for shard in self._shards if len(shard)} - {None}
        # Of 64 bits with and without a sign NumPy makes floats.
        common = np.result_type(*found)
        floats = any(each.kind == "f" for each in found if each is not None)
        self._dtype = np.dtype(np.int64) if common.kind == "f" and not floats else common

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds the ids of all files. If they have the same type, it is that type."""
        return self._dtype

    @property
    def vocab_size(self) -> int | None:
        """How many ids there are; None if that was not given."""
        return self._vocab_size

    @property
    def block_sizes(self) -> list[int]:
        """How many documents lie together in each file, or in each row group of a Parquet file, as a new list.

        `BlockShuffledOrder` takes it as ``block``, so that an epoch in random order reads few of them at a time.
        """
        return [size for shard in self._shards for size in shard.blocks() if size]

    @property
    def lengths(self) -> Lengths:
        """How many tokens each document has, as a read-only array of int32, or of int64 if one has 2**31 or more.

        It is made when it is first asked for; for one file of Megatron or NeMo it is a view of the index. Parquet files
        and MDS shards are read once for it; a cache keeps the lengths.
        """
        return self._lengths

    @property
    def parts(self) -> list[Tokens] | None:
        """The tokens of each file, as read-only views of the mapped files, for native code; see `locate`.

        Files without a document are among them. None if not all files are mapped and flat: files in stores, columns of
        tables, and MDS shards are not.
        """
        return self._parts

    def locate(self, numbers: Sequence[int] | Integers) -> tuple[Integers, Integers]:
        """Return the places of documents in `parts`.

        Args:
            numbers: Documents, from 0.

        Returns:
            The part that each lies in, and its first token there, as arrays of int64.

        Raises:
            IndexError: If there is no such document.
            ValueError: If `parts` is None.
        """
        wanted = self._numbers(numbers)
        if self._parts is None:
            raise ValueError(f"{self!r}: they are not all mapped and flat, so `parts` is None: use `read`")
        if len(self._shards) == 1:
            return np.zeros(len(wanted), np.int64), self._shards[0].locate(wanted)
        parts = self._offsets.searchsorted(wanted, "right") - 1
        if len(wanted) <= _FEW:
            found = zip(parts.tolist(), (wanted - self._offsets[parts]).tolist(), strict=True)
            return parts, np.array([self._shards[part].first(number) for part, number in found], np.int64)
        firsts = np.empty(len(wanted), np.int64)
        for part, places, local in self._groups(wanted):
            firsts[places] = self._shards[part].locate(local)
        return parts, firsts

    def read(
        self,
        numbers: Sequence[int] | Integers,
        starts: Sequence[int] | Integers | None = None,
        stops: Sequence[int] | Integers | None = None,
    ) -> list[Tokens]:
        """Return documents, or parts of them. All are read at once, so from a store this is the way to read a batch.

        Args:
            numbers: Documents, from 0, in any order.
            starts: The first token of each that is wanted, counted from its beginning. None reads whole documents.
            stops: The token after the last one of each. Both are given, or none.

        Returns:
            Read-only arrays in one dimension, of the types of their files.

        Raises:
            IndexError: If there is no such document, or it has no such part.
            ValueError: If there are not as many starts or stops as numbers.
            FormatError: If one is damaged, or has an id outside of the vocabulary.
            OSError: If one cannot be read.
        """
        wanted = self._numbers(numbers)
        within: Cuts | None = None
        if (starts is None) != (stops is None):
            refuse(ValueError, "stops", "given if `starts` is, and None if it is None", stops)
        if starts is not None and stops is not None:
            within = np.asarray(starts, np.int64), np.asarray(stops, np.int64)
            for name, given in zip(("starts", "stops"), within, strict=True):
                if given.shape != wanted.shape:
                    refuse(ValueError, name, f"as many as `numbers`, which are {len(wanted)}", given)
        groups = list(self._groups(wanted))
        calls = []
        for shard, places, local in groups:
            cuts = None if within is None else (within[0][places], within[1][places])
            read = partial(self._shards[shard].read, local.tolist(), cuts)
            calls.append(partial(read_named, self._shards[shard].place, read))
        # Reading mapped files takes no time worth a thread.
        stored = any(self._shards[shard].place.store is not None for shard, _, _ in groups)
        results = read_together(calls) if stored else [call() for call in calls]
        found: list[Any] = [None] * len(wanted)
        for (_, places, _), documents in zip(groups, results, strict=True):
            for place, document in zip(places.tolist(), documents, strict=True):
                found[place] = document
        return found

    def __repr__(self) -> str:
        return f"TokenFiles: {len(self)} documents in {len(self._shards)} {self._called}"

    def _name(self, position: int) -> str:
        shard, number = self._find(position)
        return f"{shard.place.path}, document {number}"

    def _numbers(self, numbers: Any) -> Integers:
        wanted = np.asarray(numbers)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            refuse(TypeError, "numbers", "a sequence of ints", numbers)
        wanted = wanted.astype(np.int64, copy=False)
        # As numbers without a sign, negative ones are too large.
        if wanted.size and wanted.view(np.uint64).max() >= len(self):
            raise IndexError(f"{self!r}: the numbers of documents go from 0 to {len(self) - 1}, got {numbers}")
        return wanted

    def _groups(self, numbers: Integers) -> Iterator[tuple[int, Integers, Integers]]:
        """Yield for each file its number, the places of its documents in `numbers`, and their numbers in the file."""
        shards = self._offsets.searchsorted(numbers, "right") - 1
        order = np.argsort(shards, kind="stable")
        ordered = shards[order]
        local = numbers[order] - self._offsets[ordered]
        cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
        for first, last in pairwise(cuts if len(order) else []):
            yield int(ordered[first]), order[first:last], local[first:last]

    @cached_property
    def _offsets(self) -> Integers:
        return np.array(self._starts, np.int64)

    @cached_property
    def _parts(self) -> list[Tokens] | None:
        found = [shard.flat() for shard in self._shards]
        flat = [tokens for tokens in found if tokens is not None]
        return flat if len(flat) == len(found) else None

    @cached_property
    def _lengths(self) -> Lengths:
        found = [shard.lengths() for shard in self._shards]
        lengths = found[0] if len(found) == 1 else np.concatenate(found)
        lengths.setflags(write=False)
        return lengths

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _MADE}


def _dtype(given: Any) -> np.dtype[Any] | None:
    if given is None:
        return None
    accepted = "a type of integers, such as 'uint16' or 'uint32', or None"
    try:
        dtype: np.dtype[Any] = np.dtype(given)
    except TypeError:
        refuse(TypeError, "dtype", accepted, given)
    if dtype.kind not in "iu" or dtype.byteorder == ">":
        refuse(ValueError, "dtype", accepted, given)
    return dtype


def _shards(place: Place, options: Options, parquet: ByteCache, files: Any) -> list[TokenShard]:
    ending = os.path.splitext(place.path)[1]  # noqa: PTH122 - a path of a store has other rules than Path.
    if ending == ".idx":
        place, ending = place._replace(path=f"{place.path.removesuffix('.idx')}.bin"), ".bin"
    if ending in (".bin", ".npy"):
        return [FlatShard(place, options, load_raw)]
    if ending == ".ds":
        return [FlatShard(place, options, load_datatrove)]
    if ending == ".parquet":
        import_arrow("TokenFiles of Parquet files")
        return [ParquetTokens(place, options, parquet)]
    if ending == ".arrow":
        import_arrow("TokenFiles of Arrow files")
        return [ArrowShard(place, options)]
    if place.name == _FOLDER:
        place = place._replace(path=place.path.removesuffix(_FOLDER) or ".")
    elif not (place.store is None and os.path.isdir(place.path)):  # noqa: PTH112
        remedy = _name_whole(place)
        if ending or remedy:
            refuse(ValueError, "files", _ACCEPTED, files, remedy)
    index = IndexFile(place.path, place.store)
    if "chunks" in index.content:
        return litdata_shards(index, options)
    return [MDSTokens(shard.place, options, shard) for shard in list_shards(index, ByteCache(_CACHED), 1 << 30)]


def _name_whole(place: Place) -> str:
    """Return a remedy for a path without its ending, as Megatron's commands take it."""
    found = (f"{place.path}{ending}" for ending in _ENDINGS)
    whole = next((path for path in found if place.store is None and os.path.isfile(path)), None)  # noqa: PTH113
    return "" if whole is None else f"There is {whole}: write the whole name."

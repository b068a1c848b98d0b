"""The documents of an epoch: looked up or streamed, a few at a time, and turned into tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spdl._check import refuse, refuse_set, show
from spdl.dataloader._dataloader import is_own_iterator, refuse_second_pass
from spdl.dataloader._loader.failures import SampleFailure, UserCode
from spdl.dataloader._loader.loader_state import identify
from spdl.dataloader._text.counts import Corpora
from spdl.dataloader._text.tokenize import Encoded, Failed, Tokenize, to_encoded
from spdl.source import EpochOrder, StreamedJsonLines
from spdl.source._shared import Defect, apart, name_of, read_apart

# Documents that are looked up and tokenized at once: few, so that threads get equally much to do, and the first row
# comes soon.
_PIECE = 32
_FIRST_GROUP = 128
# Longer texts are no names of files, which the system would refuse to look for.
_LONGEST_NAME = 4096


class Groups:
    """Consecutive documents of an epoch that are packed together.

    The first groups are small, so that the first rows do not wait for a whole window of documents.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        sizes = []
        size = _FIRST_GROUP
        while size < window:
            sizes.append(size)
            size *= 2
        self._first = sizes
        self._ramp = sum(sizes)

    def stop(self, group: int) -> int:
        """Return the number of documents in all groups up to one."""
        if group < 0:
            return 0
        if group < len(self._first):
            return sum(self._first[: group + 1])
        return self._ramp + (group + 1 - len(self._first)) * self._window


class Piece(NamedTuple):
    group: int
    first: int
    """The number of the first one in the epoch."""
    indices: list[int]
    """Where they are in the source."""
    records: list[Any] | None
    """What the source had there, if it can be read only in its own order."""
    closes: bool
    """Whether no more of the group follow."""
    ends: bool = False
    """Whether no more of the epoch follow."""
    mark: tuple[int, ...] | None = None
    """Where a streamed source may begin to read for the documents that follow: the number of a document, and more."""
    error: Exception | None = None
    """What the source raised instead of more documents."""


class Tokenized(NamedTuple):
    """The tokens of a piece, and why some documents have none."""

    piece: Piece
    documents: list[Encoded | None]
    corpora: list[str | None] | None = None
    """The corpus of each, if they are counted."""
    failures: tuple[SampleFailure, ...] = ()
    error: Exception | None = None


_Read = Callable[[int], "tuple[list[int], list[Any] | None, tuple[int, ...] | None]"]
"""Returns the next few documents: their positions in the source, their records, and a mark after them."""


class Documents:
    """The documents of a source in the order of an epoch: its own if `order` is None, and it is not a sequence."""

    def __init__(
        self,
        source: Any,
        order: EpochOrder | None,
        tokenize: Tokenize | None,
        field: str | None,
        *,
        corpora: Corpora | None,
        vocab_size: int | None,
    ) -> None:
        self._source = source
        self._order = order
        self._tokenize = tokenize
        self._field = field
        self._corpora = corpora
        self._vocab_size = vocab_size
        self._used = False
        # A source that parses what it reads leaves that to the threads that tokenize.
        self._parse: Callable[[Any], Any] | None = source._parse if isinstance(source, StreamedJsonLines) else None  # noqa: SLF001

    @property
    def size(self) -> int | None:
        return None if self._order is None else len(self._order)

    def identify(self) -> tuple[str, str]:
        if self._order is not None:
            return identify(self._source), self._order.fingerprint
        own = getattr(self._source, "fingerprint", None)
        return str(own()) if callable(own) else type(self._source).__name__, "as streamed"

    def pieces(
        self, epoch: int, groups: Groups, group: int, first: int, mark: tuple[int, ...] | None
    ) -> Iterator[Piece]:
        """Yield the documents of an epoch from one on, which a group begins with."""
        number = first
        last = Piece(group, number, [], None, closes=True, ends=True)
        try:
            read = self._take(epoch, first) if self._order is not None else self._stream(first, mark)
            while True:
                stop = groups.stop(group)
                last = last._replace(group=group, first=number)
                indices, records, mark = read(min(_PIECE, stop - number))
                if not indices:
                    break
                closes = number + len(indices) == stop
                yield Piece(group, number, indices, records, closes, mark=mark)
                number += len(indices)
                group += closes
        except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
            last = last._replace(error=error)
        yield last

    def _take(self, epoch: int, first: int) -> _Read:
        order = self._order
        assert order is not None
        size, begin = len(order), first

        def read(count: int) -> tuple[list[int], None, None]:
            nonlocal begin
            positions = np.arange(begin, min(begin + count, size), dtype=np.int64)
            begin += positions.size
            found = np.asarray(order.take(epoch, positions)).tolist() if positions.size else []
            if found and not 0 <= min(found) <= max(found) < len(self._source):
                raise IndexError(
                    f"`order` names the documents {min(found)} to {max(found)}, and `source` has {len(self._source)}"
                )
            return found, None, None

        return read

    def _stream(self, first: int, mark: tuple[int, ...] | None) -> _Read:
        source = self._source
        if is_own_iterator(source) and self._used:
            refuse_second_pass("TextLoader", "source", source)
        self._used = True
        records: Iterator[Any]
        if self._parse is not None:
            records = source._lines_from(first, mark)  # noqa: SLF001 - threads parse.
        elif hasattr(type(source), "iterate_from"):
            records = source.iterate_from(first)
        else:
            records = iter(source)
            skipped = sum(1 for _ in islice(records, first))
            if skipped < first:
                raise ValueError(
                    f"`source` ended after {skipped} documents, and this epoch goes on at {first}: it is not the "
                    "source that the state was saved with, or an iterator that was read before."
                )
        number = first

        def read(count: int) -> tuple[list[int], list[Any], tuple[int, ...] | None]:
            nonlocal number
            found: list[Any] = []
            with UserCode(lambda: f"iterating over {type(source).__name__} at document {number + len(found)}"):
                found.extend(islice(records, count))
            indices = list(range(number, number + len(found)))
            number += len(found)
            return indices, found, getattr(records, "mark", None)

        return read

    def load(self, piece: Piece, epoch: int) -> Tokenized:
        """Return the tokens of the documents of a piece. Several threads call it at once."""
        if piece.error is not None:
            return Tokenized(piece, [], error=piece.error)
        try:
            records = self._look_up(piece)
            names = self._name_corpora(piece.indices, records)
            found = self._encode(records)
        except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
            return Tokenized(piece, [], error=error)
        failures = tuple(
            SampleFailure(epoch, piece.indices[place], self._name(piece, place), each.reason)
            for place, each in enumerate(found)
            if isinstance(each, Defect)
        )
        return Tokenized(piece, [None if isinstance(each, Defect) else each for each in found], names, failures)

    def _name_corpora(self, indices: list[int], records: list[Any]) -> list[str | None] | None:
        """Return the corpus of each document, and put a `Defect` in the place of a record that does not name it."""
        corpora = self._corpora
        if corpora is None:
            return None
        if corpora.field is None:
            return list(map(corpora.name_at, indices))
        names: list[str | None] = [None] * len(records)
        for place, record in enumerate(records):
            name = apart(corpora.name_in, record)
            if isinstance(name, Defect):
                records[place] = name
            else:
                names[place] = name
        return names

    def _name(self, piece: Piece, place: int) -> str | None:
        if piece.records is None:
            return name_of(self._source, piece.indices[place])
        line = piece.records[place]
        return None if self._parse is None else f"{line.place}, record {line.number} of all files"

    def _look_up(self, piece: Piece) -> list[Any]:
        if piece.records is None:
            with UserCode(f"looking up the documents {show(piece.indices)} of {type(self._source).__name__}"):
                return read_apart(self._source, piece.indices)
        if self._parse is None:
            return list(piece.records)
        return [apart(self._parse, record) for record in piece.records]

    def _encode(self, records: list[Any]) -> list[Encoded | Defect]:
        """Return the tokens of records, and in the place of those that have none the reason."""
        if self._tokenize is None:
            return [apart(self._ids_of, each) for each in records]
        given = [apart(self._pick, each) for each in records]
        texts = [each for each in given if not isinstance(each, Defect)]
        encoded = iter(self._tokenize.encode(texts))
        found = [each if isinstance(each, Defect) else next(encoded) for each in given]
        return [apart(self._check, each.defect if isinstance(each, Failed) else each) for each in found]

    def _ids_of(self, record: Any) -> Encoded:
        has_text = isinstance(record, Mapping) and not {"input_ids", "tokens"} & record.keys()
        if isinstance(record, str | bytes) or has_text:
            raise TypeError(f"a document must be ids if there is no `tokenizer`, got {show(record)}")
        return self._check(to_encoded("source", record))

    def _check(self, encoded: Encoded) -> Encoded:
        if self._vocab_size is not None and encoded.tokens.size:
            largest = int(encoded.tokens.max())
            if largest >= self._vocab_size:
                raise ValueError(f"the document has the token {largest}, and `vocab_size` is {self._vocab_size}")
        return encoded

    def _pick(self, record: Any) -> Any:
        if self._field is None or isinstance(record, str | bytes | bytearray | memoryview):
            return record
        if not isinstance(record, Mapping):
            raise TypeError(f"a document must be a text, or a record with a field {self._field!r}, got {show(record)}")
        if self._field not in record:
            raise KeyError(f"the record has no field {self._field!r}, but {', '.join(map(repr, record))}")
        if record[self._field] is None:
            raise ValueError(f"the field {self._field!r} is None")
        return record[self._field]


def is_map_style(source: Any) -> bool:
    refuse_set("source", source)
    kind = type(source)
    if kind in (list, tuple) and source and _is_name_of_file(source[0]):
        accepted = "texts, since names of files would be tokenized themselves"
        remedy = (
            "Read them by JsonLines, ParquetFiles, StreamedJsonLines or TokenFiles of `spdl.source`. For a `tokenizer` "
            "that opens files, pass pathlib.Path objects and `field=None`."
        )
        refuse(ValueError, "source", accepted, source, remedy)
    if kind in (list, tuple) and source and hasattr(type(source[0]), "fingerprint"):
        name = type(source[0]).__name__
        remedy = f"Give all files to one source: {name}([...])."
        refuse(TypeError, "source", "one source, or a list of documents", source, remedy)
    if isinstance(source, str | bytes | Mapping) or not (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
        accepted = "a sequence or an iterable of texts, ids or records, or token files"
        refuse(TypeError, "source", accepted, source)
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__")


def _is_name_of_file(text: Any) -> bool:
    suffixes = (".jsonl", ".json", ".txt", ".parquet", ".arrow", ".csv", ".gz", ".zst", ".bin", ".npy")
    return (
        isinstance(text, str) and text.lower().endswith(suffixes) and len(text) < _LONGEST_NAME and Path(text).is_file()
    )


def lengths_of(source: Any) -> Any:
    """Return the number of tokens of each document, if that is known without reading them; else None."""
    known = getattr(source, "lengths", None)
    if known is not None:
        return known
    if type(source) in (list, tuple) and all(isinstance(each, np.ndarray) for each in source):
        return np.fromiter(map(len, source), np.int64, len(source))
    return None

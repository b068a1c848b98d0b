"""A file of tokens: its documents by their numbers, mapped or read in ranges."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from spdl.io import FormatError
from spdl.io._shared import CachePath, ChangedError, OneVersion, check_regular, kept_arrays
from spdl.source._place import Place
from spdl.source._shards.sharded import Contents, LazyShard, MappedContents, kept_name, open_contents
from spdl.source._text.bounds import Bounds, Edges, Integers, Lengths

if TYPE_CHECKING:
    from spdl.store import Entry

Tokens: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Cuts: TypeAlias = "tuple[Integers, Integers]"
"""From which token of each document up to which one."""

_LOOKED_AT = 4096
"""The number of ids of a file that are compared with the vocabulary when it is opened."""

_MANY = 1 << 23
"""An index of so many documents takes a tenth of a second to check."""

_VERSION = 1

_FEW = 12
"""Up to here, documents are found faster one by one than by arrays."""


class Options(NamedTuple):
    dtype: np.dtype[Any] | None
    vocab_size: int | None
    start_token: int | None
    end_token: int | None
    column: str | None
    cache: CachePath

    def checked(self, place: Place, dtype: np.dtype[Any]) -> np.dtype[Any]:
        if dtype.kind not in "iuf" or dtype.byteorder == ">":
            raise FormatError(f"{place}: its tokens are {dtype.str!r}, and numbers in little-endian order are read")
        if self.vocab_size is not None and dtype.kind == "f":
            raise FormatError(f"{place}: its tokens are {dtype}, which are not ids of a vocabulary: see `vocab_size`")
        return dtype

    def check_ids(self, place: Place, where: str, ids: Tokens) -> None:
        if self.vocab_size is None or not ids.size:
            return
        for wrong in (int(ids.max()), int(ids.min()) if ids.dtype.kind == "i" else 0):
            if not 0 <= wrong < self.vocab_size:
                raise FormatError(
                    f"{place}, {where}, has the token {wrong}, and `vocab_size` is {self.vocab_size}: it is "
                    "damaged, was made by another tokenizer, or has another `dtype` than its tokens",
                    path=place.path,
                )


class File(NamedTuple):
    place: Place
    contents: Contents
    entry: Entry
    """Its size and version."""

    def whole(self) -> memoryview:
        if isinstance(self.contents, MappedContents):
            return self.contents.whole()
        return self.contents.read([0], [self.entry.size])[0]


class Parts:
    """The files that a shard consists of. Copies in other processes read the same versions of them."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        # Some stores name the version only when they answer a request.
        self._stored: dict[str, OneVersion] = {}

    def open(self, place: Place) -> File:
        """Open a file in the version that it had the first time. ChangedError if it has another one now."""
        known = self._entries.get(place.path)
        if place.store is not None:
            stored = self._stored[place.path] = OneVersion(place.store, place.path, known)
            entry = place.describe()
            stored.check(entry)
            return File(place, stored, entry)
        while True:
            check_regular(place.path)
            entry = place.describe()
            contents = open_contents(place)
            # It may have been replaced since it was described.
            if place.describe() == entry:
                break
        if self._entries.setdefault(place.path, entry) != entry:
            raise ChangedError(
                f"{place} was written again since this source was made, so its documents lie elsewhere: make the "
                "source again",
                path=place.path,
            )
        return File(place, contents, entry)

    def __getstate__(self) -> dict[str, Any]:
        stored = {path: each.entry for path, each in self._stored.items() if each.entry is not None}
        return {"_entries": self._entries | stored, "_stored": {}}


class Flat(NamedTuple):
    contents: Contents
    dtype: np.dtype[Any]
    skip: int
    """Where the first token is, in bytes."""
    size: int
    """How many there are."""
    tokens: Tokens | None
    """None if they are in a store."""
    bounds: Bounds

    @staticmethod
    def of(file: File, dtype: np.dtype[Any], options: Options, skip: int = 0) -> Flat:
        """Return the tokens from a byte to the end, without their bounds."""
        dtype = options.checked(file.place, dtype)
        size, rest = divmod(file.entry.size - skip, dtype.itemsize)
        if rest or size < 0:
            raise FormatError(
                f"{file.place} has {file.entry.size - skip} bytes of tokens, and each token has {dtype.itemsize}: it "
                f"is cut off, or its tokens are not {dtype}",
                path=file.place.path,
            )
        tokens = None
        if isinstance(file.contents, MappedContents):
            tokens = as_tokens(file.contents.whole()[skip:], dtype)
        return Flat(file.contents, dtype, skip, size, tokens, _NONE)

    def bounded(self, index: File, bounds: Bounds, options: Options) -> Flat:
        """Return the tokens with the bounds of their documents, which are checked.

        A cache keeps which version of a large index was checked: the file that the bounds are from.
        """
        place = index.place

        def check() -> dict[str, Tokens]:
            return {"checked": np.array([bounds.check(self.size)], np.int64)}

        try:
            if bounds.count < _MANY:
                bounds.check(self.size)
            else:
                name = kept_name(f"checked bounds {_VERSION}\n{self.size} {self.dtype.str}", place, index.entry)
                bounds.trust(int(kept_arrays("tokens", name, options.cache, check)["checked"][0]))
        except FormatError as error:
            raise FormatError(f"{place} is damaged, or belongs to another file: {error}", path=place.path) from error
        return self._replace(bounds=bounds)

    def read(self, starts: Integers, lengths: Integers) -> list[Tokens]:
        if self.tokens is not None:
            spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            return [self.tokens[start:stop] for start, stop in spans]
        item = self.dtype.itemsize
        parts = self.contents.read((self.skip + starts * item).tolist(), (lengths * item).tolist())
        return [as_tokens(part, self.dtype) for part in parts]


def as_tokens(content: memoryview, dtype: np.dtype[Any]) -> Tokens:
    """Read-only."""
    tokens = np.frombuffer(content, dtype) if len(content) else np.empty(0, dtype)
    tokens.setflags(write=False)
    return tokens


_NONE = Edges(np.zeros(1, np.int64))


class TokenShard(abc.ABC):
    """A file of documents. It is opened when it is first asked for something."""

    def __init__(self, place: Place, options: Options) -> None:
        self.place = place
        self.options = options

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any] | None:
        """The type of its ids; None if it has no document that would show it."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def lengths(self) -> Lengths:
        """Return how many tokens each document has, in 32 bits if these suffice."""

    @abc.abstractmethod
    def read(self, numbers: list[int], within: Cuts | None = None) -> list[Tokens]:
        """Return documents, or parts of them, as read-only arrays."""

    def blocks(self) -> list[int]:
        return [len(self)]

    def flat(self) -> Tokens | None:
        """Return all tokens if they are mapped one after the other, each where the processor reads it at once."""
        return None

    def locate(self, numbers: Integers) -> Integers:
        """Return where documents begin in the flat array."""
        raise NotImplementedError

    def first(self, number: int) -> int:
        """Return where one document begins in the flat array."""
        raise NotImplementedError

    def cut(self, numbers: list[int], lengths: Integers, within: Cuts) -> Cuts:
        starts, stops = within
        wrong = np.flatnonzero((starts < 0) | (stops < starts) | (stops > lengths))
        if wrong.size:
            first = int(wrong[0])
            raise IndexError(
                f"{self.place}, document {numbers[first]}, has {lengths[first]} tokens, and those from {starts[first]} "
                f"to {stops[first]} were asked for"
            )
        return starts, stops - starts

    def check_ids(self, numbers: list[int], found: list[Tokens]) -> list[Tokens]:
        if self.options.vocab_size is not None:
            for number, ids in zip(numbers, found, strict=True):
                self.options.check_ids(self.place, f"document {number}", ids)
        return found


class FlatShard(TokenShard, LazyShard[Flat]):
    def __init__(self, place: Place, options: Options, load: Callable[[Parts, Place, Options], Flat]) -> None:
        LazyShard.__init__(self, place)
        super().__init__(place, options)
        self._read_format = load
        self._parts = Parts()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._open().dtype

    def __len__(self) -> int:
        return self._open().bounds.count

    def lengths(self) -> Lengths:
        return self._open().bounds.lengths()

    def read(self, numbers: list[int], within: Cuts | None = None) -> list[Tokens]:
        flat = self._open()
        if within is None and flat.tokens is not None and len(numbers) <= _FEW:
            spans = [flat.bounds.span(number) for number in numbers]
            return self.check_ids(numbers, [flat.tokens[start : start + length] for start, length in spans])
        starts, lengths = flat.bounds.spans(np.asarray(numbers, np.int64))
        if within is not None:
            begins, lengths = self.cut(numbers, lengths, within)
            starts = starts + begins
        return self.check_ids(numbers, flat.read(starts, lengths))

    def flat(self) -> Tokens | None:
        tokens = self._open().tokens
        return tokens if tokens is not None and tokens.flags.aligned else None

    def locate(self, numbers: Integers) -> Integers:
        return self._open().bounds.starts(numbers)

    def first(self, number: int) -> int:
        return self._open().bounds.span(number)[0]

    def _load(self) -> Flat:
        found = self._read_format(self._parts, self.place, self.options)
        if found.tokens is not None:
            # Which finds most files of another tokenizer or type.
            self.options.check_ids(self.place, "near its beginning", found.tokens[:_LOOKED_AT])
        return found

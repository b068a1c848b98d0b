"""Indexed datasets of Megatron and NeMo: ``.bin`` and ``.idx``."""

from __future__ import annotations

import struct

import numpy as np

from spdl.io import FormatError
from spdl.source._place import Place
from spdl.source._text.bounds import Edges, Integers, Lengths, Numbers, pieces
from spdl.source._text.token_shard import Flat, Options, Parts

MAGIC = b"MMIDIDX\0\0"
# After the magic: the version, the type, and the numbers of sequences and of bounds of documents.
_HEAD = struct.Struct("<9sQBQQ")
_VERSION = 1
_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}
_SIZE = 4  # Bytes of the size of a sequence.
_WORD = 8  # Bytes of its place, and of a bound of documents.


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
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise FormatError(
            f"{index} is not an index of Megatron or NeMo: it begins with {bytes(view[: len(MAGIC)])!r}, and these "
            f"begin with {MAGIC!r}",
            path=index.path,
        )
    if len(view) < _HEAD.size:
        raise FormatError(
            f"{index} is cut off: it has {len(view)} bytes, and its head has {_HEAD.size}", path=index.path
        )
    _, version, code, sequences, bounds = _HEAD.unpack(view[: _HEAD.size])
    if version != _VERSION:
        raise FormatError(f"{index} has version {version}, and version {_VERSION} is read", path=index.path)
    if code not in _TYPES:
        known = ", ".join(f"{number} ({np.dtype(name)})" for number, name in _TYPES.items())
        raise FormatError(f"{index}: its tokens have the type {code}, and {known} are known", path=index.path)
    # Before anything is made of these numbers, which may be any.
    expected = _HEAD.size + sequences * (_SIZE + _WORD) + bounds * _WORD
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
    sizes = np.frombuffer(view, "<i4", sequences, _HEAD.size)
    places = np.frombuffer(view, "<i8", sequences, _HEAD.size + sizes.nbytes)
    documents = np.frombuffer(view, "<i8", bounds, _HEAD.size + sizes.nbytes + places.nbytes)
    return flat.bounded(listed, Sequences(documents, places, sizes, dtype.itemsize), options)

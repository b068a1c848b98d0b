"""Rows of packed documents, and how documents are packed into them, by their lengths alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from spdl._check import check_choice, check_int, refuse
from spdl.io._common.native import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class PackedRows(NamedTuple):
    """The parts of documents that make some rows.

    Row ``r`` has the segments from ``offsets[r]`` to before ``offsets[r + 1]``, in this order. Segment ``s`` has the
    tokens from ``starts[s]`` to before ``stops[s]`` of the document ``documents[s]``.

    Example:
        >>> from spdl.source import PackedOrder
        >>> rows = PackedOrder([7, 3, 5], 10, shuffle=False).rows([0, 1])
        >>> rows.documents, rows.offsets
        (array([0, 1, 2]), array([0, 2, 3]))
    """

    documents: NDArray[np.int64]
    """The number of each segment's document, as int64."""
    starts: NDArray[np.int64]
    """The first token of each segment in its document, as int64."""
    stops: NDArray[np.int64]
    """The token after the last one of each segment in its document, as int64."""
    offsets: NDArray[np.int64]
    """Where the segments of each row begin, and their number at the end, as int64."""


class PackedRow(NamedTuple):
    """A row of a stream, with the tokens of its documents.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import Pack
        >>> pack = Pack(10)
        >>> pack.accumulate({"tokens": np.arange(7)})
        >>> pack.accumulate({"tokens": np.arange(3)})
        >>> (row,) = pack.flush()
        >>> row.documents, row.starts, row.stops
        ([0, 1], [0, 0], [7, 3])
    """

    documents: list[int]
    """The number of each segment's document in the stream, counted from 0."""
    starts: list[int]
    """The first token of each segment in its document."""
    stops: list[int]
    """The token after the last one of each segment in its document."""
    tokens: list[NDArray[Any]]
    """The tokens of each segment's whole document."""
    loss_masks: list[NDArray[Any]] | None = None
    """For each segment's whole document, whether a token counts in the loss; None if all do."""


class MappedDocuments(Protocol):
    """Documents that lie in a few flat arrays, such as mapped files."""

    @property
    def parts(self) -> Sequence[NDArray[Any]] | None:
        """The arrays, of one dimension."""

    @property
    def lengths(self) -> NDArray[np.integer]:
        """The number of tokens of each document."""

    def locate(self, numbers: NDArray[np.int64], /) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the part that each document is in, and the place of its first token there."""


class ReadDocuments(Protocol):
    """Documents that can be read in part, many at once."""

    @property
    def lengths(self) -> NDArray[np.integer]:
        """The number of tokens of each document."""

    def read(
        self, numbers: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64], /
    ) -> Sequence[NDArray[Any]]:
        """Return some tokens of each of some documents."""


# Best-fit has a list of rows for each space that may be left.
_LONGEST = 2**24


class PackingCounts(NamedTuple):
    """How many documents and tokens were packed, and how many were left out.

    All tokens are accounted for: ``tokens == packed_tokens + too_long_tokens``.

    Example:
        >>> from spdl.source import PackedOrder
        >>> counts = PackedOrder([7, 3, 5], 10).counts
        >>> counts.rows, counts.packed_tokens, counts.fill
        (2, 15, 0.75)
    """

    length: int
    """The number of tokens of a row."""
    documents: int = 0
    """All documents that were given."""
    tokens: int = 0
    """Their tokens."""
    rows: int = 0
    """The rows that were made."""
    packed_tokens: int = 0
    """The tokens in the rows."""
    empty_documents: int = 0
    """Documents without tokens, which are in no row."""
    split_documents: int = 0
    """Documents that were divided among several rows."""
    too_long_documents: int = 0
    """Documents that were dropped since they are longer than a row."""
    too_long_tokens: int = 0
    """Their tokens."""

    @property
    def fill(self) -> float:
        """The share of the rows' tokens that are not padding; 0 without rows."""
        return self.packed_tokens / (self.rows * self.length) if self.rows else 0.0


def sum_counts(counts: Sequence[PackingCounts]) -> PackingCounts:
    """Return the counts of several together, at least one, with rows of one length."""
    return PackingCounts(counts[0].length, *(sum(each) for each in zip(*(one[1:] for one in counts), strict=True)))


class PackingRule(NamedTuple):
    """The arguments that decide how lengths are packed. `of` checks them."""

    length: int
    algorithm: str
    split: str
    align: int

    @staticmethod
    def of(
        length: object, *, algorithm: object, split: object, align: object, argument: str = "algorithm"
    ) -> PackingRule:
        """Return a rule of a user's arguments. One of these may have another name."""
        length = check_int("length", length, least=1, most=_LONGEST)
        check_choice(argument, algorithm, ("best-fit", "first-fit", "concat", "none"))
        check_choice("split", split, ("never", "long", "always", None))
        if split is None:
            split = "always" if algorithm == "concat" else "long"
        if split == "always" and algorithm != "concat":
            accepted = f"'never' or 'long' for {argument}={algorithm!r}"
            refuse(ValueError, "split", accepted, split, f"With {argument}='concat', all documents may be divided.")
        return PackingRule(length, str(algorithm), str(split), check_align(length, align))

    @property
    def name(self) -> str:
        """The part of a fingerprint that belongs to the rule."""
        return f"{self.algorithm} into {self.length}, split={self.split}, align={self.align}"

    def refuse_too_long(self, has: str) -> NoReturn:
        """Raise a ValueError about a document that is longer than a row, given how many tokens it has."""
        raise ValueError(
            f"{has}, more than the {self.length} of a row. Pass split='long' to divide such documents among rows, or "
            "too_long='drop' to leave them out."
        )

    def width(self, used: NDArray[np.int64]) -> int:
        """Return how long rows are of which these numbers of tokens are used: with "none", as the longest needs."""
        if self.algorithm != "none" or not used.size:
            return self.length
        return -(-int(used.max()) // self.align) * self.align

    def pack(self, lengths: NDArray[np.int64]) -> PackedRows:
        """Return the rows in the order of their first documents; a document's number is its place in `lengths`."""
        algorithm = getattr(native.PackingAlgorithm, self.algorithm.upper().replace("-", "_"))
        split = getattr(native.Split, self.split.upper())
        return PackedRows(*native.pack_lengths(lengths, self.length, algorithm, split, self.align))

    def account(
        self, lengths: NDArray[np.int64], rows: PackedRows, chosen: NDArray[np.bool_] | None = None
    ) -> PackingCounts:
        """Return what became of the documents; with `chosen`, of those alone, and without rows."""
        # One part of each document begins with its first token.
        split = (rows.starts == 0) & (rows.stops < lengths[rows.documents])
        packed = rows.stops - rows.starts
        count = int(rows.offsets.size - 1)
        if chosen is not None:
            split, packed, count = split & chosen[rows.documents], packed[chosen[rows.documents]], 0
            lengths = lengths[chosen]
        counts = self.account_lengths(lengths)
        return counts._replace(rows=count, packed_tokens=int(packed.sum()), split_documents=int(split.sum()))

    def account_lengths(self, lengths: NDArray[np.int64]) -> PackingCounts:
        """Return what follows from the lengths of documents alone: not what is in rows, nor how many were split."""
        too_long = lengths[lengths > self.length] if self.split == "never" else lengths[:0]
        return PackingCounts(
            length=self.length,
            documents=int(lengths.size),
            tokens=int(lengths.sum()),
            empty_documents=int((lengths == 0).sum()),
            too_long_documents=int(too_long.size),
            too_long_tokens=int(too_long.sum()),
        )


def select_rows(rows: PackedRows, numbers: NDArray[np.int64]) -> PackedRows:
    return PackedRows(*native.select_rows(*rows, numbers))


def check_too_long(too_long: object) -> bool:
    """Return whether documents that are too long for a row are dropped, and not an error."""
    check_choice("too_long", too_long, ("error", "drop"))
    return too_long == "drop"


def check_align(length: int, align: object) -> int:
    """Return the alignment of segments, if a row of that length is a multiple of it."""
    found = check_int("align", align, least=1)
    if length % found:
        refuse(ValueError, "align", f"a divisor of the {length} tokens of a row", align)
    return found

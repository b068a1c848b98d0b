"""Rows of packed documents: what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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

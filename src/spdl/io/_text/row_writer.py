"""Writes packed rows into the arrays of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from spdl._check import check_choice, check_instance, check_int, refuse, refuse_masked
from spdl.io._common.native import native
from spdl.io._text.packing import PackedRows, check_align

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spdl.io._text.packing import MappedDocuments, PackedRow, ReadDocuments

    Tokens: TypeAlias = NDArray[Any]
    Documents: TypeAlias = MappedDocuments | ReadDocuments | Sequence[Tokens]

_LARGEST = 2**31


class _Found(NamedTuple):
    """Arrays, and for each segment the array and the place of its first token, and the length of its document."""

    arrays: Any
    numbers: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]


_NOWHERE = np.empty(0, np.int64)


class RowWriter:
    """Writes packed rows into the arrays of a batch, in one native call without the GIL.

    The rows come from `spdl.source.PackedOrder` or from the stage `spdl.dataloader.Pack`. A call returns a dict:

    * ``tokens``, ``position_ids``, ``segment_ids`` and ``labels``, int32 of the shape (rows, length). Positions
      begin with 0 in each segment. Segments are numbered from 1 in each row, and the padding at a row's end is
      segment 0. So ``segment_ids[r, :, None] == segment_ids[r, None, :]`` is the block-diagonal mask of row r.
    * ``cu_seqlens``, int32: where each sequence ends if all rows are put one after the other, from 0 to
      ``rows * length``. It has the sequences of the same mask: segments, and the padding at the end of a row. This
      is what ``flash_attn_varlen_func`` takes for ``tokens.reshape(-1)``.
    * ``row_splits``, int32 of ``rows + 1`` numbers: the sequences of row r alone are
      ``cu_seqlens[row_splits[r] : row_splits[r + 1] + 1] - r * length``.
    * ``max_seqlen``, an int: the length of the longest sequence.

    With ``labels="shifted"``, the label of each token is the next token of the same document, even if that is in
    another row since the document was split. ``"unshifted"`` is for models that shift labels themselves: a label is the
    token itself, save at the first one of each segment. A label is -100 if there is no token to predict: at the end
    of a document (unshifted: at the beginning of a segment), in padding, and for tokens whose ``loss_mask`` is 0.

    Args:
        length: The number of tokens of a row.
        labels: ``"shifted"``, ``"unshifted"``, or None for a batch without ``labels``.
        align: Segments begin at multiples of this, as in the order or stage that made the rows. The padding between
            two segments belongs to the sequence before it, whose length is then a multiple, too.
        vocab_size: Tokens must be less than this. None takes the ``vocab_size`` of token files, and else accepts all
            that int32 can hold.
        pad_id: The token of padding.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If one is out of range, or `length` is not a multiple of `align`.

    Example:
        >>> import numpy as np
        >>> from spdl.io import RowWriter
        >>> from spdl.source import PackedOrder
        >>> documents = [np.array([5, 6, 7]), np.array([8, 9])]
        >>> order = PackedOrder([3, 2], 6, shuffle=False)
        >>> batch = RowWriter(6)(order.rows([0]), documents)
        >>> for name in ("tokens", "labels", "position_ids", "segment_ids"):
        ...     print(batch[name][0].tolist())
        [5, 6, 7, 8, 9, 0]
        [6, 7, -100, 9, -100, -100]
        [0, 1, 2, 0, 1, 0]
        [1, 1, 1, 2, 2, 0]
        >>> batch["cu_seqlens"].tolist(), batch["max_seqlen"]
        ([0, 3, 5, 6], 3)
    """

    def __init__(
        self,
        length: int,
        /,
        *,
        labels: Literal["shifted", "unshifted"] | None = "shifted",
        align: int = 1,
        vocab_size: int | None = None,
        pad_id: int = 0,
    ) -> None:
        self.length = check_int("length", length, least=1, most=_LARGEST - 1)
        self.align = check_align(self.length, align)
        check_choice("labels", labels, ("shifted", "unshifted", None))
        self.labels = labels
        if vocab_size is not None:
            accepted = f"None, or an int from 1 to {_LARGEST}"
            vocab_size = check_int("vocab_size", vocab_size, least=1, most=_LARGEST, accepted=accepted)
        self.vocab_size = vocab_size
        self.pad_id = check_int("pad_id", pad_id, least=-_LARGEST, most=_LARGEST - 1)
        # The documents of the last call and their arrays. Threads share the pairs, which are replaced as a whole.
        self._mapped: dict[str, tuple[object, Any]] = {}

    def __call__(
        self,
        rows: PackedRows | Sequence[PackedRow],
        documents: Documents | None = None,
        loss_masks: Documents | None = None,
    ) -> dict[str, Any]:
        """Write some rows. Threads may call it at once.

        Args:
            rows: The result of `PackedOrder.rows`; or rows of a stream, which have their documents.
            documents: Finds the tokens of a document by its number: a sequence of arrays, or `spdl.source.TokenFiles`.
                If all these are mapped, a call reads their memory directly; if not, it reads the parts of documents
                that are in the rows, all at once.
            loss_masks: Finds, in the same way, the mask of a document: booleans or numbers, as many as tokens.

        Returns:
            A dict of new arrays.

        Raises:
            TypeError: If an argument has the wrong type; if tokens are not arrays of integers of one dimension.
            ValueError: If a token is not in the vocabulary, with its document and position; if a row's segments are
                longer than a row, or not in their documents.
        """
        if isinstance(rows, PackedRows):
            if documents is None:
                refuse(TypeError, "documents", "a sequence of arrays, or token files", documents)
            tokens = self._find("documents", documents, rows)
            masks = None if loss_masks is None else self._find("loss_masks", loss_masks, rows)
        else:
            rows, tokens, masks = _join(rows)
        if masks is not None and (wrong := np.flatnonzero(masks.lengths != tokens.lengths)).size:
            first = int(wrong[0])
            raise ValueError(
                f"document {rows.documents[first]} has {tokens.lengths[first]} tokens and a loss mask of "
                f"{masks.lengths[first]}: a mask needs a number for each token"
            )
        shape = (max(rows.offsets.size - 1, 0), self.length)
        batch: dict[str, Any] = {
            "tokens": np.empty(shape, np.int32),
            "position_ids": np.empty(shape, np.int32),
            "segment_ids": np.empty(shape, np.int32),
        }
        if self.labels is not None:
            batch["labels"] = np.empty(shape, np.int32)
        bounds = native.write_rows(
            rows.documents,
            rows.starts,
            rows.stops,
            tokens.lengths,
            rows.offsets,
            tokens.arrays,
            tokens.numbers,
            tokens.firsts,
            None if masks is None else masks.arrays,
            _NOWHERE if masks is None else masks.numbers,
            _NOWHERE if masks is None else masks.firsts,
            self.length,
            self.align,
            self._known_ids(documents),
            self.pad_id,
            getattr(native.Labels, (self.labels or "none").upper()),
            batch["tokens"],
            batch["position_ids"],
            batch["segment_ids"],
            batch.get("labels"),
        )
        batch["cu_seqlens"], batch["row_splits"], batch["max_seqlen"] = bounds
        return batch

    def _find(self, argument: str, documents: Any, rows: PackedRows) -> _Found:
        parts = getattr(documents, "parts", None)
        if parts is not None:
            known = self._mapped.get(argument)
            if known is None or known[0] is not documents:
                known = (documents, to_native(argument, parts))
                self._mapped[argument] = known
            numbers, firsts = documents.locate(rows.documents)
            lengths = _as_int64(documents.lengths[rows.documents])
            return _Found(known[1], _as_int64(numbers), _as_int64(firsts) + rows.starts, lengths)
        if hasattr(documents, "read"):
            lengths = _as_int64(documents.lengths[rows.documents])
            # With the token after the last one, which may be its label.
            arrays = documents.read(rows.documents, rows.starts, np.minimum(rows.stops + 1, lengths))
            count = rows.documents.size
            return _Found(to_native(argument, arrays), np.arange(count), np.zeros(count, np.int64), lengths)
        check_instance(argument, documents, Sequence, "a sequence of arrays, or token files")
        unique, numbers = np.unique(rows.documents, return_inverse=True)
        found = to_native(argument, arrays := [documents[number] for number in unique.tolist()])
        return _Found(found, _as_int64(numbers), rows.starts, _sizes(arrays)[numbers])

    def _known_ids(self, documents: Any) -> int:
        if self.vocab_size is not None:
            return self.vocab_size
        return getattr(documents, "vocab_size", None) or _LARGEST

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}

    def __repr__(self) -> str:
        return f"RowWriter({self.length}, labels={self.labels!r}, align={self.align})"


def to_native(argument: str, arrays: Sequence[Any]) -> Any:
    """Return what native code reads arrays from. It keeps them alive."""
    for number, array in enumerate(arrays):
        refuse_masked(f"{argument}[{number}]", array)
        if not (
            isinstance(array, np.ndarray)
            and array.ndim == 1
            and array.dtype.kind in "iub"
            and array.dtype.isnative
            and array.flags.c_contiguous
        ):
            got = f"{array.ndim} dimensions of {array.dtype}" if isinstance(array, np.ndarray) else array
            refuse(TypeError, f"{argument}[{number}]", "a contiguous array of integers in one dimension", got)
    return native.TokenArrays(arrays)


def _as_int64(numbers: Any) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers, np.int64)


def _sizes(arrays: Sequence[Tokens]) -> NDArray[np.int64]:
    return np.fromiter(map(len, arrays), np.int64, len(arrays))


def _join(rows: Sequence[PackedRow]) -> tuple[PackedRows, _Found, _Found | None]:
    """Return the rows of a stream, and the whole document of each segment, with its mask if there are masks."""
    joined = PackedRows(
        _as_int64([number for row in rows for number in row.documents]),
        _as_int64([start for row in rows for start in row.starts]),
        _as_int64([stop for row in rows for stop in row.stops]),
        np.cumsum([0, *(len(row.documents) for row in rows)], dtype=np.int64),
    )

    def found(argument: str, arrays: list[Tokens]) -> _Found:
        return _Found(to_native(argument, arrays), np.arange(len(arrays)), joined.starts, _sizes(arrays))

    tokens = found("tokens", [each for row in rows for each in row.tokens])
    if all(row.loss_masks is None for row in rows):
        return joined, tokens, None
    masks = [each for row in rows for each in row.loss_masks or [np.ones(len(some), np.bool_) for some in row.tokens]]
    return joined, tokens, found("loss_masks", masks)

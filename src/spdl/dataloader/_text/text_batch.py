"""A batch of rows of tokens."""

from __future__ import annotations

from typing import Any, ClassVar

from spdl.dataloader._loader.labelled_batch import LabelledBatch


class TextBatch(LabelledBatch):
    """A batch of rows of tokens, as `TextLoader` yields it: the pair ``tokens, labels`` with more fields.

    `spdl.io.RowWriter` says more about the fields up to `max_seqlen`.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import TextBatch
        >>> batch = TextBatch({"tokens": np.zeros((2, 8), np.int32), "labels": np.zeros((2, 8), np.int32), "epoch": 0})
        >>> tokens, labels = batch
        >>> tokens is batch.tokens, labels is batch["labels"]
        (True, True)
    """

    medium: ClassVar[str] = "tokens"
    """The name of the field that the batch unpacks as the first."""
    target: ClassVar[str] = "labels"
    """The name of the field that it unpacks as the second."""
    tokens: Any
    """The ids, int32 (B, L)."""
    labels: Any
    """The id that each token should predict, int32 (B, L), or -100 for none; None with ``labels=None``."""
    position_ids: Any
    """The place of each token in its document, or its part of one, int32 (B, L)."""
    segment_ids: Any
    """The number of each token's document in its row, from 1; 0 for padding. int32 (B, L)."""
    cu_seqlens: Any
    """Where each sequence ends if all rows are put one after the other, from 0 to B * L, int32."""
    row_splits: Any
    """The number of the first sequence of each row, and of all sequences, int32 (B + 1,)."""
    max_seqlen: int
    """The length of the longest sequence."""
    index: Any
    """The number of each row in the epoch, int64 (B,)."""
    documents: Any
    """The segments of the rows, int64 (S, 4), with the row of each, the position of its document in the source, and its
    first token in the document and the one after its last."""

"""A stage that packs the documents of a stream into rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_str, positive, refuse, refuse_masked
from spdl.io._shared import PackedRow, PackedRows, PackingCounts, PackingRule, check_too_long, sum_counts
from spdl.pipeline.defs import Aggregator

# The size of the first window, so that the first rows come soon.
_FIRST_WINDOW = 64


class _Document(NamedTuple):
    tokens: NDArray[Any]
    loss_mask: NDArray[Any] | None
    corpus: str | None


class Pack(Aggregator[Any, list[PackedRow]]):
    """A stage that packs documents into rows of a fixed length, for streams whose lengths are not known in advance.

    It gathers `window` documents and packs them together, as `spdl.source.PackedOrder` does where all lengths are
    known. The result is the list of their rows, in the order of their first documents. ``disaggregate`` passes them on
    one by one, and `spdl.io.RowWriter` makes the arrays of a batch. The first window of a stream has 64 documents, and
    each further one twice as many up to `window`, so that the first rows come soon.

    Nothing is kept past a result but numbers, so a pipeline resumes exactly wherever it is cut: the documents of rows
    that were not received are read again, make the same rows, and those that were received are left out. The items may
    then come in another order, behind a stage with ``output_order="completion"``: the state has the former one.

    Args:
        length: The number of tokens of a row.
        algorithm: ``"best-fit"``, ``"first-fit"``, ``"concat"`` or ``"none"``; see `spdl.source.PackedOrder`.
        split: Which documents may be divided among rows: ``"never"``, ``"long"``, ``"always"``, or None for the
            default; see `spdl.source.PackedOrder`.
        too_long: With ``split="never"``, what becomes of a document that is longer than a row: ``"error"`` fails the
            pipeline, and ``"drop"`` counts it.
        align: Each document begins at a multiple of this in its row.
        window: How many documents are packed together. More waste less, and wait in memory.
        tokens: The key of the tokens, if items are dicts. An item that is not a dict is the tokens: an array of
            integers in one dimension, or a list of ints, such as tokenizers return.
        loss_mask: The key of a mask in such a dict, which may be absent: whether each token counts in the loss.
        corpus: The key of a text, which may be absent: `corpora` counts the documents of each.

    Raises:
        TypeError, ValueError: If an argument is no such value.

    Example:
        >>> from spdl.dataloader import Pack
        >>> from spdl.io import RowWriter
        >>> from spdl.pipeline import PipelineBuilder
        >>> documents = [[1, 2, 3], [4, 5, 6, 7, 8], [9], [10, 11, 12]]
        >>> pack = Pack(6)
        >>> builder = PipelineBuilder().add_source(documents).aggregate(pack).disaggregate()
        >>> builder = builder.aggregate(2).pipe(RowWriter(6)).add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     for batch in pipeline:
        ...         print(batch["tokens"].tolist())
        [[1, 2, 3, 10, 11, 12], [4, 5, 6, 7, 8, 9]]
        >>> pack.counts.fill, pack.counts.tokens == pack.counts.packed_tokens
        (1.0, True)
    """

    def __init__(
        self,
        length: int,
        /,
        *,
        algorithm: Literal["best-fit", "first-fit", "concat", "none"] = "best-fit",
        split: Literal["never", "long", "always"] | None = None,
        too_long: Literal["error", "drop"] = "error",
        align: int = 1,
        window: int = 4096,
        tokens: str = "tokens",
        loss_mask: str = "loss_mask",
        corpus: str = "corpus",
    ) -> None:
        self._rule = PackingRule.of(length, algorithm=algorithm, split=split, align=align)
        self._drops = check_too_long(too_long)
        self._window = positive("window", window)
        self._keys = (
            check_str("tokens", tokens),
            check_str("loss_mask", loss_mask),
            check_str("corpus", corpus),
        )
        self._gathered: list[_Document] = []
        self._size = min(_FIRST_WINDOW, self._window)
        self.counts = PackingCounts(self._rule.length)
        """What became of the documents of all results, since this object was made, or since the run that a loaded state
        is of began. A loaded state shows with the first document that follows it, or at the end."""
        self.corpora: dict[str, PackingCounts] = {}
        """The same for the documents of each corpus, save the rows, which are not of one corpus."""

    def accumulate(self, item: Any) -> list[PackedRow] | None:
        """Take a document. Return the rows of a window once it is complete.

        Raises:
            TypeError: If the item has no tokens in one of these forms.
            ValueError: If it is longer than a row, and neither divided nor dropped; if its mask has another length.
        """
        document = self._read(item)
        size = document.tokens.size
        if size > self._rule.length and self._rule.split == "never" and not self._drops:
            self._rule.refuse_too_long(f"document {self.counts.documents + len(self._gathered)} has {size} tokens")
        self._gathered.append(document)
        return self._pack() if len(self._gathered) >= self._size else None

    def flush(self) -> list[PackedRow] | None:
        """Return the rows of the last documents, or None without documents. The next window is a stream's first."""
        rows = self._pack() if self._gathered else None
        self._size = min(_FIRST_WINDOW, self._window)
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Return what the next window depends on, and the counts."""
        return {
            "window": self._size,
            "counts": list(self.counts),
            "corpora": {name: list(counts) for name, counts in self.corpora.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after a result of another run.

        Args:
            state: What `state_dict` returned there.

        Raises:
            KeyError, TypeError: If it is not such a state.
        """
        self._size = state["window"]
        self.counts = PackingCounts(*state["counts"])
        self.corpora = {name: PackingCounts(*counts) for name, counts in state["corpora"].items()}

    def _pack(self) -> list[PackedRow]:
        documents, self._gathered = self._gathered, []
        self._size = min(2 * self._size, self._window)
        lengths = np.fromiter((each.tokens.size for each in documents), np.int64, len(documents))
        packed = self._rule.pack(lengths)
        rows = _to_rows(packed, documents, self.counts.documents)
        self._count(documents, lengths, packed)
        return rows

    def _count(self, documents: list[_Document], lengths: NDArray[np.int64], packed: PackedRows) -> None:
        counts = self._rule.account(lengths, packed)
        self.counts = sum_counts([self.counts, counts])
        for name in dict.fromkeys(each.corpus for each in documents):
            if name is not None:
                here = np.fromiter((each.corpus == name for each in documents), np.bool_, len(documents))
                known = self.corpora.get(name, PackingCounts(self._rule.length))
                found = self._rule.account(lengths, packed, here)
                self.corpora[name] = sum_counts([known, found])

    def _read(self, item: Any) -> _Document:
        key, mask_key, corpus_key = self._keys
        if not isinstance(item, Mapping):
            return _Document(_to_array(item, "the item"), None, None)
        if key not in item:
            refuse(TypeError, "tokens", f"the key of the tokens in each item, which has {sorted(item)}", key)
        tokens = _to_array(item[key], f"{key!r} of the item")
        mask = item.get(mask_key)
        if mask is not None:
            mask = _to_array(mask, f"{mask_key!r} of the item")
            if mask.size != tokens.size:
                msg = f"the item has {tokens.size} tokens and a mask of {mask.size}: it needs a number for each token"
                raise ValueError(msg)
        corpus = item.get(corpus_key)
        return _Document(tokens, mask, None if corpus is None else check_str(corpus_key, corpus))

    def __repr__(self) -> str:
        return f"pack({self._rule.name}, window={self._window})"


def _to_array(tokens: Any, name: str) -> NDArray[Any]:
    refuse_masked(name, tokens)
    found = np.asarray(tokens)
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int32)
    if found.ndim != 1 or found.dtype.kind not in "iub":
        got = f"{found.dtype} of the shape {found.shape}" if isinstance(tokens, np.ndarray) else tokens
        refuse(TypeError, name, "an array of integers in one dimension, or a list of ints", got)
    return np.ascontiguousarray(found, found.dtype.newbyteorder("="))


def _to_rows(packed: PackedRows, documents: list[_Document], first: int) -> list[PackedRow]:
    numbers, starts, stops, offsets = (column.tolist() for column in packed)
    masks: list[NDArray[Any]] = []
    if any(each.loss_mask is not None for each in documents):
        masks = [np.ones(it.tokens.size, np.bool_) if it.loss_mask is None else it.loss_mask for it in documents]
    rows = []
    for begin, end in pairwise(offsets):
        here = numbers[begin:end]
        own = [masks[number] for number in here] if masks else None
        tokens = [documents[number].tokens for number in here]
        rows.append(PackedRow([first + number for number in here], starts[begin:end], stops[begin:end], tokens, own))
    return rows

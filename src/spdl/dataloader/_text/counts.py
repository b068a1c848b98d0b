"""What became of tokens: which were delivered, and which were dropped for which reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TokenCounts(NamedTuple):
    """What became of the documents that a loader has read, and of their tokens; the same on all ranks.

    All tokens are accounted for: ``tokens == delivered + too_long + not_full + waiting``. The counts go on over epochs
    and resumes.

    Attributes:
        documents: All documents that were packed.
        tokens: Their tokens, also those that begin and end a document.
        rows: The rows that all ranks together have received.
        delivered: The tokens in these rows that are not padding.
        padding: The padding in these rows.
        failed_documents: Documents that could not be read or tokenized, which are not among `documents`.
        empty_documents: Documents without tokens, which are in no row.
        too_long_documents: Documents that were dropped, since ``split="never"`` and they are longer than a row.
        too_long: Their tokens.
        not_full: The tokens at the end of epochs that ``drop_last=True`` has dropped.

    Example:
        >>> from spdl.dataloader import TokenCounts
        >>> TokenCounts(tokens=12, delivered=10, not_full=2).waiting
        0
    """

    documents: int = 0
    tokens: int = 0
    rows: int = 0
    delivered: int = 0
    padding: int = 0
    failed_documents: int = 0
    empty_documents: int = 0
    too_long_documents: int = 0
    too_long: int = 0
    not_full: int = 0

    @property
    def waiting(self) -> int:
        """The tokens that were packed and are not received yet."""
        return self.tokens - self.delivered - self.too_long - self.not_full

    def __add__(self, other: object) -> TokenCounts:
        """Return the counts of both together."""
        if not isinstance(other, TokenCounts):
            return NotImplemented
        return TokenCounts(*map(sum, zip(self, other, strict=True)))


def counts_of(cursor: Mapping[str, Any] | None) -> TokenCounts:
    """Return the counts in the cursor of a state."""
    return TokenCounts(**(cursor or {}).get("counts", {}))


def split_counts(counts: TokenCounts) -> tuple[TokenCounts, TokenCounts]:
    """Return what documents add to, and what rows add to."""
    rows = TokenCounts(rows=counts.rows, delivered=counts.delivered, padding=counts.padding, not_full=counts.not_full)
    return TokenCounts(*(each - of_rows for each, of_rows in zip(counts, rows, strict=True))), rows

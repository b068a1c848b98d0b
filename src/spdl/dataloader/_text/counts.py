"""Counts of tokens: delivered, or dropped for a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TokenCounts(NamedTuple):
    """Counts of the documents that a loader has read, and of their tokens; the same on all ranks.

    All tokens are accounted for: ``tokens == delivered + too_long + not_full + waiting``. The counts go on over epochs
    and resumes.

    Example:
        >>> from spdl.dataloader import TokenCounts
        >>> TokenCounts(tokens=12, delivered=10, not_full=2).waiting
        0
    """

    documents: int = 0
    """All documents that were packed."""
    tokens: int = 0
    """Their tokens, also those that begin and end a document."""
    rows: int = 0
    """The rows that all ranks together have received."""
    delivered: int = 0
    """The tokens in these rows that are not padding."""
    padding: int = 0
    """The padding in these rows."""
    failed_documents: int = 0
    """Documents that could not be read or tokenized, which are not among `documents`."""
    empty_documents: int = 0
    """Documents without tokens, which are in no row."""
    too_long_documents: int = 0
    """Documents that were dropped, since ``split="never"`` and they are longer than a row."""
    too_long: int = 0
    """Their tokens."""
    not_full: int = 0
    """The tokens at the end of epochs that ``drop_last=True`` has dropped."""

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

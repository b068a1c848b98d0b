"""Counts of tokens: delivered, or dropped for a reason; of all documents, and of those of each corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_instance, check_int, check_str, refuse, show

if TYPE_CHECKING:
    from spdl.io._shared import PackingCounts


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
    """The rows that all ranks together have received, save with ``even_batches=False`` a last step without this one. 0
    for a corpus, since a row may have documents of several."""
    delivered: int = 0
    """The tokens in these rows that are not padding."""
    padding: int = 0
    """The padding in these rows. 0 for a corpus."""
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
        if not isinstance(other, TokenCounts):
            return NotImplemented
        return TokenCounts(*map(sum, zip(self, other, strict=True)))


def to_counts(counts: PackingCounts, failed: int = 0) -> TokenCounts:
    """Return the counts of documents of which no row has come yet."""
    return TokenCounts(
        documents=counts.documents,
        tokens=counts.tokens,
        failed_documents=failed,
        empty_documents=counts.empty_documents,
        too_long_documents=counts.too_long_documents,
        too_long=counts.too_long_tokens,
    )


class CountsByCorpus(NamedTuple):
    total: TokenCounts
    corpora: Mapping[str, TokenCounts]

    @staticmethod
    def of_cursor(cursor: Mapping[str, Any] | None) -> CountsByCorpus:
        known = cursor or {}
        corpora = {name: TokenCounts(*counts) for name, counts in known.get("corpora", {}).items()}
        return CountsByCorpus(TokenCounts(**known.get("counts", {})), corpora)

    def to_cursor(self) -> dict[str, Any]:
        corpora = {"corpora": {name: list(counts) for name, counts in self.corpora.items()}} if self.corpora else {}
        return {"counts": self.total._asdict(), **corpora}

    def plus(self, total: TokenCounts, corpora: Mapping[str, TokenCounts]) -> CountsByCorpus:
        nothing = TokenCounts()
        names = dict.fromkeys([*self.corpora, *corpora])
        summed = {name: self.corpora.get(name, nothing) + corpora.get(name, nothing) for name in names}
        return CountsByCorpus(self.total + total, summed)

    def split(self) -> tuple[CountsByCorpus, CountsByCorpus]:
        """Return what documents add to, and what rows add to."""
        rows = CountsByCorpus(_of_rows(self.total), {name: _of_rows(counts) for name, counts in self.corpora.items()})
        rest = {name: _without(counts, rows.corpora[name]) for name, counts in self.corpora.items()}
        return CountsByCorpus(_without(self.total, rows.total), rest), rows

    def dropped(self) -> CountsByCorpus:
        """Return the counts if what waits was dropped at the end of an epoch."""
        return self._map(lambda counts: counts._replace(not_full=counts.not_full + counts.waiting))

    def delivered(self) -> CountsByCorpus:
        """Return the counts if other ranks have received what waits."""
        return self._map(lambda counts: counts._replace(delivered=counts.delivered + counts.waiting))

    def _map(self, change: Callable[[TokenCounts], TokenCounts]) -> CountsByCorpus:
        return CountsByCorpus(change(self.total), {name: change(counts) for name, counts in self.corpora.items()})


def counts_alone(cursor: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what of a cursor is taken into the next epoch: what has been counted."""
    return None if cursor is None else {name: cursor[name] for name in ("counts", "corpora") if name in cursor}


def _of_rows(counts: TokenCounts) -> TokenCounts:
    return TokenCounts(rows=counts.rows, delivered=counts.delivered, padding=counts.padding, not_full=counts.not_full)


def _without(counts: TokenCounts, others: TokenCounts) -> TokenCounts:
    return TokenCounts(*(each - other for each, other in zip(counts, others, strict=True)))


class Corpora:
    """The corpus of each document, by its position in the source or by a field of its record.

    The `size` of the source is None for an iterable; `records` says whether it may have records with fields.
    """

    def __init__(self, given: Mapping[str, int] | str, size: int | None, *, records: bool) -> None:
        self.field = given if isinstance(given, str) else None
        self.names: list[str] = []
        self.starts: NDArray[np.int64] = np.zeros(1, np.int64)
        if isinstance(given, str):
            if not records:
                accepted = "a mapping from names of corpora to numbers of documents, since there are no records"
                refuse(TypeError, "corpora", accepted, given)
            return
        accepted = "a mapping from names of corpora to how many documents each has, or a field of records, or None"
        check_instance("corpora", given, Mapping, accepted)
        self.names = [check_str("corpora", name) for name in given]
        counts = [check_int(f"corpora[{name!r}]", count, least=0) for name, count in given.items()]
        if size is None or sum(counts) != size:
            accepted = f"numbers of documents that sum up to the {size} of the source"
            if size is None:
                accepted = "the name of a field of records, since the source is an iterable"
            refuse(ValueError, "corpora", accepted, dict(given))
        self.starts = np.array([*accumulate(counts, initial=0)], np.int64)

    def name_at(self, index: int) -> str:
        """Return the corpus of the document at a position, without `field`."""
        return self.names[int(self.starts.searchsorted(index, "right")) - 1]

    def name_in(self, record: Any) -> str:
        if not isinstance(record, Mapping):
            raise TypeError(
                f"a document must be a record with a field {self.field!r}, see `corpora`, got {show(record)}"
            )
        if self.field not in record:
            names = ", ".join(map(repr, record))
            raise KeyError(f"the record has no field {self.field!r}, which `corpora` names, but {names}")
        name = record[self.field]
        if not isinstance(name, str):
            raise TypeError(f"the field {self.field!r} must be the name of a corpus, got {show(name)}")
        return name

    def sums(self, documents: NDArray[np.int64], tokens: NDArray[np.int64]) -> dict[str, int]:
        numbers = self.starts.searchsorted(documents, "right") - 1
        # Floats of 64 bits are exact up to 2**53.
        found = np.bincount(numbers, tokens, minlength=len(self.names))
        return {name: int(count) for name, count in zip(self.names, found.tolist(), strict=True) if count}

"""The rows of documents whose lengths are found as they come: packed group by group, and dealt out to the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._random_key import random_key
from spdl.dataloader._loader.epoch_iterator import StepResult, Steps
from spdl.dataloader._loader.failures import SampleFailure, describe_failures
from spdl.dataloader._loader.loader_state import Cursor
from spdl.dataloader._text.counts import CountsByCorpus, TokenCounts, counts_alone, to_counts
from spdl.dataloader._text.documents import Groups, Tokenized
from spdl.dataloader._text.tokenize import Encoded
from spdl.io import LoadError, PackedRows
from spdl.io._shared import PackingRule, select_rows
from spdl.source._shared import random_order


class RowPlace(NamedTuple):
    """The place at which an epoch continues: a row of a group. It is small, since the group is packed again.

    Attributes:
        group: The group of the next row.
        row: How many rows of it were delivered.
        document: The number of the document in the epoch that the group begins with.
        offset: How many tokens of that document are in rows of groups before.
        mark: Where a streamed source may begin to read; see `Piece`.
    """

    group: int = 0
    row: int = 0
    document: int = 0
    offset: int = 0
    mark: tuple[int, ...] | None = None

    def to_state(self, counts: CountsByCorpus) -> dict[str, Any]:
        state: dict[str, Any] = self._asdict()
        if self.mark is None:
            del state["mark"]
        else:
            state["mark"] = list(self.mark)
        return {**state, **counts.to_cursor()}

    @staticmethod
    def of_state(state: dict[str, Any] | None) -> RowPlace:
        known = state or {}
        mark = known.get("mark")
        group, row, document, offset = (known.get(name, 0) for name in RowPlace._fields[:-1])
        return RowPlace(group, row, document, offset, None if mark is None else tuple(mark))


class StreamSteps(Steps):
    """The steps of an epoch whose number is not known. The packer knows it at the end."""

    is_single = False
    ends_early = False

    def leave_out_last(self, *, is_single: bool) -> None:
        """Note that this rank has no part in the last step, which may be the only one."""
        self.ends_early = True
        self.is_single = is_single

    def between_epochs(self, cursor: Cursor) -> Cursor:
        return counts_alone(cursor)


class _Group(NamedTuple):
    rows: PackedRows
    sizes: NDArray[np.int64]
    """The tokens of each row."""
    indices: list[int]
    """The place of each document in the source."""
    documents: list[Encoded]
    begin: RowPlace
    following: RowPlace
    counts: CountsByCorpus
    """The documents of this group and of all before."""
    corpora: list[str | None]
    shares: NDArray[np.int64] | None
    """How many tokens of each corpus are in each row, (rows, corpora); None if these are not counted."""

    def after(self, row: int) -> RowPlace:
        return self.following if row + 1 == len(self.sizes) else self.begin._replace(row=row + 1)


class Rows(NamedTuple):
    """Rows to write, and their documents."""

    rows: PackedRows
    """What is in them; a document's number is its place in `documents`."""
    numbers: list[int]
    """The number of each row in the epoch."""
    indices: NDArray[np.int64]
    """The place of each document in the source."""
    documents: list[Encoded]


_REMEDY = 'Pass on_error="skip" to leave them out; they are then counted, and listed in `loader.failures`.'
_OF_ALL = f"All of them failed, so an argument may be wrong rather than the documents. {_REMEDY}"


class Packer:
    """An op that takes documents in order, and yields the batches of one rank. Each rank packs the same documents.

    In step s, rank r of W takes the B rows from ``(s*W + r) * B`` on, as `spdl.source.EpochSampler` shares positions.
    It begins at `place`, after the `position` rows of the epoch that all ranks have received; `counts` says what became
    of the tokens until then. A `key` shuffles the rows of each group. With `skips`, documents that failed are left out,
    and with `drops` those that are too long for a row; otherwise they are errors.
    """

    def __init__(
        self,
        rule: PackingRule,
        make: Callable[[Rows, int, tuple[SampleFailure, ...]], Any],
        steps: StreamSteps,
        groups: Groups,
        *,
        key: int | None,
        skips: bool,
        drops: bool,
        position: int,
        place: RowPlace,
        counts: CountsByCorpus,
    ) -> None:
        self._rule = rule
        self._make = make
        self._steps = steps
        self._world = steps.world
        self._groups = groups
        self._batch_size = steps.sharing.batch_size
        self._key = key
        self._skips = skips
        self._drops = drops
        self._position = position
        # The beginning of the next group. If rows of it were delivered, all of its documents were counted then.
        self._next = place
        self._of_documents, self._of_rows = counts.split()
        # The documents of the next group, their corpora, their numbers in the epoch and their places in the source.
        self._documents: list[Encoded] = []
        self._corpora: list[str | None] = []
        self._numbers: list[int] = []
        self._indices: list[int] = []
        # The corpora of documents that failed since the last group.
        self._failed: list[str | None] = []
        # Marks of the source. The last one may be after the first document of the next group.
        self._marks: list[tuple[int, ...]] = [] if place.mark is None else [place.mark]
        # The failures that no step has reported yet.
        self._failures: list[SampleFailure] = []
        # The rows of the next step, and where they end.
        self._rows: list[tuple[_Group, int]] = []
        self._done = False

    def __call__(self, tokenized: Tokenized) -> Iterator[StepResult]:
        if self._done:
            return
        try:
            yield from self._add(tokenized)
        except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
            self._done = True
            yield StepResult(self._position, error=error)

    def _add(self, tokenized: Tokenized) -> Iterator[StepResult]:
        piece, documents, corpora, failures, error = tokenized
        if error is not None:
            raise error
        if failures and not self._skips:
            number, which = len(piece.indices), "that were read together"
            remedy = _OF_ALL if len(failures) == number > 1 else _REMEDY
            raise LoadError(describe_failures(failures, number, "documents", remedy, which=which))
        told = self._first_new()
        failed = iter(failures)
        names = corpora or [None] * len(documents)
        for number, index, each, name in zip(count(piece.first), piece.indices, documents, names, strict=False):
            if each is not None:
                self._documents.append(each)
                self._corpora.append(name)
                self._numbers.append(number)
                self._indices.append(index)
                continue
            failure = next(failed)
            if number >= told:
                self._failed.append(name)
                self._failures.append(failure)
        if piece.mark is not None and piece.mark not in self._marks[-1:]:
            self._marks.append(piece.mark)
        if piece.closes:
            delivered = self._next.row
            group = self._pack(piece.first + len(piece.indices), ends=piece.ends)
            yield from self._deal(group, delivered)
        if piece.ends:
            yield from self._end()

    def _first_new(self) -> int:
        """Return the number of the first document that was not counted before, with its failure if it failed."""
        group, row = self._next[:2]
        return self._groups.stop(group if row else group - 1)

    def _pack(self, stop: int, *, ends: bool) -> _Group:
        begin = self._next
        documents, numbers, indices, names = self._documents, self._numbers, self._indices, self._corpora
        sizes = np.fromiter((len(each.tokens) for each in documents), np.int64, len(documents))
        new = int(np.searchsorted(np.array(numbers, np.int64), self._first_new()))
        self._count(sizes[new:], names[new:])
        rows = self._pack_from(begin, sizes)
        filled = np.add.reduceat(rows.stops - rows.starts, rows.offsets[:-1]) if rows.documents.size else sizes[:0]
        following = RowPlace(begin.group + 1, 0, stop)
        kept = len(documents)
        if self._rule.algorithm == "concat" and not ends and filled.size and filled[-1] < self._rule.length:
            # The next documents go on in this row.
            first = rows.offsets[-2]
            kept = int(rows.documents[first])
            following = RowPlace(begin.group + 1, 0, numbers[kept], int(rows.starts[first]))
            rows = PackedRows(rows.documents[:first], rows.starts[:first], rows.stops[:first], rows.offsets[:-1])
            filled = filled[:-1]
        if self._key is not None and filled.size:
            shuffled = random_order(random_key(self._key, begin.group, -16), filled.size)
            rows, filled = select_rows(rows, shuffled), filled[shuffled]
        following = following._replace(mark=self._mark_of(following.document))
        corpora, shares = _share(rows, names)
        group = _Group(
            rows, filled, indices, documents, begin._replace(row=0), following, self._of_documents, corpora, shares
        )
        self._documents, self._corpora = documents[kept:], names[kept:]
        self._numbers, self._indices = numbers[kept:], indices[kept:]
        self._next = following
        return group

    def _mark_of(self, document: int) -> tuple[int, ...] | None:
        """Return the last mark that is not after a document, and forget those before it."""
        while len(self._marks) > 1 and self._marks[1][0] <= document:
            del self._marks[0]
        return self._marks[0] if self._marks and self._marks[0][0] <= document else None

    def _pack_from(self, begin: RowPlace, sizes: NDArray[np.int64]) -> PackedRows:
        if not sizes.size:
            return PackedRows(sizes, sizes, sizes, np.zeros(1, np.int64))
        offset = begin.offset
        if not offset:
            return self._rule.pack(sizes)
        # So many tokens of the first document are in a row of the group before.
        if self._numbers[0] != begin.document or sizes[0] <= offset:
            raise RuntimeError(
                f"Document {begin.document} of the epoch has no token {offset} now, where the state goes on: the "
                "source or the tokenizer is not the one that the state was saved with."
            )
        left = sizes.copy()
        left[0] -= offset
        rows = self._rule.pack(left)
        cut = np.where(rows.documents == 0, offset, 0)
        return rows._replace(starts=rows.starts + cut, stops=rows.stops + cut)

    def _count(self, sizes: NDArray[np.int64], names: list[str | None]) -> None:
        counts = self._rule.account_lengths(sizes)
        if counts.too_long_documents and not self._drops:
            index = self._indices[len(self._indices) - sizes.size + int(sizes.argmax())]
            self._rule.refuse_too_long(f"Document {index} has {sizes.max()} tokens")
        corpora: dict[str, TokenCounts] = {}
        for name in dict.fromkeys([*names, *self._failed]):
            if name is not None:
                here = np.fromiter((each == name for each in names), np.bool_, len(names))
                corpora[name] = to_counts(self._rule.account_lengths(sizes[here]), self._failed.count(name))
        self._of_documents = self._of_documents.plus(to_counts(counts, len(self._failed)), corpora)
        self._failed = []

    def _deal(self, group: _Group, delivered: int) -> Iterator[StepResult]:
        step = self._batch_size * self._world.size
        for row in range(delivered, len(group.sizes)):
            self._rows.append((group, row))
            if len(self._rows) == step:
                first = self._world.rank * self._batch_size
                yield self._step(range(first, first + self._batch_size))

    def _end(self) -> Iterator[StepResult]:
        """Yield the last step, which the ranks share evenly, and reports that come without a batch."""
        rest, (rank, size) = len(self._rows), self._world
        if rest and not self._steps.sharing.drop_last:
            start, stop = rest * rank // size, rest * (rank + 1) // size
            if start == stop and not self._steps.sharing.even_batches:
                self._steps.leave_out_last(is_single=not self._position)
            # With fewer rows than ranks, some repeat one.
            repeated = [rank % rest] if self._steps.sharing.even_batches else []
            yield self._step(range(start, stop) if start < stop else repeated)
            rest = 0
        if not self._position:
            counts = self._of_documents.total
            why = f"drop_last=True leaves out its {rest} rows" if rest else "no row came of its documents"
            last = f" The last reason: {self._failures[-1].reason}" if self._failures else ""
            raise LoadError(
                f"An epoch has no batch: {why}. It has {counts.documents} documents with {counts.tokens} tokens, of "
                f"which {counts.empty_documents} are empty and {counts.too_long_documents} are too long for a row; "
                f"{counts.failed_documents} more failed.{last}"
            )
        dropped = sum(int(group.sizes[row]) for group, row in self._rows)
        corpora = {name: TokenCounts(not_full=tokens) for name, tokens in _sum_shares(self._rows).items()}
        self._of_rows = self._of_rows.plus(TokenCounts(not_full=dropped), corpora)
        cursor = self._next.to_state(self._of_documents.plus(*self._of_rows))
        yield StepResult(self._position, failures=self._take_failures(), cursor=cursor, is_step=False)

    def _step(self, mine: Sequence[int]) -> StepResult:
        dealt, self._rows = self._rows, []
        first, self._position = self._position, self._position + len(dealt)
        group, row = dealt[-1]
        filled = sum(int(group.sizes[row]) for group, row in dealt)
        # All ranks have rows of one length.
        length = self._rule.width(np.array([group.sizes[row] for group, row in dealt], np.int64))
        padding = len(dealt) * length - filled
        corpora = {name: TokenCounts(delivered=tokens) for name, tokens in _sum_shares(dealt).items()}
        self._of_rows = self._of_rows.plus(TokenCounts(rows=len(dealt), delivered=filled, padding=padding), corpora)
        failures = self._take_failures()
        batch = None
        if len(mine):
            rows = _gather([dealt[place] for place in mine], [first + place for place in mine])
            batch = self._make(rows, length, failures)
        cursor = group.after(row).to_state(group.counts.plus(*self._of_rows))
        return StepResult(self._position, batch, failures=failures, cursor=cursor, is_step=bool(len(mine)))

    def _take_failures(self) -> tuple[SampleFailure, ...]:
        failures, self._failures = tuple(self._failures), []
        return failures


def _share(rows: PackedRows, names: list[str | None]) -> tuple[list[str | None], NDArray[np.int64] | None]:
    """Return the corpora of some documents, and how many tokens of each are in each row."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if set(numbers) <= {None}:
        return [], None
    count = rows.offsets.size - 1
    shares = np.zeros((count, len(numbers)), np.int64)
    codes = np.array([numbers[name] for name in names], np.int64)
    places = np.repeat(np.arange(count), np.diff(rows.offsets))
    np.add.at(shares, (places, codes[rows.documents]), rows.stops - rows.starts)
    return list(numbers), shares


def _sum_shares(rows: list[tuple[_Group, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group, row in rows:
        if group.shares is not None:
            for name, tokens in zip(group.corpora, group.shares[row].tolist(), strict=True):
                if name is not None and tokens:
                    found[name] = found.get(name, 0) + tokens
    return found


def _gather(rows: list[tuple[_Group, int]], numbers: list[int]) -> Rows:
    columns: tuple[list[Any], ...] = ([], [])
    documents: list[Encoded] = []
    indices: list[int] = []
    offsets = [0]
    for group, row in rows:
        first, last = group.rows.offsets[row], group.rows.offsets[row + 1]
        for each in group.rows.documents[first:last].tolist():
            documents.append(group.documents[each])
            indices.append(group.indices[each])
        columns[0].append(group.rows.starts[first:last])
        columns[1].append(group.rows.stops[first:last])
        offsets.append(len(documents))
    starts, stops = map(np.concatenate, columns)
    places = np.arange(len(documents), dtype=np.int64)
    packed = PackedRows(places, starts, stops, np.array(offsets, np.int64))
    return Rows(packed, numbers, np.array(indices, np.int64), documents)

"""The rows of an epoch: from an order of rows, or from documents whose lengths are found as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._check import refuse
from spdl._random_key import random_key
from spdl.dataloader._loader.epoch_iterator import TAKEN, EpochStep, EpochSteps, StepResult
from spdl.dataloader._loader.failures import SampleFailure
from spdl.dataloader._loader.loader_state import Cursor, Identity, LoaderProgress, World, identify
from spdl.dataloader._loader.sample_loader import BATCHES_AT_ONCE, make_order
from spdl.dataloader._text.counts import Corpora, CountsByCorpus, TokenCounts, to_counts
from spdl.dataloader._text.documents import Documents, Groups, Piece, Tokenized, is_map_style, lengths_of
from spdl.dataloader._text.packer import Packer, RowPlace, Rows, StreamSteps
from spdl.dataloader._text.tokenize import Tokenize
from spdl.io import PackedRows, RowWriter
from spdl.io._shared import PackingRule, select_rows
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._report.page import StageArguments
from spdl.source import EpochOrder, MixedOrder, PackedOrder
from spdl.source._shared import (
    Sharing,
    count_documents,
    digest_lengths,
    documents_of,
    lengths_of_order,
    name_of,
    packed_parts,
    rule_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Documents of a stream that are packed together. More would waste less, and be tokenized again after a resume.
_WINDOW = 1024
# A window of token files.
_LARGE_WINDOW = 131_072

Finish = Callable[[dict[str, Any], PackedRows, "NDArray[np.int64]", dict[str, Any]], Any]
"""Makes a batch of what a `RowWriter` returned, of what is in the rows, of the positions of their segments' documents
in the source, and of other fields."""


class How(NamedTuple):
    rule: PackingRule
    shuffle: bool
    seed: int
    window: int | None
    drops: bool
    """Whether documents that are too long for a row are dropped, and not an error."""
    corpora: Mapping[str, int] | str | None
    """Whose tokens are counted apart."""


class CountedSteps(EpochSteps):
    def advance(self, before: Cursor, result: Cursor) -> Cursor:
        return CountsByCorpus.of_cursor(before).plus(*CountsByCorpus.of_cursor(result)).to_cursor()

    def between_epochs(self, cursor: Cursor) -> Cursor:
        """Count the rows that no step of this rank is about: `drop_last` has left them out, or others have them."""
        counts = CountsByCorpus.of_cursor(cursor)
        return (counts.delivered() if self.ends_early else counts.dropped()).to_cursor()


class Writers:
    def __init__(self, length: int, **options: Any) -> None:
        self._options = options
        self.longest = RowWriter(length, **options)
        self._writers = {self.longest.length: self.longest}

    def __getitem__(self, length: int) -> RowWriter:
        # Threads that make the same one lose nothing.
        found = self._writers.get(length)
        if found is None:
            found = self._writers[length] = RowWriter(length, **self._options)
        return found


class _Step(NamedTuple):
    start: int
    """The place in the epoch where the step of all ranks begins."""
    numbers: NDArray[np.int64]
    """The rows of all ranks; those after the last step are dropped."""
    step: EpochStep


class KnownRows:
    """The rows of documents of known lengths: an order says what is in them."""

    def __init__(self, source: Any, order: Any, how: How, writers: Writers, finish: Finish) -> None:
        lengths = lengths_of(source)
        if not len(lengths):
            refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
        self._source = source
        self._writers = writers
        self._finish = finish
        self._corpora = None if how.corpora is None else Corpora(how.corpora, len(lengths), records=False)
        self._whole: dict[str, TokenCounts] | None = None
        if order is not None:
            check_order(order, np.asarray(lengths), how.rule, shuffle=how.shuffle, window=how.window)
        self.order: PackedOrder | MixedOrder = order or self._make_order(lengths, how)
        self._rule = rule_of(packed_parts(self.order)[0])

    def _make_order(self, lengths: Any, how: How) -> PackedOrder:
        rule = how.rule
        named = callable(getattr(self._source, "fingerprint", None))
        algorithm: Any = rule.algorithm
        split: Any = rule.split
        return PackedOrder(
            lengths,
            rule.length,
            algorithm=algorithm,
            split=split,
            too_long="drop" if how.drops else "error",
            align=rule.align,
            shuffle=how.shuffle,
            seed=how.seed,
            window=how.window or _LARGE_WINDOW,
            # The same names may be those of other files, such as of another tokenizer.
            data=f"{identify(self._source)} {digest_lengths([np.asarray(lengths)])}" if named else "",
        )

    def __repr__(self) -> str:
        return f"{len(self.order):,} rows of {type(self._source).__name__}"

    def continue_with(self, order: MixedOrder) -> None:
        self.order = order

    @property
    def size(self) -> int:
        return len(self.order)

    def identify(self, seed: int) -> Identity:
        return Identity(identify(self._source), self.order.fingerprint, len(self.order), seed)

    def steps(self, world: World, sharing: Sharing, start: int) -> CountedSteps:
        return CountedSteps(self.order, world, sharing, start)

    def declare(
        self,
        builder: PipelineBuilder[Any, Any],
        steps: CountedSteps,
        progress: LoaderProgress,
        threads: int,
    ) -> int:
        """Add the source and the stages to a pipeline. Return how many threads it needs."""
        epoch = progress.epoch
        at_once = min(threads, BATCHES_AT_ONCE)
        together = steps.sharing.batch_size * steps.world.size
        # A state that is loaded later may bring another.
        order = self.order

        def numbered() -> Iterator[_Step]:
            first = start = progress.position
            taken = np.empty(0, np.int64)
            for step in steps.read(epoch):
                stop = min(step.end, start + together)
                if stop - first > taken.size:
                    end = min(start + max(together, TAKEN), len(order))
                    first, taken = start, order.take(epoch, np.arange(start, end, dtype=np.int64))
                yield _Step(start, taken[start - first : stop - first], step)
                start = step.end

        def load(item: _Step) -> StepResult:
            try:
                return self._load(item, epoch)
            except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
                return StepResult(item.step.end, error=error)

        builder.add_source(numbered()).pipe(load, name="load", concurrency=at_once, output_order="input")
        return at_once

    def arguments(self, threads: int) -> list[StageArguments]:
        otherwise = "A batch is one native call in one thread."
        return [
            StageArguments(
                unit="batch", several="num_threads", value=threads, most=BATCHES_AT_ONCE, otherwise=otherwise
            )
        ]

    def _load(self, item: _Step, epoch: int) -> StepResult:
        start, numbers, step = item
        everything = self.order.rows(numbers)
        positions, count = step.positions, numbers.size
        # A rank has a part of them, or all.
        mine = everything if positions.size == count else select_rows(everything, positions - start)
        sizes = everything.stops - everything.starts
        # All ranks have rows of one length. No row is empty.
        length = self._rule.width(np.add.reduceat(sizes, everything.offsets[:-1]))
        batch = self._write(mine, length)
        made = self._finish(batch, mine, mine.documents, {"index": positions, "epoch": epoch, "failures": ()})
        delivered = int(sizes.sum())
        counts = CountsByCorpus(TokenCounts(rows=count, delivered=delivered, padding=count * length - delivered), {})
        if self._corpora is not None:
            sums = self._corpora.sums(everything.documents, sizes)
            counts = counts._replace(corpora={name: TokenCounts(delivered=sums[name]) for name in sums})
        if isinstance(self.order, MixedOrder):
            counts = counts.plus(*self._count_begun(everything, counts))
        elif start == 0:
            counts = counts.plus(to_counts(self.order.counts), self._count_corpora(self.order))
        return StepResult(step.end, made, cursor=counts.to_cursor())

    def _write(self, rows: PackedRows, length: int) -> dict[str, Any]:
        try:
            return self._writers[length](rows, self._source)
        except ValueError as error:
            sizes = [self._writers.longest.vocab_size, getattr(self._source, "vocab_size", None)]
            known = min((size for size in sizes if size is not None), default=None)
            for number in () if known is None else rows.documents.tolist():
                # Files that know their vocabulary name the document themselves.
                ids = np.asarray(self._source[number])
                wrong = ids[(ids < 0) | (ids >= known)]
                if wrong.size:
                    name = name_of(self._source, number) or f"document {number}"
                    raise ValueError(
                        f"{name} has the token {wrong[0]}, and `vocab_size` is {known}: it is damaged, or was made by "
                        "another tokenizer. Its row was packed before, so `on_error` cannot leave it out: pass an "
                        "`order` of lengths in which it has 0 tokens."
                    ) from error
            raise

    def _count_begun(self, rows: PackedRows, counts: CountsByCorpus) -> tuple[TokenCounts, dict[str, TokenCounts]]:
        """Return the documents and tokens of some rows of a mix, whose epoch has a part of all documents, or more."""
        begun = rows.documents[rows.starts == 0]
        total = TokenCounts(documents=begun.size, tokens=counts.total.delivered)
        if self._corpora is None:
            return total, {}
        begins = self._corpora.sums(begun, np.ones_like(begun))
        delivered = counts.corpora.items()
        return total, {
            name: TokenCounts(documents=begins.get(name, 0), tokens=each.delivered) for name, each in delivered
        }

    def _count_corpora(self, order: PackedOrder) -> dict[str, TokenCounts]:
        if self._corpora is None:
            return {}
        if self._whole is None:
            bounds = zip(self._corpora.names, pairwise(self._corpora.starts.tolist()), strict=True)
            self._whole = {name: to_counts(count_documents(order, *each)) for name, each in bounds}
        return self._whole


class StreamedRows:
    """The rows of documents whose lengths show when they are tokenized."""

    def __init__(
        self,
        source: Any,
        order: EpochOrder | None,
        how: How,
        writers: Writers,
        finish: Finish,
        *,
        tokenizer: Any,
        field: str | None,
        skips: bool,
    ) -> None:
        self._how = how
        size = len(source) if is_map_style(source) else None
        corpora = None if how.corpora is None else Corpora(how.corpora, size, records=True)
        self._writers = writers
        self._finish = finish
        self._skips = skips
        tokenize = tokenizer if isinstance(tokenizer, Tokenize) or tokenizer is None else Tokenize(tokenizer)
        if is_map_style(source):
            if not len(source):
                refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
            if order is not None and packed_parts(order):
                remedy = "Texts are packed as they come. For token files, leave out the `tokenizer`."
                refuse(TypeError, "order", "an order of documents, not of rows", order, remedy)
            order = make_order(len(source), order, shuffle=how.shuffle, seed=how.seed)
        elif order is not None or how.shuffle:
            name, given = ("shuffle", how.shuffle) if order is None else ("order", order)
            remedy = "Shuffle the files, or write token files, whose documents have any order."
            refuse(ValueError, name, "left out for an iterable, which has its own order", given, remedy)
        self._documents = Documents(
            source, order, tokenize, field, corpora=corpora, vocab_size=writers.longest.vocab_size
        )
        self._groups = Groups(how.window or _WINDOW)
        self._name = type(source).__name__
        self._field = "text" if tokenize is None else field
        self._tokenizer = "ids" if tokenize is None else tokenize.name

    size = None
    order = None

    def __repr__(self) -> str:
        size = self._documents.size
        return f"{self._name}{'' if size is None else f' of {size:,} documents'}"

    def identify(self, seed: int) -> Identity:
        source, order = self._documents.identify()
        rule = f"{self._how.rule.name}, window={self._how.window or _WINDOW}, shuffle={self._how.shuffle}"
        # States of the usual field were saved before others could be told apart.
        field = "" if self._field == "text" else f", field={self._field!r}"
        return Identity(f"{source}, {self._tokenizer}{field}", f"{order}, {rule}", self._documents.size or 0, seed)

    def steps(self, world: World, sharing: Sharing, start: int) -> StreamSteps:  # noqa: ARG002 - of the other rows.
        return StreamSteps(world, sharing)

    def declare(
        self,
        builder: PipelineBuilder[Any, Any],
        steps: StreamSteps,
        progress: LoaderProgress,
        threads: int,
    ) -> int:
        """Add the source and the stages to a pipeline. Return how many threads it needs."""
        epoch, place = progress.epoch, RowPlace.of_state(progress.cursor)
        packer = Packer(
            self._how.rule,
            lambda rows, length, failures: self._make(rows, length, failures, epoch),
            steps,
            self._groups,
            key=random_key(self._how.seed, epoch, -17) if self._how.shuffle else None,
            skips=self._skips,
            drops=self._how.drops,
            position=progress.position,
            place=place,
            counts=CountsByCorpus.of_cursor(progress.cursor),
        )
        documents = self._documents

        def tokenize(piece: Piece) -> Tokenized:
            return documents.load(piece, epoch)

        pieces = documents.pieces(epoch, self._groups, place.group, place.document, place.mark)
        builder.add_source(pieces).pipe(tokenize, concurrency=threads, output_order="input")
        builder.pipe(packer, name="pack", output_order="input")
        return threads

    def arguments(self, threads: int) -> list[StageArguments]:
        tokenize = StageArguments(
            unit="document",
            several="num_threads",
            value=threads,
            in_place_of_processes=(
                "Take a tokenizer that releases the GIL, such as one of `tokenizers`, or write token files first."
            ),
        )
        otherwise = "Rows are packed in one thread, which no argument changes: write token files first."
        return [tokenize, StageArguments(unit="document", otherwise=otherwise)]

    def _make(self, rows: Rows, length: int, failures: tuple[SampleFailure, ...], epoch: int) -> Any:
        masks: list[Any] | None = None
        if any(each.loss_mask is not None for each in rows.documents):
            masks = [
                np.ones(len(each.tokens), bool) if each.loss_mask is None else each.loss_mask for each in rows.documents
            ]
        batch = self._writers[length](rows.rows, [each.tokens for each in rows.documents], masks)
        more = {"index": np.array(rows.numbers, np.int64), "epoch": epoch, "failures": failures}
        return self._finish(batch, rows.rows, rows.indices, more)


def check_order(order: Any, lengths: NDArray[Any], given: PackingRule, *, shuffle: bool, window: int | None) -> None:
    """Raise unless an order is of rows of documents of these lengths, and agrees with the other arguments."""
    parts = packed_parts(order)
    if not parts:
        accepted = "an `spdl.source.PackedOrder` of the lengths of token files, a `MixedOrder` of several, or None"
        refuse(TypeError, "order", accepted, order)
    if shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", shuffle)
    rules = {rule_of(part) for part in parts}
    if len(rules) > 1:
        refuse(ValueError, "order", "a mix of orders that pack in one way", ", ".join(rule.name for rule in rules))
    (rule,) = rules
    if rule.length != given.length:
        refuse(ValueError, "order", f"an order of rows of {given.length} tokens, as `length` says", order)
    if rule.align != given.align:
        refuse(ValueError, "align", f"{rule.align}, as in the `order`", given.align)
    # What is left at its default says nothing.
    default = PackingRule.of(rule.length, algorithm="best-fit", split=None, align=rule.align)
    if given not in (rule, default):
        accepted = f"left out with an `order`, which packs {rule.name}"
        refuse(ValueError, "packing", f"{accepted}, or to agree with it", given.name)
    if window is not None:
        refuse(ValueError, "window", "left out with an `order`, which has its own", window)
    _check_lengths(parts, lengths, order)


# So many lengths are compared at once.
_COMPARED = 1 << 20


def _check_lengths(parts: list[PackedOrder], lengths: NDArray[Any], order: Any) -> None:
    """Raise if the rows of orders are not of documents of these lengths: other tokens would be read in silence."""
    packed = sum(map(documents_of, parts))
    if packed != lengths.size:
        accepted = f"an order of the {lengths.size} documents of `source`"
        refuse(ValueError, "order", accepted, f"one of {packed}: {order}")
    begin = 0
    for part in parts:
        own = lengths_of_order(part)
        for first in range(0, own.size, _COMPARED):
            ours = own[first : first + _COMPARED]
            found = lengths[begin + first : begin + first + ours.size]
            if np.array_equal(ours, found):
                continue
            # A document of 0 tokens is left out.
            differ = np.flatnonzero((ours != found) & (ours != 0))
            if differ.size:
                at = int(differ[0])
                raise ValueError(
                    f"`order` was made for other documents than `source` has: document {begin + first + at} has "
                    f"{found[at]} tokens, and {ours[at]} in the order. `source` must have the documents of its parts "
                    "one after the other, in the same order of files; a length of 0 leaves a document out."
                )
        begin += own.size

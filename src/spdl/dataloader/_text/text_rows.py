"""The rows of an epoch: from an order of rows, or from documents whose lengths are found as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdl._check import refuse
from spdl._random_key import random_key
from spdl.dataloader._media.batches import SampleFailure
from spdl.dataloader._media.loader_state import Identity, LoaderProgress, World, identify
from spdl.dataloader._media.media_iterator import Cursor, EpochStep, EpochSteps, StepResult
from spdl.dataloader._media.media_loader import BATCHES_AT_ONCE, make_order
from spdl.dataloader._text.counts import TokenCounts, counts_of
from spdl.dataloader._text.documents import Documents, Groups, Piece, Tokenized, is_map_style, lengths_of
from spdl.dataloader._text.packer import Packer, Place, Rows, StreamSteps
from spdl.dataloader._text.tokenize import Tokenize
from spdl.io import PackedRows, RowWriter
from spdl.io._shared import PackingRule
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._report.page import StageArguments
from spdl.source import EpochOrder, PackedOrder
from spdl.source._shared import select_rows

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
    """How documents are packed."""

    rule: PackingRule
    shuffle: bool
    seed: int
    window: int | None
    drops: bool
    """Whether documents that are too long for a row are dropped, and not an error."""


class CountedSteps(EpochSteps):
    """The steps of an order of packed rows."""

    def advance(self, before: Cursor, result: Cursor) -> Cursor:
        """Add up what the steps have counted."""
        counts = counts_of(before) + counts_of(result)
        return {"counts": counts._asdict()}

    def between_epochs(self, cursor: Cursor) -> Cursor:
        """Count the rows that no step has taken: `drop_last` has left them out."""
        counts = counts_of(cursor)
        return {"counts": counts._replace(not_full=counts.not_full + counts.waiting)._asdict()}


class _Step(NamedTuple):
    start: int
    """The place in the epoch where the step of all ranks begins."""
    stop: int
    """Where it ends; the rows after the last step are dropped."""
    step: EpochStep


class KnownRows:
    """The rows of documents of known lengths: an order says what is in them.

    Args:
        source: Token files, or a list of arrays.
        order: A user's order of rows.
        how: How documents are packed without it.
        writer: Writes rows.
        finish: Makes a batch.
    """

    def __init__(self, source: Any, order: Any, how: How, writer: RowWriter, finish: Finish) -> None:
        lengths = lengths_of(source)
        if not len(lengths):
            refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
        self._source = source
        self._writer = writer
        self._finish = finish
        self._order: PackedOrder = self._make_order(lengths, how) if order is None else _check_order(order, how, writer)

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
            data=identify(self._source) if named else "",
        )

    def __repr__(self) -> str:
        return f"{len(self._order):,} rows of {type(self._source).__name__}"

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._order)

    def identify(self, seed: int) -> Identity:
        return Identity(identify(self._source), self._order.fingerprint, len(self._order), seed)

    def steps(self, world: World, batch_size: int, progress: LoaderProgress, *, drop_last: bool) -> CountedSteps:
        return CountedSteps(
            self._order, batch_size, world, drop_last=drop_last, even_batches=True, start=progress.position
        )

    def declare(
        self,
        builder: PipelineBuilder[Any, Any],
        steps: CountedSteps,
        progress: LoaderProgress,
        threads: int,
        batch_size: int,
        *,
        drop_last: bool,  # noqa: ARG002
    ) -> int:
        """Add the source and the stages to a pipeline. Return how many threads it needs."""
        epoch = progress.epoch
        at_once = min(threads, BATCHES_AT_ONCE)
        together = batch_size * steps.world.size

        def numbered() -> Iterator[_Step]:
            start = progress.position
            for step in steps.read(epoch):
                yield _Step(start, min(step.end, start + together), step)
                start = step.end

        def load(item: _Step) -> StepResult:
            try:
                return self._load(item, epoch)
            except Exception as error:  # noqa: BLE001 - the loop raises it in its turn.
                return StepResult(item.step.end, error=error)

        builder.add_source(numbered()).pipe(load, name="load", concurrency=at_once, output_order="input")
        return at_once

    def arguments(self, threads: int) -> list[StageArguments]:
        """Return what a user may change about the stages."""
        otherwise = "A batch is one native call in one thread."
        return [
            StageArguments(
                unit="batch", several="num_threads", value=threads, most=BATCHES_AT_ONCE, otherwise=otherwise
            )
        ]

    def _load(self, item: _Step, epoch: int) -> StepResult:
        start, stop, step = item
        everything = self._order.rows(self._order.take(epoch, np.arange(start, stop, dtype=np.int64)))
        positions = np.array(step.positions, np.int64)
        mine = select_rows(everything, positions - start)
        batch = self._writer(mine, self._source)
        made = self._finish(batch, mine, mine.documents, {"index": positions, "epoch": epoch, "failures": ()})
        delivered = int((everything.stops - everything.starts).sum())
        count = stop - start
        counts = TokenCounts(rows=count, delivered=delivered, padding=count * self._writer.length - delivered)
        if start == 0:
            every = self._order.counts
            counts += TokenCounts(
                documents=every.documents,
                tokens=every.tokens,
                empty_documents=every.empty_documents,
                too_long_documents=every.too_long_documents,
                too_long=every.too_long_tokens,
            )
        return StepResult(step.end, made, cursor={"counts": counts._asdict()})


def _check_order(order: Any, how: How, writer: RowWriter) -> Any:
    if not isinstance(order, PackedOrder):
        accepted = "an `spdl.source.PackedOrder` of the lengths of token files, or None"
        refuse(TypeError, "order", accepted, order)
    if how.shuffle:
        refuse(ValueError, "shuffle", "False with an `order`, which says itself what is shuffled", how.shuffle)
    if order.length != writer.length:
        refuse(ValueError, "order", f"an order of rows of {writer.length} tokens, as `length` says", order)
    return order


class StreamedRows:
    """The rows of documents whose lengths show when they are tokenized.

    Args:
        source: A sequence or an iterable of documents.
        order: A user's order of documents.
        how: How they are packed.
        writer: Writes rows.
        finish: Makes a batch.
        tokenizer: Turns texts into ids; None if documents are ids.
        field: The field of records that it gets.
        skips: Whether documents that fail are left out.
    """

    def __init__(
        self,
        source: Any,
        order: EpochOrder | None,
        how: How,
        writer: RowWriter,
        finish: Finish,
        *,
        tokenizer: Any,
        field: str | None,
        skips: bool,
    ) -> None:
        self._how = how
        self._writer = writer
        self._finish = finish
        self._skips = skips
        tokenize = tokenizer if isinstance(tokenizer, Tokenize) or tokenizer is None else Tokenize(tokenizer)
        if is_map_style(source):
            if not len(source):
                refuse(ValueError, "source", "not empty", source, "There is nothing to load.")
            order = make_order(len(source), order, shuffle=how.shuffle, seed=how.seed)
        elif order is not None or how.shuffle:
            name, given = ("shuffle", how.shuffle) if order is None else ("order", order)
            remedy = "Shuffle the files, or write token files, whose documents have any order."
            refuse(ValueError, name, "left out for an iterable, which has its own order", given, remedy)
        self._documents = Documents(source, order, tokenize, field)
        self._groups = Groups(how.window or _WINDOW)
        self._name = type(source).__name__
        self._tokenizer = "ids" if tokenize is None else tokenize.name

    size = None

    def __repr__(self) -> str:
        size = self._documents.size
        return f"{self._name}{'' if size is None else f' of {size:,} documents'}"

    def identify(self, seed: int) -> Identity:
        source, order = self._documents.identify()
        rule = f"{self._how.rule.name}, window={self._how.window or _WINDOW}, shuffle={self._how.shuffle}"
        return Identity(f"{source}, {self._tokenizer}", f"{order}, {rule}", self._documents.size or 0, seed)

    def steps(self, world: World, batch_size: int, progress: LoaderProgress, *, drop_last: bool) -> StreamSteps:  # noqa: ARG002
        return StreamSteps(world)

    def declare(
        self,
        builder: PipelineBuilder[Any, Any],
        steps: StreamSteps,
        progress: LoaderProgress,
        threads: int,
        batch_size: int,
        *,
        drop_last: bool,
    ) -> int:
        """Add the source and the stages to a pipeline. Return how many threads it needs."""
        epoch, place = progress.epoch, Place.of_state(progress.cursor)
        packer = Packer(
            self._how.rule,
            lambda rows, failures: self._make(rows, failures, epoch),
            steps.world,
            self._groups,
            batch_size=batch_size,
            drop_last=drop_last,
            key=random_key(self._how.seed, epoch, -17) if self._how.shuffle else None,
            skips=self._skips,
            drops=self._how.drops,
            position=progress.position,
            place=place,
            counts=counts_of(progress.cursor),
        )
        documents = self._documents

        def tokenize(piece: Piece) -> Tokenized:
            return documents.load(piece, epoch)

        pieces = documents.pieces(epoch, self._groups, place.group, place.document, place.mark)
        builder.add_source(pieces).pipe(tokenize, concurrency=threads, output_order="input")
        builder.pipe(packer, name="pack", output_order="input")
        return threads

    def arguments(self, threads: int) -> list[StageArguments]:
        """Return what a user may change about the stages."""
        tokenize = StageArguments(
            unit="documents",
            several="num_threads",
            value=threads,
            in_place_of_processes=(
                "Take a tokenizer that releases the GIL, such as one of `tokenizers`, or write token files first."
            ),
        )
        otherwise = "Rows are packed in one thread, which no argument changes: write token files first."
        return [tokenize, StageArguments(unit="documents", otherwise=otherwise)]

    def _make(self, rows: Rows, failures: tuple[SampleFailure, ...], epoch: int) -> Any:
        masks: list[Any] | None = None
        if any(each.loss_mask is not None for each in rows.documents):
            masks = [
                np.ones(len(each.tokens), bool) if each.loss_mask is None else each.loss_mask for each in rows.documents
            ]
        batch = self._writer(rows.rows, [each.tokens for each in rows.documents], masks)
        more = {"index": np.array(rows.numbers, np.int64), "epoch": epoch, "failures": failures}
        return self._finish(batch, rows.rows, rows.indices, more)

"""A ready-made loader of text: from documents or token files to batches of packed rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_flag, check_int, positive, refuse
from spdl._not_here import LOADER_WORDS, refuses
from spdl.dataloader._loader.batches import TextBatch
from spdl.dataloader._loader.epoch_iterator import EpochSteps, StepResult
from spdl.dataloader._loader.epoch_loader import SHARED, EpochLoader, pick
from spdl.dataloader._loader.failures import transform_batch
from spdl.dataloader._loader.loader_state import Cursor, Identity, LoaderProgress
from spdl.dataloader._loader.tensors import OutputKind, to_torch
from spdl.dataloader._text.counts import CountsByCorpus, TokenCounts, counts_alone
from spdl.dataloader._text.documents import is_map_style, lengths_of
from spdl.dataloader._text.packer import StreamSteps
from spdl.dataloader._text.text_rows import How, KnownRows, StreamedRows, Writers
from spdl.io import PackedRows
from spdl.io._shared import PackingRule, check_too_long
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStatistics
from spdl.source import EpochOrder, MixedOrder, TokenFiles
from spdl.source._shared import warn_of_idle_rank

Packing = Literal["best-fit", "first-fit", "concat", "none"]
Split = Literal["never", "long", "always"]
OnTextError = Literal["raise", "skip"]


@dataclasses.dataclass(frozen=True, slots=True)
class TextStatistics(PipelineStatistics):
    """The counts and times of a `TextLoader`'s pipeline, and what became of the tokens.

    Attributes:
        tokens: The counts of documents and tokens up to the batch that the loop received last.
        corpora: The same for each corpus, by its name, if the loader has ``corpora``.

    Example:
        >>> from spdl.dataloader import TextLoader
        >>> loader = TextLoader(["ab", "c"], 1, length=4, tokenizer=lambda text: [*map(ord, text)], output="numpy")
        >>> for batch in loader:
        ...     pass
        >>> loader.statistics().tokens.delivered
        3
    """

    tokens: TokenCounts = dataclasses.field(default_factory=TokenCounts)
    corpora: Mapping[str, TokenCounts] = dataclasses.field(default_factory=dict)


class TextLoader(EpochLoader[TextBatch]):
    """A loader of text: tokenized, packed into rows of one length, shuffled, shared among ranks, in batches.

    Each loop over it is an epoch. A batch is a `TextBatch`: it unpacks as tokens and labels, and has positions,
    segments and bounds, so that documents in a row need not see each other. A batch is the same whatever the number of
    threads, and the rows of a step of all ranks together are the same for each number of ranks, if they are as many.

    **Token files**, and lists of arrays of ids, have known lengths: `spdl.source.PackedOrder` packs them, and a batch
    is one native call. Any number of ranks share the rows, an epoch has a length, and it is resumed at once.

    **Texts**, and ids of unknown lengths, are packed as they come: a group of documents is tokenized in `num_threads`
    threads and packed together. The rows of a rank are known only when all documents before them are tokenized. So each
    rank tokenizes all of them, and takes its rows: all ranks take equally many steps, and a state fits any number of
    ranks. With more than some dozen ranks, or for many epochs, write token files first.

    No token is lost in silence: ``statistics().tokens`` and the state say what became of all of them.

    Args:
        source: Token files (`spdl.source.TokenFiles`); or a sequence, such as `spdl.source.JsonLines`,
            `spdl.source.ParquetFiles`, `spdl.source.HuggingFaceDataset` or a list; or any iterable, such as
            `spdl.source.StreamedJsonLines`, in whose order documents then come. Its documents are texts (str, or bytes
            in UTF-8), records with a text, or without a `tokenizer` ids: arrays, lists, or records with ``input_ids``
            or ``tokens`` and, as they like, a ``loss_mask``, or ``labels`` that are -100 where it would be 0. A record
            whose ``attention_mask`` has a 0, or whose ``token_type_ids`` have another number than 0, fails.
        batch_size: The rows of a batch of one rank.
        length: The tokens of a row; with ``packing="none"`` the most that a row may have.
        tokenizer: Turns a text into ids: a tokenizer that `Tokenize` takes, or a `Tokenize`, which can put ids at the
            beginning and the end of each document. None if the source has ids.
        tokens_per_batch: The tokens of a batch of one rank in place of `batch_size`, a multiple of `length`. Not with
            ``packing="none"``, where they differ.
        field: The field of a record that the tokenizer gets. None gives it the whole record: a chat, say.
        packing: ``"best-fit"`` wastes least. ``"first-fit"`` keeps neighbours closer together. ``"concat"`` fills one
            row after the other. See `spdl.source.PackedOrder`. ``"none"`` pads instead of packing: each document is a
            row, and the rows of a step are as long as the longest of all ranks, at a multiple of `align`.
        split: Which documents may be divided among rows: ``"never"``, ``"long"``, ``"always"``. None is ``"always"``
            for ``"concat"``, else ``"long"``.
        too_long: With ``split="never"``, what becomes of a document that is longer than a row: ``"error"``, or
            ``"drop"``, which counts it.
        align: Each document begins at a multiple of this in its row.
        window: About how many documents are packed together. None is 131,072 for token files and 1,024 for texts, of
            which the first groups are smaller. After a resume, the texts of a group are tokenized again.
        labels: ``"shifted"``: the label of a token is the next one. ``"unshifted"``: for models that shift labels
            themselves. None makes none. See `spdl.io.RowWriter`.
        corpora: Whose tokens are counted apart, in ``statistics().corpora`` and the state: a mapping from the names of
            corpora to how many documents each has, in the order of the source; or the name of a field of records with
            the name of the document's corpus, without which a document fails. None counts no corpora.
        vocab_size: Ids must be less than this. None checks nothing.
        pad_id: The id of padding.
        shuffle: Whether each epoch has its own order. Not for iterables, which have their own.
        order: Your own order instead: an `spdl.source.EpochOrder` of the documents of a sequence of texts, such as a
            mixture; or of token files an `spdl.source.PackedOrder`, which then says what is packed how, or an
            `spdl.source.MixedOrder` of several, one for each corpus, in the order of their documents in `source`. The
            documents and tokens of a mix are counted when they come, not at the beginning of the epoch,
            nor in a last step in which this rank has no batch.
        seed: The seed of the order, from 0 to 2**64 - 1. Not with `order`, which has its own.
        drop_last: Whether to leave out the rows at the end of an epoch that fill no batch on all ranks. If not, the
            ranks share them evenly.
        even_batches: Whether a rank gets a row that another rank has if there are fewer rows than ranks in the last
            step, so that all ranks take equally many steps. If not, it gets no batch: for validation, where each row
            counts once and no rank waits for another.
        batch_transform: Applied to each batch. The loop gets its result.
        output, device: As for `ImageLoader`.
        on_error: How to treat documents that cannot be read or tokenized: ``"raise"`` raises in the loop, ``"skip"``
            leaves them out, counts them and lists them in ``loader.failures``. Errors that are not tied to one document
            are always raised, and so are ids of token files and lists of arrays that are not in the vocabulary, since
            rows are packed before these are read: to leave such a document out, pass an `order` of lengths in which it
            has 0 tokens. There is no ``"refill"`` as in `ImageLoader`: a row is not missing if a document is.
        rank, world_size, prefetch, timeout: As for `ImageLoader`.
        num_threads: How many threads work. None takes the cores that this process may use, bounded by its control
            groups, and divided by ``LOCAL_WORLD_SIZE``.

    Attributes:
        dataset, batch_size, drop_last: The source, the rows of a batch, and whether the rest is left out.

    Raises:
        ImportError: If a device is given and PyTorch is not installed; without a device, when the first batch is read.
        TypeError, ValueError: If an argument is not as described, or nothing would be loaded; the message names it.

    Example:
        >>> from spdl.dataloader import TextLoader
        >>> texts = ["abc", "de", "fghi"]
        >>> loader = TextLoader(texts, 1, length=6, tokenizer=lambda text: [*map(ord, text)], output="numpy")
        >>> for tokens, labels in loader:
        ...     print(tokens)
        [[97 98 99  0  0  0]]
        [[100 101 102 103 104 105]]
    """

    @refuses({**LOADER_WORDS, "max_length": "use `length`", "seq_length": "use `length`"})
    def __init__(
        self,
        source: Any,
        batch_size: int | None = None,
        *,
        length: int,
        tokenizer: Any = None,
        tokens_per_batch: int | None = None,
        field: str | None = "text",
        packing: Packing = "best-fit",
        split: Split | None = None,
        too_long: Literal["error", "drop"] = "error",
        align: int = 1,
        window: int | None = None,
        labels: Literal["shifted", "unshifted"] | None = "shifted",
        corpora: Mapping[str, int] | str | None = None,
        vocab_size: int | None = None,
        pad_id: int = 0,
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        batch_transform: Callable[[TextBatch], Any] | None = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnTextError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        writers = Writers(length, labels=labels, align=align, vocab_size=vocab_size, pad_id=pad_id)
        rule = PackingRule.of(length, algorithm=packing, split=split, align=align, argument="packing")
        super().__init__(
            _count_rows(batch_size, tokens_per_batch, rule),
            "documents",
            **pick(locals(), SHARED),
        )
        self.dataset = source
        if on_error not in get_args(OnTextError):
            remedy = 'With "skip", rows are packed from others, and no rank gets fewer of them.'
            refuse(ValueError, "on_error", "'raise' or 'skip'", on_error, remedy)
        if order is not None and self._seed:
            refuse(ValueError, "seed", "left out with an `order`, which has its own", seed)
        if isinstance(source, TokenFiles) and not (tokenizer is None or field is None):
            refuse(TypeError, "tokenizer", "None for token files, whose documents are ids", tokenizer)
        how = How(
            rule,
            check_flag("shuffle", shuffle),
            self._seed,
            None if window is None else positive("window", window),
            check_too_long(too_long),
            corpora,
        )
        finish = partial(_finish, labels=labels, output=output, transform=batch_transform)
        self._rows: KnownRows | StreamedRows = (
            KnownRows(source, order, how, writers, finish)
            if tokenizer is None and is_map_style(source) and lengths_of(source) is not None
            else StreamedRows(
                source, order, how, writers, finish, tokenizer=tokenizer, field=field, skips=on_error == "skip"
            )
        )
        self._identity: Identity | None = None
        self._check_early()

    def __repr__(self) -> str:
        return f"TextLoader: {self._rows!r} in batches of {self.batch_size}, epoch {self.epoch}"

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, the same for all ranks.

        Raises:
            TypeError: If the lengths of documents are not known, so the number of rows is not known either.
        """
        steps = self._make_steps(LoaderProgress())
        if isinstance(steps, EpochSteps):
            return len(steps)
        raise TypeError("This TextLoader has no length: how many rows there are shows when documents are tokenized.")

    def statistics(self) -> TextStatistics:
        """Return the counts and times of the stages, and what became of the tokens.

        They are of the loop that runs now, or ran last; ``statistics().tokens`` counts over epochs and resumes.

        Raises:
            RuntimeError: If no loop has begun yet.
        """
        found = super().statistics()
        # The sentence on the bottleneck is made when it is read.
        given: dict[str, Any] = {
            each.name: getattr(found, each.name) for each in dataclasses.fields(found) if each.name != "bottleneck"
        }
        given["bottleneck"] = lambda: found.bottleneck
        counts = CountsByCorpus.of_cursor(self._progress().cursor)
        return TextStatistics(**given, tokens=counts.total, corpora=counts.corpora)

    def _make_steps(self, progress: LoaderProgress) -> EpochSteps | StreamSteps:
        steps = self._rows.steps(*self._share(), progress.position)
        if isinstance(steps, EpochSteps):
            steps.check("rows")
        return steps

    def _warn_if_idle(self, steps: EpochSteps | StreamSteps) -> None:
        if steps.is_empty:
            warn_of_idle_rank(*steps.world, self._rows.size or 0, "rows of an epoch", "Take fewer ranks.")

    def _make_identity(self) -> Identity:
        if self._identity is None:
            self._identity = self._rows.identify(self._seed)
        return self._identity

    @property
    def _mix(self) -> MixedOrder | None:
        # Of texts, a position counts rows, and the order has documents.
        order = self._rows.order
        return order if isinstance(order, MixedOrder) else None

    def _continue_with(self, mix: MixedOrder) -> None:
        assert isinstance(self._rows, KnownRows)
        self._rows.continue_with(mix)
        self._identity = None

    def _leave(self, cursor: Cursor) -> Cursor:
        return counts_alone(cursor)

    def _declare(self, steps: Any, progress: LoaderProgress) -> Pipeline[StepResult]:
        threads = self._threads()
        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        at_once = self._rows.declare(builder, steps, progress, threads)
        return self._finish(builder, at_once, self._rows.arguments(threads), _SOURCE)


_SOURCE = "Documents are read there if `source` is an iterable: a sequence is read in `num_threads` threads."


def _count_rows(batch_size: int | None, tokens_per_batch: int | None, rule: PackingRule) -> int:
    if (batch_size is None) == (tokens_per_batch is None):
        given = (batch_size, tokens_per_batch)
        refuse(ValueError, "batch_size", "given, or `tokens_per_batch`, but not both", given)
    if batch_size is not None:
        return positive("batch_size", batch_size)
    if rule.algorithm == "none":
        remedy = "Pass `batch_size`. For batches of a number of tokens, see `spdl.source.BucketedOrder`."
        refuse(ValueError, "tokens_per_batch", 'None with packing="none"', tokens_per_batch, remedy)
    tokens = check_int("tokens_per_batch", tokens_per_batch, least=rule.length)
    if tokens % rule.length:
        refuse(ValueError, "tokens_per_batch", f"a multiple of the {rule.length} tokens of a row", tokens)
    return tokens // rule.length


def _finish(
    batch: dict[str, Any],
    rows: PackedRows,
    indices: NDArray[np.int64],
    more: dict[str, Any],
    *,
    labels: str | None,
    output: str,
    transform: Callable[[TextBatch], Any] | None,
) -> Any:
    numbers = np.repeat(np.arange(rows.offsets.size - 1), np.diff(rows.offsets))
    batch["documents"] = np.stack([numbers, indices, rows.starts, rows.stops], axis=1)
    batch |= more
    if labels is None:
        batch["labels"] = None
    return transform_batch(transform, TextBatch(to_torch(batch) if output == "torch" else batch), "a batch")

"""An order of rows that are packed with documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_flag, check_int, check_str, positive, refuse
from spdl._cores import available_cores
from spdl._random_key import random_key
from spdl.io._shared import (
    CachePath,
    PackedRows,
    PackingCounts,
    PackingRule,
    check_too_long,
    kept_arrays,
    select_rows,
    sum_counts,
)
from spdl.source._orders.block_shuffled import BlockShuffledOrder
from spdl.source._orders.order import (
    KeyedPermutation,
    Order,
    Recent,
    SequentialOrder,
    check_positions,
    digest,
    random_order,
    to_numbers,
)

# Documents of a window come in runs of this many, which lie together in `lengths` and in the files of tokens.
_RUN = 64
# So many lengths are counted at once.
_COUNTED = 1 << 20
# After this many epochs the same rows come again.
_EPOCHS = 4096


class _Window(NamedTuple):
    """The documents of a window in the order in which they were packed, and rows with the places of these documents."""

    documents: NDArray[np.int64]
    lengths: NDArray[np.int64]
    rows: PackedRows


class PackedOrder(Order):
    """An order of rows of a fixed length, into which documents are packed by their lengths alone.

    A position of the order is a row. Like any `EpochOrder` it has no memory: which documents a row has follows from the
    lengths, the seed and the epoch. So rows are shared among ranks, cut, resumed and mixed as items of other orders
    are. `rows` says what is in a row, and `spdl.io.RowWriter` makes the arrays of a batch.

    **Windows.** Documents that were drawn from all of the data make a window, and are packed together. Then the rows of
    a window are shuffled, and so are the windows. In each epoch, documents of equal length change places within their
    window. So there are as many rows in each epoch, and a document meets other ones. Without `shuffle`, a window is a
    run of documents, and rows come in the order of their first documents, the same ones in each epoch.

    **Algorithms.** ``"best-fit"`` takes the longest documents first and puts each into the row in which it leaves the
    least space: it wastes least. ``"first-fit"`` takes documents as they come and puts each into the first row that has
    the space, so neighbours stay closer together. ``"concat"`` fills one row after the other. ``"none"`` packs nothing:
    each document, or each part of one that is divided, is a row.

    **No token is lost in silence.** `counts` has all documents and tokens, what is in the rows, and what was dropped
    for which reason.

    Args:
        lengths: The tokens of each document, as an array of integers; it may be a mapped file. It is not copied, and
            must not change.
        length: The number of tokens of a row, at most 16,777,216.
        algorithm: ``"best-fit"``, ``"first-fit"``, ``"concat"`` or ``"none"``.
        split: Which documents may be divided among rows: ``"never"`` none, ``"long"`` those that are longer than a row,
            and ``"always"`` any, which only ``"concat"`` does. None is ``"always"`` for ``"concat"``, else ``"long"``.
        too_long: With ``split="never"``, what becomes of a document that is longer than a row: ``"error"``, or
            ``"drop"``, which counts it.
        align: Each document begins at a multiple of this in its row; `length` must be one, too.
        shuffle: Whether to shuffle documents and rows.
        seed: The run. Any int.
        window: About how many documents are packed together. It bounds the memory, at some 200 bytes for each.
        data: A text that names the lengths, such as a hash of the files they are from. With it, what the order must
            know of all lengths is found once and kept, so that a later process begins at once however many there are.
            Each window is compared with it when it is packed, and one without rows at once. Without it, the order packs
            everything when it is made, at some millions of documents a second.
        cache: The folder for that; None is one in the user's cache.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If one is out of range, if a document is too long, or if there is nothing to pack.
        RuntimeError: If `lengths` are not those that were kept under `data`, as far as this shows at once.

    Example:
        >>> from spdl.source import EpochSampler, PackedOrder
        >>> order = PackedOrder([7, 3, 5, 5, 2], 10, seed=1)
        >>> rows = order.rows(list(EpochSampler(order, rank=0, world_size=1)))
        >>> sorted(rows.documents.tolist()), int(rows.stops.sum()), order.counts.fill
        ([0, 1, 2, 3, 4], 22, 0.7333333333333333)
    """

    _kind = "packed"

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[Any],
        length: int,
        /,
        *,
        algorithm: Literal["best-fit", "first-fit", "concat", "none"] = "best-fit",
        split: Literal["never", "long", "always"] | None = None,
        too_long: Literal["error", "drop"] = "error",
        align: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        window: int = 131_072,
        data: str = "",
        cache: CachePath = None,
    ) -> None:
        self._rule = PackingRule.of(length, algorithm=algorithm, split=split, align=align)
        self._drops = check_too_long(too_long)
        self.seed = check_int("seed", seed, least=None)
        self._shuffles = check_flag("shuffle", shuffle)
        self._lengths = to_numbers(lengths, "iu", "an array of integers")
        size = int(self._lengths.size)
        window = min(positive("window", window), size)
        # A window has at least 64 runs, so that its documents are from all over the data.
        self._run = max(1, min(_RUN, window // 64)) if self._shuffles else 1
        self._runs = -(-size // self._run)
        self._num_windows = -(-size // window)
        self._places = KeyedPermutation(self._runs, seed=random_key(self.seed, -13, 0)) if self._shuffles else None
        self._data = check_str("data", data)
        plan = self._plan(cache)
        self._digests = plan["digests"]
        self.counts = PackingCounts(*plan["counts"].tolist())
        """How many documents and tokens there are, and what became of them."""
        if not self.counts.rows:
            refuse(ValueError, "lengths", "of documents, at least one short enough to be packed", lengths)
        self._size = self.counts.rows
        # The first row of each window, and the number of rows.
        self._starts = np.concatenate([[0], np.cumsum(plan["rows"])])
        all_lengths = digest(np.ascontiguousarray(self._digests, "<u8").tobytes())
        shuffled = f"window={window}, seed={self.seed}" if self._shuffles else "unshuffled"
        self._name = (
            f"{self.counts.rows} rows of {size} documents by lengths {all_lengths}, {self._rule.name}, {shuffled}"
        )
        full = plan["rows"][plan["rows"] > 0]
        self._order = (
            BlockShuffledOrder(self.counts.rows, block=full, window=1, seed=self.seed)
            if self._shuffles
            else SequentialOrder(self.counts.rows)
        )
        if self._data:
            # No row of these windows will be asked for, but their documents are counted.
            for empty in np.flatnonzero(plan["rows"] == 0).tolist():
                self._pack_checked(empty)
        self._packed = Recent(self._pack_checked, kept=2)
        self._exchanged = Recent(self._exchange, kept=3)

    @property
    def length(self) -> int:
        """The number of tokens of a row."""
        return self._rule.length

    @property
    def num_items(self) -> int:
        """A number that is larger than all that `take` returns: rows have other numbers in each epoch."""
        return len(self) * _EPOCHS

    def take(self, epoch: int, positions: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the numbers of the rows at some positions of an epoch.

        A number stands for a row and an epoch, so `rows` needs nothing else. After 4,096 epochs, the same come again.

        Args:
            epoch: The pass over the data, from 0.
            positions: An array of numbers from 0 to ``len(self) - 1``.

        Raises:
            IndexError: If they are others.
        """
        check_positions(positions, len(self))
        rows = self._order.take(epoch, positions)
        return rows + epoch % _EPOCHS * len(self) if self._shuffles else rows

    def rows(self, numbers: Sequence[int] | NDArray[np.int64], /) -> PackedRows:
        """Return what is in some rows. Threads may call it at once.

        Args:
            numbers: Numbers that `take`, or a sampler of this order, returned.

        Raises:
            IndexError: If one is no such number.
            RuntimeError: If `lengths` are not those that the order was made for.
        """
        numbers = np.asarray(numbers, np.int64).reshape(-1)
        check_positions(numbers, self.num_items)
        epochs, rows = np.divmod(numbers, len(self))
        windows = np.searchsorted(self._starts, rows, side="right") - 1
        rows -= self._starts[windows]
        keys = epochs * self._num_windows + windows
        first = int(keys[0]) if keys.size else 0
        if (keys == first).all():
            return select_rows(self._exchanged(*divmod(first, self._num_windows)), rows)
        parts = []
        for key in np.unique(keys).tolist():
            here = np.flatnonzero(keys == key)
            parts.append((here, select_rows(self._exchanged(*divmod(key, self._num_windows)), rows[here])))
        return put_together(numbers.size, parts)

    def row(self, number: int, /) -> PackedRows:
        """Return what is in one row; see `rows`.

        Raises:
            TypeError, IndexError: If it is not the number of a row.
            RuntimeError: If `lengths` are not those that the order was made for.
        """
        return self.rows([check_int("number", number, least=None)])

    def _plan(self, cache: CachePath) -> Mapping[str, NDArray[Any]]:
        shuffled = f"{self._run} {self.seed}" if self._shuffles else "unshuffled"
        known = f"1 {self._data} {self._lengths.size} {self._rule.name} {self._num_windows} {shuffled} {self._drops}"
        return kept_arrays("packed", known if self._data else None, cache, self._make_plan)

    def _make_plan(self) -> dict[str, NDArray[Any]]:
        windows = range(self._num_windows)
        found = [self._measure(0)] if len(windows) == 1 else self._measure_at_once(windows)
        return {
            "rows": np.array([counts.rows for counts, _ in found], np.int64),
            "digests": np.array([digest for _, digest in found], np.uint64),
            "counts": np.array(sum_counts([counts for counts, _ in found]), np.int64),
        }

    def _measure_at_once(self, windows: range) -> list[tuple[PackingCounts, int]]:
        pool = ThreadPoolExecutor(min(len(windows), max(int(available_cores()), 1)))
        try:
            return list(pool.map(self._measure, windows))
        finally:
            # On Ctrl-C, or if a document is too long, the other windows need not be packed.
            pool.shutdown(cancel_futures=True)

    def _measure(self, window: int) -> tuple[PackingCounts, int]:
        documents, lengths, rows = self._pack(window)
        counts = self._rule.account(lengths, rows)
        if counts.too_long_documents and not self._drops:
            self._rule.refuse_too_long(f"lengths[{int(documents[lengths.argmax()])}] is {lengths.max()} tokens")
        return counts, _digest(lengths)

    def _pack(self, window: int) -> _Window:
        first, last = (self._runs * each // self._num_windows for each in (window, window + 1))
        if self._places is None:
            documents = np.arange(first, last, dtype=np.int64)
            lengths = self._lengths[first:last]
        else:
            runs = self._places.take(np.arange(first, last, dtype=np.int64))
            documents = (runs[:, None] * self._run + np.arange(self._run)).reshape(-1)
            documents = documents[documents < self._lengths.size]
            documents = documents[random_order(random_key(self.seed, -14, window), documents.size)]
            lengths = self._lengths[documents]
        lengths = np.ascontiguousarray(lengths, np.int64)
        if lengths.min() < 0:
            document = int(documents[lengths.argmin()])
            refuse(ValueError, f"lengths[{document}]", "at least 0", int(lengths.min()))
        return _Window(documents, lengths, self._rule.pack(lengths))

    def _pack_checked(self, window: int) -> _Window:
        packed = self._pack(window)
        if _digest(packed.lengths) != int(self._digests[window]):
            raise RuntimeError(
                f"The lengths of the documents of window {window} are not those that {self!r} was made for. "
                "Do not change `lengths`; if the data has changed, pass another text for `data`."
            )
        return packed

    def _exchange(self, epoch: int, window: int) -> PackedRows:
        """Return the rows of a window in an epoch, where documents of equal length have changed places."""
        documents, lengths, rows = self._packed(window)
        if epoch:
            shuffled = random_order(random_key(random_key(self.seed, epoch, -15), window, 0), documents.size)
            exchanged = np.empty_like(documents)
            exchanged[np.argsort(lengths, kind="stable")] = documents[shuffled][
                np.argsort(lengths[shuffled], kind="stable")
            ]
            documents = exchanged
        return rows._replace(documents=documents[rows.documents])


def rule_of(order: PackedOrder) -> PackingRule:
    return order._rule  # noqa: SLF001 - on its behalf.


def lengths_of_order(order: PackedOrder) -> NDArray[Any]:
    return order._lengths  # noqa: SLF001


def documents_of(order: PackedOrder) -> int:
    return int(order._lengths.size)  # noqa: SLF001


def count_documents(order: PackedOrder, first: int, last: int) -> PackingCounts:
    """Return the counts of the documents from one to before another, as far as they follow from their lengths alone."""
    found = PackingCounts(order.length)
    for begin in range(first, last, _COUNTED):
        lengths = order._lengths[begin : min(begin + _COUNTED, last)]  # noqa: SLF001
        found = sum_counts([found, rule_of(order).account_lengths(np.asarray(lengths, np.int64))])
    return found


def _digest(lengths: NDArray[np.int64]) -> int:
    content = np.ascontiguousarray(lengths, "<i8")
    return int.from_bytes(blake2b(content.data, digest_size=8).digest(), "little")


def put_together(size: int, parts: Sequence[tuple[NDArray[np.int64], PackedRows]]) -> PackedRows:
    """Return the rows of several windows or orders. Each part has the places of its rows in the result."""
    places = np.concatenate([places for places, _ in parts])
    columns = [np.concatenate([rows[column] for _, rows in parts]) for column in range(3)]
    counts = np.concatenate([np.diff(rows.offsets) for _, rows in parts])
    joined = PackedRows(columns[0], columns[1], columns[2], np.concatenate([[0], np.cumsum(counts)]))
    order = np.empty(size, np.int64)
    order[places] = np.arange(size)
    return select_rows(joined, order)

"""Packed rows as the arrays of a batch."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.source.counting_store import CountingStore

from spdl.io import FormatError, PackedRow, PackedRows, RowWriter
from spdl.source import PackedOrder, TokenFiles

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


class Mapped:
    """Documents in a few flat arrays."""

    vocab_size: int | None = None

    def __init__(self, documents: list[np.ndarray[Any, Any]], parts: int) -> None:
        self.lengths = np.array([each.size for each in documents])
        self.where = np.arange(len(documents)) % parts
        self.parts = [
            np.concatenate([each for at, each in enumerate(documents) if at % parts == part] or [np.empty(0, np.int64)])
            for part in range(parts)
        ]
        for part in self.parts:
            part.flags.writeable = False
        self.firsts = np.array(
            [self.lengths[:at][self.where[:at] == self.where[at]].sum() for at in range(len(documents))], np.int64
        )

    def locate(self, numbers: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self.where[numbers], self.firsts[numbers]


class Read:
    """Documents of which parts are read, many at once."""

    def __init__(self, documents: list[np.ndarray[Any, Any]]) -> None:
        self.documents = documents
        self.lengths = np.array([each.size for each in documents])

    def read(self, numbers: Any, starts: Any, stops: Any) -> list[np.ndarray[Any, Any]]:
        return [self.documents[at][start:stop] for at, start, stop in zip(numbers, starts, stops, strict=True)]


def expected(rows: PackedRows, documents: list[Any], masks: list[Any] | None, writer: RowWriter) -> dict[str, Any]:
    """Return a batch as a loop over its tokens makes it."""
    shape = (rows.offsets.size - 1, writer.length)
    tokens, labels = np.full(shape, writer.pad_id), np.full(shape, -100)
    positions, segments = np.zeros(shape, int), np.zeros(shape, int)
    for row in range(shape[0]):
        at = 0
        for number, segment in enumerate(range(rows.offsets[row], rows.offsets[row + 1]), 1):
            document = documents[rows.documents[segment]]
            mask = np.ones(len(document)) if masks is None else masks[rows.documents[segment]]
            begin = at
            for token in range(rows.starts[segment], rows.stops[segment]):
                tokens[row, at] = document[token]
                target = token + 1 if writer.labels == "shifted" else token
                counts = target < len(document) and (writer.labels == "shifted" or at > begin)
                if counts and mask[target]:
                    labels[row, at] = document[target]
                at += 1
            at = -(-at // writer.align) * writer.align
            segments[row, begin:at] = number
            positions[row, begin:at] = np.arange(at - begin)
        positions[row, at:] = np.arange(writer.length - at)
    return {"tokens": tokens, "labels": labels, "position_ids": positions, "segment_ids": segments}


@given(st.data())
def test_row_writer_writes_what_a_loop_would(data: st.DataObject) -> None:
    align = data.draw(st.integers(1, 3))
    length = align * data.draw(st.integers(1, 15))
    lengths = [*data.draw(st.lists(st.integers(0, 2 * length), max_size=12)), 1]
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    documents = [random.integers(0, 100, size).astype(dtype) for size in lengths]
    masks = [random.random(size) < 0.5 for size in lengths] if data.draw(st.booleans()) else None
    algorithm: Any = data.draw(st.sampled_from(["best-fit", "first-fit", "concat"]))
    order = PackedOrder(lengths, length, algorithm=algorithm, align=align)
    rows = order.rows(order.take(0, np.arange(len(order))))
    writer = RowWriter(length, labels=data.draw(st.sampled_from(["shifted", "unshifted"])), align=align, pad_id=7)
    kind: Any = data.draw(st.sampled_from([list, Read, lambda some: Mapped(some, 3)]))
    batch = writer(rows, kind(documents), masks if masks is None else kind(masks))
    for name, wanted in expected(rows, documents, masks, writer).items():
        assert batch[name].dtype == np.int32
        np.testing.assert_array_equal(batch[name], wanted)
    check_bounds(batch, length)


def check_bounds(batch: dict[str, Any], length: int) -> None:
    """Compare the bounds with the block-diagonal mask."""
    segments, bounds, splits = batch["segment_ids"], batch["cu_seqlens"], batch["row_splits"]
    assert bounds.dtype == splits.dtype == np.int32
    assert (bounds[0], bounds[-1]) == (0, segments.size)
    assert batch["max_seqlen"] == np.diff(bounds).max(initial=0)
    blocks = np.repeat(np.arange(bounds.size - 1), np.diff(bounds)).reshape(segments.shape)
    for row, own in enumerate(segments):
        mask = own[:, None] == own[None, :]
        np.testing.assert_array_equal(mask, blocks[row][:, None] == blocks[row][None, :])
        alone = bounds[splits[row] : splits[row + 1] + 1] - row * length
        assert (alone[0], alone[-1]) == (0, length)
        np.testing.assert_array_equal(np.flatnonzero(batch["position_ids"][row] == 0), alone[:-1])


@pytest.mark.parametrize("stored", [False, True])
def test_row_writer_reads_token_files(tmp_path: Path, *, stored: bool) -> None:
    documents = [np.arange(1, size, dtype=np.uint16) for size in (30, 1, 2, 55, 17)]
    for number, some in enumerate((documents[:2], documents[2:])):
        np.concatenate(some).tofile(tmp_path / f"{number}.ds")
        np.cumsum([each.size for each in some]).astype(np.uint64).tofile(tmp_path / f"{number}.ds.index")
    places = ["0.ds", "1.ds"] if stored else [tmp_path / "0.ds", tmp_path / "1.ds"]
    files = TokenFiles(places, store=CountingStore(tmp_path) if stored else None)
    assert (files.parts is None) == stored
    order = PackedOrder(files.lengths, 20, seed=1)
    rows = order.rows(order.take(0, np.arange(len(order))))
    writer = RowWriter(20)
    found, wanted = writer(rows, files), writer(rows, documents)
    for name, expected_array in wanted.items():
        np.testing.assert_array_equal(found[name], expected_array)
    with pytest.raises(FormatError, match="has the token 54, and `vocab_size` is 54"):
        writer(rows, TokenFiles(places, store=CountingStore(tmp_path) if stored else None, vocab_size=54))


def test_row_writer_takes_the_vocabulary_of_token_files() -> None:
    documents = Mapped([np.array([1, 2, 3])], 1)
    documents.vocab_size = 3
    with pytest.raises(ValueError, match="document 0 has the token 3 at position 2"):
        RowWriter(3)(rows_of([(0, 0, 3)]), documents)
    assert RowWriter(3, vocab_size=4)(rows_of([(0, 0, 3)]), documents)["tokens"].tolist() == [[1, 2, 3]]


def rows_of(*rows: list[tuple[int, int, int]]) -> PackedRows:
    columns = np.array([segment for row in rows for segment in row], np.int64).reshape(-1, 3)
    offsets = np.cumsum([0, *map(len, rows)])
    return PackedRows(*(np.ascontiguousarray(column) for column in columns.T), offsets)  # type: ignore[call-arg]


def test_row_writer_labels_the_last_token_of_a_part_with_the_next_of_the_document() -> None:
    batch = RowWriter(3)(rows_of([(0, 0, 3)], [(0, 3, 5)]), [np.arange(1, 6)])
    assert batch["labels"].tolist() == [[2, 3, 4], [5, -100, -100]]
    batch = RowWriter(3, labels="unshifted")(rows_of([(0, 0, 3)], [(0, 3, 5)]), [np.arange(1, 6)])
    assert batch["labels"].tolist() == [[-100, 2, 3], [-100, 5, -100]]
    assert "labels" not in RowWriter(3, labels=None)(rows_of([(0, 0, 3)]), [np.arange(1, 6)])


def test_row_writer_writes_rows_of_a_stream() -> None:
    first = PackedRow([4, 6], [0, 0], [2, 1], [np.array([1, 2]), np.array([3])])
    second = PackedRow([5], [1], [3], [np.array([4, 5, 6])], [np.array([True, False, True])])
    batch = RowWriter(3)([first, second])
    assert batch["tokens"].tolist() == [[1, 2, 3], [5, 6, 0]]
    assert batch["labels"].tolist() == [[2, -100, -100], [6, -100, -100]]
    assert RowWriter(3)([])["tokens"].shape == (0, 3)


def test_row_writer_notices_other_documents() -> None:
    writer = RowWriter(2, labels=None)
    for tokens in ([1, 2], [3, 4]):
        assert writer(rows_of([(0, 0, 2)]), Mapped([np.array(tokens)], 1))["tokens"].tolist() == [tokens]
    assert pickle.loads(pickle.dumps(writer))(rows_of([(0, 0, 1)]), [np.array([9])])["tokens"].tolist() == [[9, 0]]  # noqa: S301
    assert repr(writer) == "RowWriter(2, labels=None, align=1)"


@pytest.mark.parametrize(
    ("dtype", "token", "vocab_size"),
    [
        ("uint16", 50_000, 50_000),
        ("int16", -1, None),
        ("int32", -5, None),
        ("uint32", 2**31, None),
        ("int64", 2**32 + 1, None),
        ("uint64", 2**64 - 1, 10),
        ("int8", -3, 2**31),
    ],
)
def test_row_writer_names_a_token_that_is_not_in_the_vocabulary(dtype: str, token: int, vocab_size: int | None) -> None:
    document = np.zeros(9, dtype)
    document[6] = token
    writer = RowWriter(4, vocab_size=vocab_size)
    known = vocab_size or 2**31
    message = f"document 1 has the token {token} at position 6, and the vocabulary has the numbers 0 to {known - 1}"
    for documents in ([np.zeros(1, dtype), document], Mapped([np.zeros(1, dtype), document], 2)):
        # As a token, and as the label of the last one.
        for segment in ((1, 5, 9), (1, 3, 6)):
            with pytest.raises(ValueError, match=message):
                writer(rows_of([segment]), documents)
        assert writer(rows_of([(1, 0, 4)]), documents)["tokens"].tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of([(0, 0, 6)]), "no room for its segments"),
        (rows_of([(0, 0, 3), (1, 0, 3)]), "no room for its segments"),
        (rows_of([(1, 0, 4)]), "not in its document"),
        (rows_of([(0, -1, 2)]), "not in its document"),
        (rows_of([(0, 2, 2)]), "not in its document"),
        (rows_of([(0, 2, 1)]), "not in its document"),
        (rows_of([(0, 2**62, 2**62 + 1)]), "not in its document"),
        (rows_of([(0, 0, 1)])._replace(offsets=np.array([0, 2])), "do not cover the segments"),
        (rows_of([(0, 0, 1)])._replace(offsets=np.array([1, 1])), "do not cover the segments"),
        (rows_of([(0, 0, 1), (1, 0, 1)])._replace(offsets=np.array([0, 3, 2])), "do not cover the segments"),
        (rows_of([(0, 0, 1)])._replace(offsets=np.empty(0, np.int64)), "different lengths"),
        (rows_of([(0, 0, 1)])._replace(stops=np.array([1, 2])), "different lengths"),
    ],
)
def test_row_writer_refuses_rows_that_make_no_sense(rows: PackedRows, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RowWriter(5)(rows, [np.arange(6), np.arange(3)])


def test_row_writer_refuses_places_outside_of_the_arrays() -> None:
    for where, first in ((1, 0), (-1, 0), (0, 1), (0, -1), (0, 2**62)):
        documents = Mapped([np.arange(4)], 1)
        documents.where[0], documents.firsts[0] = where, first
        with pytest.raises(ValueError, match=r"tokens (are in no array|end after their array)"):
            RowWriter(4)(rows_of([(0, 0, 4)]), documents)


@pytest.mark.parametrize(
    ("documents", "masks", "error", "message"),
    [
        ([np.array([1.0])], None, TypeError, r"`documents\[0\]` must be a contiguous array of integers"),
        ([np.array([[1]])], None, TypeError, "in one dimension"),
        ([np.arange(4)[::2]], None, TypeError, "contiguous"),
        ([np.array([1], ">i2")], None, TypeError, "contiguous array of integers"),
        ([[1]], None, TypeError, r"`documents\[0\]`"),
        (5, None, TypeError, "`documents` must be a sequence of arrays, or token files"),
        (None, None, TypeError, "`documents` must be a sequence of arrays"),
        ([np.array([1])], [np.ones(2)], TypeError, r"`loss_masks\[0\]`"),
        ([np.array([1])], [np.ones(2, bool)], ValueError, "document 0 has 1 tokens and a loss mask of 2"),
    ],
)
def test_row_writer_refuses_what_are_no_tokens(
    documents: Any, masks: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        RowWriter(5)(rows_of([(0, 0, 1)]), documents, masks)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": "next"}, ValueError, "`labels` must be 'shifted', 'unshifted' or None"),
        ({"align": 3}, ValueError, "`align` must be a divisor of the 4 tokens of a row"),
        ({"vocab_size": 2**31 + 1}, ValueError, "`vocab_size` must be None, or an int from 1 to 2147483648"),
        ({"pad_id": 2**31}, ValueError, "`pad_id` must be"),
        ({"pad_id": None}, TypeError, "`pad_id` must be"),
    ],
)
def test_row_writer_refuses_options_that_make_no_sense(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        RowWriter(4, **options)

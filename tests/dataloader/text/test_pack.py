"""Documents of a stream, packed into rows."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import Pack
from spdl.io import PackedRow, RowWriter
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure

LENGTHS = [(37 * number) % 23 for number in range(150)]


def documents(lengths: list[int] = LENGTHS) -> list[np.ndarray[Any, Any]]:
    """Return documents whose tokens are all different."""
    ends = np.cumsum(lengths)
    return [np.arange(end - size, end) for size, end in zip(lengths, ends, strict=True)]


def tokens_of(rows: list[PackedRow]) -> list[int]:
    return [
        token
        for row in rows
        for start, stop, tokens in zip(row.starts, row.stops, row.tokens, strict=True)
        for token in tokens[start:stop].tolist()
    ]


def run(pack: Pack, items: list[Any]) -> list[PackedRow]:
    builder = PipelineBuilder().add_source(items).aggregate(pack).disaggregate().add_sink()
    with builder.build(num_threads=1).auto_stop() as pipeline:
        return list(pipeline)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=200),
    st.integers(1, 30),
    st.sampled_from(
        [("best-fit", "long"), ("first-fit", "never"), ("concat", "always"), ("concat", "long"), ("none", "long")]
    ),
    st.integers(1, 100),
)
def test_pack_keeps_every_token(lengths: list[int], length: int, rule: tuple[Any, Any], window: int) -> None:
    pack = Pack(length, algorithm=rule[0], split=rule[1], too_long="drop", window=window)
    rows = run(pack, [*documents(lengths), np.empty(0, np.int64)])
    assert all(sum(row.stops) - sum(row.starts) <= length for row in rows)
    kept = [each for each in documents(lengths) if rule[1] != "never" or each.size <= length]
    assert sorted(tokens_of(rows)) == [token for each in kept for token in each.tolist()]
    counts = pack.counts
    assert (counts.documents, counts.tokens, counts.rows) == (len(lengths) + 1, sum(lengths), len(rows))
    assert counts.packed_tokens + counts.too_long_tokens == counts.tokens


def test_pack_uses_almost_all_tokens() -> None:
    lengths = np.random.default_rng(0).lognormal(np.log(400), 1, 30_000).astype(int).tolist()
    pack = Pack(4096)
    rows = run(pack, [np.zeros(size, np.uint8) for size in lengths])
    assert pack.counts.fill > 0.985
    assert len(rows) == pack.counts.rows


def test_pack_passes_on_the_first_rows_soon() -> None:
    pack = Pack(4096)
    found = [pack.accumulate([1]) for _ in range(64 + 128)]
    assert [at for at, rows in enumerate(found) if rows] == [63, 191]


def build(algorithm: Any, pack: Pack | None = None) -> Pipeline[dict[str, Any]]:
    pack = pack or Pack(20, algorithm=algorithm, window=40)
    items = [{"tokens": each, "corpus": "ab"[each.size % 2]} for each in documents()]
    builder = PipelineBuilder().add_source(items).aggregate(pack).disaggregate().aggregate(3)
    return builder.pipe(RowWriter(20)).add_sink().build(num_threads=2)


def received(batches: list[dict[str, Any]]) -> list[Any]:
    return [{name: np.asarray(value).tolist() for name, value in batch.items()} for batch in batches]


@pytest.mark.parametrize("algorithm", ["best-fit", "first-fit", "concat", "none"])
def test_pack_resumes_exactly_at_every_cut(algorithm: Any) -> None:
    whole = Pack(20, algorithm=algorithm, window=40)
    with build(algorithm, whole).auto_stop() as pipeline:
        expected = received(list(pipeline))
    for cut in range(len(expected) + 1):
        with build(algorithm).auto_stop() as pipeline:
            first = received([pipeline.get_item() for _ in range(cut)])
            state = json.loads(json.dumps(pipeline.state_dict()))
        pack = Pack(20, algorithm=algorithm, window=40)
        resumed = build(algorithm, pack)
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            assert first + received(list(resumed)) == expected
        assert (pack.counts, pack.corpora) == (whole.counts, whole.corpora)


class Swapped:
    """An op that lets the items of each pair end in the other order."""

    def __init__(self) -> None:
        self._ended = [threading.Event() for _ in LENGTHS]

    def __call__(self, item: tuple[int, Any]) -> Any:
        number, document = item
        if not number % 2 and number + 1 < len(LENGTHS):
            assert self._ended[number + 1].wait(60)
        self._ended[number].set()
        return document

    def release(self) -> None:
        for each in self._ended:
            each.set()


@pytest.mark.parametrize("algorithm", ["best-fit", "concat"])
def test_pack_behind_items_in_another_order_has_each_token_once(algorithm: Any) -> None:
    def make(op: Swapped) -> Pipeline[PackedRow]:
        builder = PipelineBuilder().add_source(list(enumerate(documents())))
        builder.pipe(op, concurrency=2, output_order="completion")
        builder.aggregate(Pack(20, algorithm=algorithm, window=40)).disaggregate()
        return builder.add_sink().build(num_threads=2)

    for cut in range(1, 80, 7):
        swapped = Swapped()
        with make(swapped).auto_stop() as pipeline:
            first = [pipeline.get_item() for _ in range(cut)]
            state = json.loads(json.dumps(pipeline.state_dict()))
            swapped.release()
        in_order = Swapped()
        in_order.release()
        resumed = make(in_order)
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            rest = list(resumed)
        assert sorted(tokens_of(first + rest)) == list(range(sum(LENGTHS)))


def test_pack_counts_each_corpus() -> None:
    pack = Pack(10, split="never", too_long="drop")
    items = [
        {"input_ids": [1, 2, 3], "source": "web"},
        {"input_ids": list(range(12)), "source": "books"},
        {"input_ids": [], "source": "web"},
        {"input_ids": [4]},
    ]
    rows = run(Pack(10, tokens="input_ids", split="never", too_long="drop", corpus="source"), items)
    assert tokens_of(rows) == [1, 2, 3, 4]
    pack = Pack(10, tokens="input_ids", split="never", too_long="drop", corpus="source")
    run(pack, items)
    web, books = pack.corpora["web"], pack.corpora["books"]
    assert (web.documents, web.tokens, web.packed_tokens, web.empty_documents) == (2, 3, 3, 1)
    assert (books.documents, books.tokens, books.packed_tokens) == (1, 12, 0)
    assert (books.too_long_documents, books.too_long_tokens) == (1, 12)
    assert pack.counts.tokens == 16


def test_pack_takes_masks_along() -> None:
    items = [{"tokens": [1, 2, 3], "loss_mask": [0, 0, 1]}, {"tokens": [4, 5]}]
    batch = RowWriter(5)(run(Pack(5), items))
    assert batch["tokens"].tolist() == [[1, 2, 3, 4, 5]]
    assert batch["labels"].tolist() == [[-100, 3, -100, 5, -100]]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (np.zeros((2, 2), int), "the item.* must be an array of integers in one dimension"),
        ([1.5], "must be an array of integers"),
        ("text", "must be an array of integers"),
        ({"text": "a"}, r"must be the key of the tokens in each item, which has \['text'\]"),
        ({"tokens": [1, 2], "loss_mask": [1]}, "2 tokens and a mask of 1"),
        ([1] * 9, "document 1 has 9 tokens, more than the 8 of a row. Pass split='long'"),
    ],
)
def test_pack_refuses_what_are_no_tokens(item: Any, message: str) -> None:
    with pytest.raises(PipelineFailure) as caught:
        run(Pack(8, split="never"), [[1], item])
    assert re.search(message, str(caught.value.exceptions[0]))


def test_pack_has_a_name() -> None:
    assert repr(Pack(8, window=5)) == "pack(best-fit into 8, split=long, align=1, window=5)"

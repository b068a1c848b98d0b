"""`TextLoader`: rows of documents, every token accounted for, and the same rows wherever a run is cut."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.text.texts import END, documents_in, letters, needs_tokenizers, rows_of, trained, words

from spdl.dataloader import TextBatch, TextLoader, Tokenize
from spdl.io import LoadError
from spdl.source import EpochOrder, MixedOrder, PackedOrder, SequentialOrder
from spdl.testing import assert_resumes_exactly

ALGORITHMS = ("best-fit", "first-fit", "concat", "none")
tokenize = Tokenize(letters, eos_token_id=END)
alone = partial(TextLoader, tokenizer=tokenize, output="numpy", rank=0, world_size=1, num_threads=2)


class Stream:
    """An iterable that nobody can look into."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


def arrays(count: int) -> list[Any]:
    return [np.array([*letters(text), END], np.uint16) for text in words(count)]


@pytest.mark.parametrize("packing", ALGORITHMS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_text_loader_has_each_token_once(packing: Any, shuffle: bool) -> None:  # noqa: FBT001
    texts = words(700)
    loader = alone(texts, 4, length=64, packing=packing, shuffle=shuffle)
    found = documents_in(loader)
    assert {number: tokens.tolist() for number, tokens in found.items()} == {
        number: [*letters(text), END] for number, text in enumerate(texts)
    }
    counts = loader.statistics().tokens
    assert counts.tokens == counts.delivered == sum(len(text) + 1 for text in texts)
    assert (counts.documents, counts.waiting) == (700, 0)
    assert counts.rows * 64 == counts.delivered + counts.padding or packing == "none"


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
    st.sampled_from(ALGORITHMS),
    st.sampled_from(["never", "long", None]),
    st.booleans(),
    st.booleans(),
)
def test_text_loader_accounts_for_every_token(
    lengths: list[int],
    packing: Any,
    split: Any,
    drop_last: bool,  # noqa: FBT001
    known: bool,  # noqa: FBT001
) -> None:
    documents = [np.arange(1, length + 1, dtype=np.uint16) for length in lengths]
    source = documents if known else Stream(documents)
    too_long = sum(length for length in lengths if split == "never" and length > 16)
    make = partial(TextLoader, source, 2, length=16, packing=packing, split=split, too_long="drop")
    given: dict[str, Any] = {"output": "numpy", "rank": 0, "world_size": 1, "num_threads": 1}
    if sum(lengths) == too_long or (drop_last and sum(lengths) - too_long <= 32):
        # There may be no batch.
        with suppress(ValueError, LoadError):
            list(make(drop_last=drop_last, **given))
        return
    loader = make(drop_last=drop_last, **given)
    batches = list(loader)
    counts = loader.statistics().tokens
    # At the end of an epoch nothing waits.
    assert counts.tokens == counts.delivered + counts.too_long + counts.not_full == sum(lengths)
    assert (counts.too_long, counts.documents) == (too_long, len(lengths))
    assert counts.delivered == sum(int((batch.segment_ids > 0).sum()) for batch in batches)
    if not drop_last:
        assert not counts.not_full
        assert sum(map(len, documents_in(batches).values())) == counts.delivered


@pytest.mark.parametrize("packing", ALGORITHMS)
@pytest.mark.parametrize("kind", ["texts", "ids", "stream"])
def test_text_loader_resumes_at_every_cut_on_any_number_of_ranks(kind: str, packing: Any) -> None:
    # Without packing, there are as many rows as documents.
    count = 12 if packing == "none" else 30
    source: Any = {"texts": words(count), "ids": arrays(count), "stream": Stream(words(count))}[kind]
    loader = partial(TextLoader, source, length=192, packing=packing, output="numpy", num_threads=1, window=10)
    given: dict[str, Any] = {"shuffle": kind != "stream", "tokenizer": None if kind == "ids" else tokenize}

    def make(rank: int, world_size: int, batch_size: int) -> TextLoader:
        return loader(batch_size, rank=rank, world_size=world_size, **given)

    assert_resumes_exactly(make, batch=(2,), items=rows_of)


def test_text_loader_goes_on_over_epochs() -> None:
    make = partial(alone, words(40), 2, length=128, shuffle=True, window=20)
    first, second = (list(map(rows_of, loader)) for loader in [make()] * 2)
    assert first != second
    assert_resumes_exactly(make, epochs=2, items=rows_of)


@pytest.mark.parametrize("source", [words(60), arrays(60)], ids=["texts", "ids"])
def test_text_loader_counts_on_over_cuts_and_epochs(source: Any) -> None:
    make = partial(alone, source, 2, length=128, tokenizer=tokenize if isinstance(source[0], str) else None)
    whole = make()
    once = sum(map(len, arrays(60)))
    for _ in range(2):
        list(whole)
    expected = whole.statistics().tokens
    assert (expected.tokens, expected.delivered) == (2 * once, 2 * once)
    loader = make()
    iterator = iter(loader)
    next(iterator)
    waiting = loader.statistics().tokens
    assert waiting.rows == 2
    assert 0 < waiting.waiting == waiting.tokens - waiting.delivered
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["cursor"]["counts"] == waiting._asdict()
    resumed = make()
    resumed.load_state_dict(state)
    for _ in range(2):
        list(resumed)
    assert resumed.statistics().tokens == expected


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_text_loader_gives_all_ranks_equally_many_steps(drop_last: bool, known: bool) -> None:  # noqa: FBT001
    source: Any = arrays(60) if known else Stream(arrays(60))
    make = partial(alone, source, 2, length=128, tokenizer=None, drop_last=drop_last)
    everything = dict(each for batch in make() for each in rows_of(batch))
    ranks = [list(make(rank=rank, world_size=3)) for rank in range(3)]
    assert len({len(batches) for batches in ranks}) == 1
    found = [each for batches in ranks for batch in batches for each in rows_of(batch)]
    full = len(everything) // 6 * 6 if drop_last else len(everything)
    assert dict(found) == {index: row for index, row in everything.items() if index < full}
    assert len(found) - full < 3


@pytest.mark.parametrize("source", [Stream(arrays(9)), arrays(9)], ids=["stream", "ids"])
def test_text_loader_gives_a_rank_no_row_twice_with_even_batches_false(source: Any) -> None:
    make = partial(alone, source, 2, length=128, tokenizer=None, packing="none", even_batches=False)
    everything = sorted(each[0] for batch in make() for each in rows_of(batch))
    for world_size in (2, 3, 5):
        loaders = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
        ranks = [list(loader) for loader in loaders]
        assert sorted(each[0] for batches in ranks for batch in batches for each in rows_of(batch)) == everything
        assert {loader.statistics().tokens.delivered for loader in loaders} == {sum(map(len, arrays(9)))}
        # A rank without a batch in the last step cannot speak for the others.
        fewest = min(range(world_size), key=lambda rank: len(ranks[rank]))
        if len(ranks[fewest]) < max(map(len, ranks)):
            with pytest.raises(ValueError, match="fewer batches than others"):
                make(rank=(fewest + 1) % world_size, world_size=world_size).load_state_dict(
                    loaders[fewest].state_dict()
                )


@pytest.mark.parametrize("known", [False, True])
def test_text_loader_pads_rows_to_the_longest_without_packing(known: bool) -> None:  # noqa: FBT001
    ids = [each for each in arrays(40) if 0 < len(each) <= 100]
    source: Any = ids if known else Stream(ids)
    make = partial(alone, source, 3, length=100, tokenizer=None, packing="none", align=4, pad_id=7, split="never")
    loaders = [make(rank=rank, world_size=2) for rank in range(2)]
    for first, second in zip(*loaders, strict=True):
        chosen = [ids[document] for batch in (first, second) for document in batch.documents[:, 1].tolist()]
        longest = -(-max(map(len, chosen)) // 4) * 4
        assert first.tokens.shape[1] == second.tokens.shape[1] == longest
        for batch in (first, second):
            for row, document in enumerate(batch.documents[:, 1].tolist()):
                padded = np.full(longest, 7)
                padded[: len(ids[document])] = ids[document]
                assert batch.tokens[row].tolist() == padded.tolist()
                assert batch.segment_ids[row].sum() >= len(ids[document])
    counts = loaders[0].statistics().tokens
    assert counts.rows == len(ids)
    assert counts.delivered == sum(map(len, ids))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), min_size=1, max_size=40),
    st.sampled_from(ALGORITHMS),
    st.sampled_from(["never", "long"]),
    st.booleans(),
    st.sampled_from(["known", "field", "mapping"]),
)
def test_text_loader_counts_each_corpus(
    drawn: list[tuple[str, int]],
    packing: Any,
    split: Any,
    drop_last: bool,  # noqa: FBT001
    kind: str,
) -> None:
    # So much that there is a batch with `drop_last`, too.
    ordered = sorted([*drawn, *[("a", 16)] * 3])
    lengths = {name: [size for each, size in ordered if each == name] for name in dict(ordered)}
    ids = [np.full(size, 3, np.int32) for _, size in ordered]
    records = [{"tokens": each, "kind": name} for (name, _), each in zip(ordered, ids, strict=True)]
    source: Any = {"known": ids, "field": Stream(records), "mapping": records}[kind]
    corpora: Any = "kind" if kind == "field" else {name: len(sizes) for name, sizes in lengths.items()}
    make = partial(alone, source, 2, length=16, tokenizer=None, packing=packing, split=split, too_long="drop")
    loader = make(corpora=corpora, drop_last=drop_last, window=8)
    delivered = dict.fromkeys(lengths, 0)
    for batch in loader:
        for _, document, start, stop in batch.documents.tolist():
            delivered[ordered[document][0]] += stop - start
    found = loader.statistics().corpora
    for name, sizes in lengths.items():
        counts = found[name]
        assert (counts.documents, counts.tokens, counts.delivered) == (len(sizes), sum(sizes), delivered[name])
        assert counts.too_long == sum(size for size in sizes if split == "never" and size > 16)
        assert counts.tokens == counts.delivered + counts.too_long + counts.not_full
    total = loader.statistics().tokens
    for place, value in enumerate(total):
        if total._fields[place] not in ("rows", "padding"):
            assert value == sum(counts[place] for counts in found.values())


@pytest.mark.parametrize("corpora", ["kind", {"web": 30, "books": 30}])
def test_text_loader_counts_corpora_on_over_cuts_and_ranks(corpora: Any) -> None:
    texts = [{"text": text, "kind": "web" if number < 30 else "books"} for number, text in enumerate(words(60))]
    make = partial(alone, texts, batch_size=2, length=128, shuffle=True, corpora=corpora, window=16)
    whole = make()
    for _ in range(2):
        list(whole)
    loader = make(rank=1, world_size=2, batch_size=1)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 1500
    resumed = make()
    resumed.load_state_dict(state)
    for _ in range(2):
        list(resumed)
    assert resumed.statistics().corpora == whole.statistics().corpora
    assert {counts.waiting for counts in whole.statistics().corpora.values()} == {0}


def test_text_loader_yields_batches_that_are_pairs_with_more_fields() -> None:
    (batch,) = alone(["abc", "de"], 1, length=8)
    tokens, labels = batch
    assert isinstance(batch, TextBatch)
    assert tokens.tolist() == [[*letters("abc"), END, *letters("de"), END, 0]]
    assert labels.tolist() == [[*letters("bc"), END, -100, ord("e"), END, -100, -100]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 2, 0]]
    assert batch.segment_ids.tolist() == [[1, 1, 1, 1, 2, 2, 2, 0]]
    assert (batch.cu_seqlens.tolist(), batch.max_seqlen) == ([0, 4, 7, 8], 4)
    assert batch.documents.tolist() == [[0, 0, 0, 4], [0, 1, 0, 3]]
    assert batch.replace(labels=None)[1] is None


def test_text_loader_makes_tensors_that_attention_takes() -> None:
    torch = pytest.importorskip("torch")
    (batch,) = alone(["abc", "de"], 1, length=8, output="torch", labels="unshifted", device="cpu")
    assert {batch[name].dtype for name in ("tokens", "labels", "position_ids", "cu_seqlens")} == {torch.int32}
    assert batch.labels.tolist() == [[-100, *letters("bc"), END, -100, ord("e"), END, -100]]


def test_text_loader_masks_what_is_not_to_be_learnt() -> None:
    def chat(turns: list[tuple[str, str]]) -> dict[str, Any]:
        ids = [letter for _, text in turns for letter in letters(text)]
        return {"input_ids": ids, "loss_mask": [who == "assistant" for who, text in turns for _ in text]}

    turns = [("user", "Hi?"), ("assistant", "Ho!"), ("user", "Hm")]
    records = [{"turns": turns}, {"turns": [("assistant", "x")]}]
    (batch,) = alone(records, 1, length=16, tokenizer=Tokenize(chat), field="turns")
    assert batch.tokens[0, :9].tolist() == letters("Hi?Ho!Hmx")
    assert [chr(label) for label in batch.labels[0] if label != -100] == ["H", "o", "!"]


def test_text_loader_takes_ids_with_masks() -> None:
    records = [{"input_ids": [5, 6, 7], "loss_mask": [0, 0, 1]}, {"tokens": np.array([8, 9])}]
    (batch,) = TextLoader(records, 1, length=5, output="numpy", rank=0, world_size=1)
    assert batch.tokens.tolist() == [[5, 6, 7, 8, 9]]
    assert batch.labels.tolist() == [[-100, 7, -100, 9, -100]]


@given(st.lists(st.lists(st.tuples(st.integers(0, 99), st.booleans()), min_size=1, max_size=9), min_size=1, max_size=5))
def test_text_loader_masks_what_labels_of_transformers_leave_out(documents: list[list[tuple[int, bool]]]) -> None:
    records = [
        {
            "input_ids": [token for token, _ in document],
            "attention_mask": [1] * len(document),
            "labels": [token if counts else -100 for token, counts in document],
        }
        for document in documents
    ]
    loader = TextLoader(
        records, len(records), length=9, packing="none", labels="unshifted", output="numpy", rank=0, world_size=1
    )
    (batch,) = loader
    for row, record in zip(batch.labels.tolist(), records, strict=True):
        # No model predicts the first token.
        wanted = [-100, *record["labels"][1:]]
        assert row == wanted + [-100] * (len(row) - len(wanted))


def test_text_loader_takes_the_class_of_a_text_for_no_labels_of_tokens() -> None:
    records = [{"input_ids": [5, 6, 7], "labels": 3}, {"input_ids": [8, 9], "labels": np.int64(0)}]
    (batch,) = TextLoader(records, 1, length=5, output="numpy", rank=0, world_size=1)
    assert batch.labels.tolist() == [[6, 7, -100, 9, -100]]


def test_text_loader_takes_an_order_of_documents() -> None:
    class Backwards:
        fingerprint = "backwards"

        def __len__(self) -> int:
            return 3

        def take(self, epoch: int, positions: Any, /) -> Any:
            return 2 - positions

    order: EpochOrder = Backwards()
    (batch,) = alone(["a", "b", "c"], 1, length=6, order=order)
    assert batch.documents[:, 1].tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="`seed` must be left out with an `order`, which has its own, got 3"):
        alone(["a", "b", "c"], 1, length=6, order=order, seed=3)


def test_text_loader_takes_an_order_of_rows() -> None:
    documents = arrays(60)
    order = PackedOrder([len(each) for each in documents], 128, shuffle=True, seed=3)
    given = list(alone(documents, 2, length=128, tokenizer=None, order=order))
    made = list(alone(documents, 2, length=128, tokenizer=None, shuffle=True, seed=3))
    assert list(map(rows_of, given)) == list(map(rows_of, made))
    with pytest.raises(TypeError, match=r"`order` must be an `spdl\.source\.PackedOrder`"):
        alone(documents, 2, length=128, tokenizer=None, order=SequentialOrder(3))
    with pytest.raises(ValueError, match="an order of rows of 64 tokens"):
        alone(documents, 2, length=64, tokenizer=None, order=order)
    with pytest.raises(ValueError, match="`align` must be 1, as in the `order`, got 4"):
        alone(documents, 2, length=128, tokenizer=None, align=4, order=order)
    with pytest.raises(ValueError, match="an order of the 59 documents of `source`, got 'one of 60: "):
        alone(documents[1:], 2, length=128, tokenizer=None, order=order)
    others: list[dict[str, Any]] = [{"packing": "concat"}, {"split": "never"}, {"window": 8}, {"seed": 3}]
    for other in others:
        with pytest.raises(ValueError, match="must be left out with an `order`"):
            alone(documents, 2, length=128, tokenizer=None, order=order, **other)
    concat = PackedOrder([len(each) for each in documents], 128, algorithm="concat")
    assert len(alone(documents, 2, length=128, tokenizer=None, order=concat, packing="concat"))


def test_text_loader_refuses_an_order_of_other_documents() -> None:
    documents = arrays(60)
    lengths = [len(each) for each in documents]
    lengths[3] += 1
    message = f"document 3 has {len(documents[3])} tokens, and {lengths[3]} in the order"
    with pytest.raises(ValueError, match=message):
        alone(documents, 2, length=128, tokenizer=None, order=PackedOrder(lengths, 128))
    # A mix of the corpora in another order than the source has them.
    parts = [documents[:30], documents[30:]]
    swapped = MixedOrder([PackedOrder([len(each) for each in part], 128) for part in parts[::-1]])
    with pytest.raises(ValueError, match="`source` must have the documents of its parts one after the other"):
        alone(documents, 2, length=128, tokenizer=None, order=swapped)


def test_text_loader_takes_a_mix_of_rows_of_several_corpora() -> None:
    documents = arrays(90)
    parts = [documents[:30], documents[30:]]

    def mixed(**options: Any) -> MixedOrder:
        orders = [PackedOrder([len(each) for each in part], 128, seed=3) for part in parts]
        return MixedOrder(orders, weights=[0.75, 0.25], seed=3, **options)

    corpora = {"web": 30, "books": 60}
    make = partial(alone, documents, batch_size=2, length=128, tokenizer=None, corpora=corpora)
    order = mixed(num_samples=50)
    loader = make(order=order)
    rows = [row for batch in loader for row in rows_of(batch)]
    assert [index for index, _ in rows] == list(range(50))
    for number, (_, row) in zip(order.take(0, np.arange(50)).tolist(), rows, strict=True):
        part, index = order.locate(number)
        packed = order.parts[part].row(index)  # type: ignore[attr-defined]
        pieces = zip(packed.documents.tolist(), packed.starts.tolist(), packed.stops.tolist(), strict=True)
        tokens = np.concatenate([parts[part][document][start:stop] for document, start, stop in pieces])
        assert row == tokens.astype(np.int32).tobytes().rstrip(b"\0")
    statistics = loader.statistics()
    web, books = (statistics.corpora[name] for name in ("web", "books"))
    assert statistics.tokens.waiting == 0
    assert statistics.tokens.delivered == web.delivered + books.delivered
    assert 0.65 < web.delivered / statistics.tokens.delivered < 0.85
    # A document comes with its first token.
    once = make(order=mixed(repeat=False), batch_size=1)
    begun = [number for batch in once for _, number, start, _ in batch.documents.tolist() if not start]
    counts = once.statistics().corpora
    assert counts["web"].documents == sum(number < 30 for number in begun)
    assert counts["books"].documents == sum(number >= 30 for number in begun)

    def resumed(rank: int, world_size: int, batch_size: int) -> TextLoader:
        return make(batch_size=batch_size, order=mixed(num_samples=9), rank=rank, world_size=world_size)

    assert_resumes_exactly(resumed, batch=(2,), items=rows_of)
    lengths = [len(each) for each in parts[0]], [len(each) for each in parts[1]]
    others = [PackedOrder(lengths[0], 128), PackedOrder(lengths[1], 128, algorithm="concat")]
    with pytest.raises(ValueError, match="a mix of orders that pack in one way"):
        make(order=MixedOrder(others, weights=[1, 1]))


def test_text_loader_takes_the_tokens_of_a_batch_in_place_of_its_rows() -> None:
    assert alone(arrays(60), tokens_per_batch=512, length=128, tokenizer=None).batch_size == 4
    with pytest.raises(ValueError, match="`tokens_per_batch` must be a multiple of the 128 tokens"):
        alone(arrays(60), tokens_per_batch=500, length=128, tokenizer=None)
    with pytest.raises(ValueError, match="given, or `tokens_per_batch`, but not both"):
        alone(arrays(60), length=128, tokenizer=None)


def test_text_loader_has_a_length_where_the_lengths_are_known() -> None:
    loader = alone(arrays(60), 2, length=128, tokenizer=None)
    assert len(loader) == len(list(loader))
    with pytest.raises(TypeError, match="This TextLoader has no length"):
        len(alone(words(60), 2, length=128))


def test_text_loader_applies_a_function_to_batches() -> None:
    found: list[Any] = list(alone(["abc"], 1, length=8, batch_transform=lambda batch: batch.max_seqlen))
    assert found == [4]
    with pytest.raises(TypeError, match="`batch_transform` returned None"):
        list(alone(["abc"], 1, length=8, batch_transform=lambda _: None))


def test_text_loader_refuses_the_state_of_another_tokenizer_or_packing() -> None:
    loader = alone(words(60), 2, length=128)
    next(iter(loader))
    state = loader.state_dict()
    others: list[dict[str, Any]] = [
        {"tokenizer": Tokenize(letters)},
        {"packing": "concat"},
        {"length": 64},
        {"window": 20},
    ]
    for other in others:
        with pytest.raises(ValueError, match=r"another dataset|was saved with order="):
            alone(words(60), 2, **{"length": 128, **other}).load_state_dict(state)
    records = [{"text": text, "title": text[::-1]} for text in words(60)]
    loader = alone(records, 2, length=128)
    next(iter(loader))
    with pytest.raises(ValueError, match="field='title'"):
        alone(records, 2, length=128, field="title").load_state_dict(loader.state_dict())


def test_text_loader_has_a_state_of_a_few_hundred_bytes() -> None:
    loader = alone(words(700), 2, length=64, shuffle=True)
    for _, _ in zip(range(20), loader, strict=False):
        pass
    assert len(json.dumps(loader.state_dict())) < 1000


def test_text_loader_packs_what_a_bpe_tokenizer_makes() -> None:
    needs_tokenizers()
    texts = words(300)
    loader = alone(texts, 4, length=256, tokenizer=trained(), packing="concat", vocab_size=1000)
    found = documents_in(loader)
    assert {number: trained().decode(tokens.tolist()) for number, tokens in found.items()} == {
        number: text for number, text in enumerate(texts) if text
    }


def test_text_loader_says_that_an_order_goes_beyond_its_source() -> None:
    with pytest.raises(IndexError, match="`order` names the documents 0 to 4, and `source` has 2"):
        list(alone(["a", "b"], 1, length=8, order=SequentialOrder(5)))

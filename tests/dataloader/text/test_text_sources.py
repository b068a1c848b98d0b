"""What `TextLoader` reads, and what it makes of documents that cannot be read."""

import contextlib
import gzip
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dataloader.text.texts import END, documents_in, letters, rows_of, words

from spdl.dataloader import TextLoader, Tokenize
from spdl.io import LoadError
from spdl.source import (
    HuggingFaceDataset,
    JsonLines,
    MappedRecords,
    PackedOrder,
    ParquetFiles,
    StreamedJsonLines,
    TokenFiles,
)
from spdl.testing import assert_resumes_exactly

with contextlib.suppress(ImportError):
    import pyarrow.parquet  # noqa: F401 - has threads that live as long as the process.

tokenize = Tokenize(letters, eos_token_id=END)
alone = partial(TextLoader, tokenizer=tokenize, output="numpy", rank=0, world_size=1, num_threads=2)
expected = {number: [*letters(text), END] for number, text in enumerate(words(60))}


def as_lists(loader: TextLoader) -> dict[int, list[int]]:
    return {number: tokens.tolist() for number, tokens in documents_in(loader).items()}


def write_lines(path: Path, records: list[Any]) -> Path:
    content = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def as_records() -> list[dict[str, str]]:
    return [{"text": text} for text in words(60)]


def test_text_loader_reads_json_lines(tmp_path: Path) -> None:
    lines = JsonLines(write_lines(tmp_path / "a.jsonl", as_records()), cache=tmp_path)
    assert as_lists(alone(lines, 2, length=128, shuffle=True)) == expected


def test_text_loader_reads_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(as_records()), tmp_path / "a.parquet", row_group_size=7)
    assert as_lists(alone(ParquetFiles(tmp_path / "a.parquet"), 2, length=128, shuffle=True)) == expected


def test_text_loader_reads_a_dataset_of_the_hub() -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets, tokenizers")
    rows = HuggingFaceDataset(datasets.Dataset.from_list(as_records()))
    assert as_lists(alone(rows, 2, length=128, shuffle=True)) == expected
    tokenized = datasets.Dataset.from_list([{"input_ids": ids} for ids in expected.values()])
    assert as_lists(alone(HuggingFaceDataset(tokenized), 2, length=128, tokenizer=None)) == expected


def test_text_loader_streams_compressed_lines_and_resumes_in_them(tmp_path: Path) -> None:
    files = [write_lines(tmp_path / f"{part}.jsonl.gz", as_records()[part * 20 : part * 20 + 20]) for part in range(3)]
    make = partial(alone, StreamedJsonLines(files), 4, length=128, window=10)
    assert as_lists(make()) == expected
    assert_resumes_exactly(make, items=rows_of)
    loader = make()
    for _, _ in zip(range(6), loader, strict=False):
        pass
    # What was received of the first file is not read again.
    assert loader.state_dict()["cursor"]["mark"] == [20, 1, 0, 0]


def test_text_loader_reads_any_iterable_of_texts_bytes_or_ids() -> None:
    class Texts:
        def __iter__(self) -> Iterator[Any]:
            return (text.encode() if number % 2 else text for number, text in enumerate(words(60)))

    assert as_lists(alone(Texts(), 2, length=128)) == expected
    generator = alone((text for text in words(60)), 2, length=128)
    assert as_lists(generator) == expected
    with pytest.raises(RuntimeError, match="is its own iterator and was iterated before"):
        next(iter(generator))
    assert as_lists(alone(iter(expected.values()), 2, length=128, tokenizer=None)) == expected


def test_text_loader_begins_an_iterable_where_it_is_told() -> None:
    begun: list[int] = []

    class Texts:
        def __iter__(self) -> Iterator[str]:
            return self.iterate_from(0)

        def iterate_from(self, position: int) -> Iterator[str]:
            begun.append(position)
            return iter(words(60)[position:])

    make = partial(alone, Texts(), 1, length=128, window=10)
    loader = make()
    for _, _ in zip(range(8), loader, strict=False):
        pass
    state = loader.state_dict()
    whole = list(map(rows_of, make()))
    resumed = make()
    resumed.load_state_dict(state)
    assert list(map(rows_of, resumed)) == whole[8:]
    assert begun[-1] == state["cursor"]["document"] > 0


def test_text_loader_says_when_an_iterable_is_shorter_than_a_state() -> None:
    loader = alone(iter(words(60)), 1, length=128, window=10)
    for _, _ in zip(range(8), loader, strict=False):
        pass
    resumed = alone(iter(words(5)), 1, length=128, window=10)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="`source` ended after 5 documents"):
        list(resumed)


def broken(tmp_path: Path) -> tuple[list[Any], list[str]]:
    """Return sources with the same bad documents, 1 and 3, and what is said of each."""
    lines = [b'{"text": "ab"}', b'{"text": ', b'{"text": "cd"}', b'{"text": "\xff"}', b'{"text": ""}']
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(b"\n".join(lines))
    packed.write_bytes(gzip.compress(b"\n".join(lines)))
    return [JsonLines(plain, cache=tmp_path), StreamedJsonLines(packed)], ["is not JSON", "is not JSON"]


def test_text_loader_leaves_out_and_counts_what_cannot_be_read(tmp_path: Path) -> None:
    for source in broken(tmp_path)[0]:
        with pytest.raises(LoadError, match=r"2 of 5 documents that were read together could(?s:.)*not JSON"):
            list(alone(source, 1, length=8))
        loader = alone(source, 1, length=8, on_error="skip")
        (batch,) = loader
        assert batch.tokens.tolist() == [[*letters("ab"), END, *letters("cd"), END, END, 0]]
        assert [failure.index for failure in loader.failures] == [1, 3]
        assert batch.failures == tuple(loader.failures)
        assert (loader.statistics().tokens.failed_documents, loader.statistics().tokens.documents) == (2, 3)


def test_text_loader_leaves_out_what_has_no_text(caplog: pytest.LogCaptureFixture) -> None:
    records = [{"text": "ab"}, {"text": None}, {"title": "cd"}, 3, {"text": 3}]
    loader = alone(records, 1, length=4, on_error="skip")
    list(loader)
    reasons = [failure.reason for failure in loader.failures]
    assert [reason.partition(":")[0] for reason in reasons] == ["ValueError", "KeyError", "TypeError", "TypeError"]
    assert "a record with a field 'text', got 3" in reasons[2]
    # The log has no name of a document without one.
    assert "TextLoader, failure 1: sample 1 was left out: ValueError: " in caplog.text


def test_text_loader_leaves_out_a_text_for_which_the_tokenizer_raises() -> None:
    def picky(text: str) -> list[int]:
        if "b" in text:
            raise ValueError("no b please")
        return letters(text)

    make = partial(alone, ["a", "b", "c"], 1, length=2, tokenizer=picky)
    with pytest.raises(LoadError, match=r"sample 1: ValueError: no b please"):
        list(make())
    loader = make(on_error="skip")
    (batch,) = loader
    assert batch.tokens.tolist() == [letters("ac")]
    with pytest.raises(LoadError, match=r"has no batch: no row came of its documents(?s:.)*no b please"):
        list(alone(["b"], 1, length=2, tokenizer=picky, on_error="skip"))


@pytest.mark.parametrize("packing", ["best-fit", "concat"])
def test_text_loader_notes_failures_once_wherever_it_is_cut(packing: Any) -> None:
    def picky(text: str) -> list[int]:
        if len(text) % 3 == 0:
            raise ValueError("no")
        return letters(text)

    texts = [text for text in words(100) if text]
    make = partial(alone, texts, 1, length=192, tokenizer=picky, on_error="skip", window=10, packing=packing)
    whole = make()
    count = len(list(whole))
    noted = whole.state_dict()["failures"]
    assert len(noted["last"]) == sum(len(text) % 3 == 0 for text in texts)
    for cut in range(1, count):
        loader, resumed = make(), make()
        for _, _ in zip(range(cut), loader, strict=False):
            pass
        resumed.load_state_dict(loader.state_dict())
        assert len(list(resumed)) == count - cut
        assert resumed.state_dict()["failures"] == noted
        assert resumed.statistics().tokens == whole.statistics().tokens


def test_text_loader_refuses_or_drops_documents_longer_than_a_row() -> None:
    make = partial(alone, ["abc", "x" * 20, "d"], 1, length=8, split="never")
    with pytest.raises(ValueError, match="Document 1 has 21 tokens, more than the 8 of a row"):
        list(make())
    loader = make(too_long="drop")
    (batch,) = loader
    assert batch.tokens[0, :6].tolist() == [*letters("abc"), END, ord("d"), END]
    assert (loader.statistics().tokens.too_long_documents, loader.statistics().tokens.too_long) == (1, 21)


def test_text_loader_refuses_ids_beyond_the_vocabulary() -> None:
    for source, tokens in ((["ab", "a"], tokenize), ([[97, 98], [97, END]], None)):
        make = partial(alone, source, 1, length=8, vocab_size=98, tokenizer=tokens)
        with pytest.raises(LoadError, match="sample 0: ValueError: the document has the token 98"):
            list(make())
        loader = make(on_error="skip")
        (batch,) = loader
        assert batch.tokens[0, :2].tolist() == [97, END]
        assert [failure.index for failure in loader.failures] == [0]
    # Their rows are known before the tokens are read.
    arrays = [np.array([98]), np.array([97, END])]
    make = partial(alone, arrays, 1, length=8, vocab_size=98, tokenizer=None, on_error="skip")
    with pytest.raises(ValueError, match="document 0 has the token 98"):
        list(make())
    (batch,) = make(order=PackedOrder([0, 2], 8))
    assert batch.tokens[0, :2].tolist() == [97, END]


def test_text_loader_names_the_file_of_an_id_beyond_the_vocabulary(tmp_path: Path) -> None:
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, ids in zip(paths, ([5, 1, 6, 1], [5, 1, 9, 1]), strict=True):
        np.save(path, np.array(ids, np.uint16))
    files = TokenFiles(paths, end_token=1, cache=tmp_path)
    with pytest.raises(ValueError, match=r"b\.npy, document 1 has the token 9, and `vocab_size` is 9: .* 0 tokens"):
        list(alone(files, 4, length=8, vocab_size=9, tokenizer=None))


def test_text_loader_names_the_file_of_a_text_that_fails(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"text": "a"}\n{"title": "b"}\n'))
    with pytest.raises(LoadError, match=r"sample 1, '.*a\.jsonl\.gz, record 1 of all files': KeyError"):
        list(alone(StreamedJsonLines(packed), 1, length=8))


def test_text_loader_refuses_padding_among_the_ids() -> None:
    documents = [{"input_ids": [5, 6, 0], "attention_mask": [1, 1, 0]}]
    with pytest.raises(LoadError, match=r"only 1 in `attention_mask`, got .*padding"):
        list(alone(documents, 1, length=4, tokenizer=None))


def test_text_loader_takes_an_empty_document_with_an_empty_mask() -> None:
    documents = [{"input_ids": [5, 6], "loss_mask": [1, 0]}, {"input_ids": [], "loss_mask": []}]
    loader = alone(documents, 1, length=4, tokenizer=None, labels="unshifted")
    (batch,) = loader
    assert batch.tokens.tolist() == [[5, 6, 0, 0]]
    assert loader.statistics().tokens.empty_documents == 1


def test_text_loader_raises_what_an_iterable_raises() -> None:
    def texts() -> Iterator[str]:
        yield from "a" * 40
        raise OSError(5, "the disk is gone")

    with pytest.raises(OSError, match="the disk is gone") as raised:
        list(alone(texts(), 1, length=8, on_error="skip"))
    assert raised.value.__notes__ == ["spdl.dataloader was iterating over generator at document 40"]


@pytest.mark.parametrize(
    ("source", "arguments", "says"),
    [
        ("a text", {}, "`source` must be a sequence or an iterable of texts"),
        ({"a": 1}, {}, "`source` must be a sequence or an iterable of texts"),
        ([], {}, "`source` must be not empty"),
        (iter("ab"), {"shuffle": True}, "`shuffle` must be left out for an iterable"),
        (["a"], {"packing": "worst-fit"}, "must be 'best-fit', 'first-fit', 'concat' or 'none'"),
        (["a"], {"on_error": "refill"}, "'raise' or 'skip', .* With \"skip\", rows are packed from others"),
        (["a"], {"corpora": {"a": 2}}, "`corpora` must be numbers of documents that sum up to the 1 of the source"),
        (["a"], {"corpora": {"a": -1}}, r"`corpora\['a'\]` must be"),
        (["a"], {"corpora": 5}, "`corpora` must be a mapping from names"),
        (iter("a"), {"corpora": {"a": 1}}, "`corpora` must be the name of a field of records"),
        ([np.array([1])], {"corpora": "kind", "tokenizer": None}, "`corpora` must be a mapping from names"),
        (["a"], {"window": 0}, "`window` must be"),
        (["a"], {"too_long": "skip"}, "`too_long` must be"),
        (["a"], {"order": PackedOrder([3], 8)}, "`order` must be an order of documents, not of rows"),
    ],
)
def test_text_loader_refuses_mistakes_at_once(source: Any, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        alone(source, 1, length=8, **arguments)


@pytest.mark.parametrize("document", ["a", {"text": "a"}])
def test_text_loader_refuses_texts_without_a_tokenizer(document: Any) -> None:
    with pytest.raises(LoadError, match="a document must be ids if there is no `tokenizer`"):
        list(alone([document], 1, length=8, tokenizer=None))
    says = "All of them failed, so an argument may be wrong rather than the documents"
    with pytest.raises(LoadError, match=says):
        list(alone([document] * 9, 1, length=8, tokenizer=None))
    with pytest.raises(LoadError) as caught:
        list(alone([document] * 8 + [[5]], 1, length=8, tokenizer=None))
    assert says not in str(caught.value)


def test_text_loader_refuses_names_of_files_as_texts(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", [{"text": "a"}])
    with pytest.raises(ValueError, match=r"names of files would be tokenized themselves, got .*Read them by JsonLines"):
        alone([str(file)], 1, length=8)
    with pytest.raises(TypeError, match=r"`source` must be one source, .* Give all files to one source: JsonLines\("):
        alone([JsonLines(file), JsonLines(file)], 1, length=8)
    np.save(tmp_path / "a.npy", np.array([5, 6], np.uint16))
    with pytest.raises(TypeError, match="`tokenizer` must be None for token files"):
        alone(TokenFiles(tmp_path / "a.npy"), 1, length=8)
    # There is no such file, so it is a text about one.
    (batch,) = alone(["b.txt"], 1, length=8)
    assert batch.tokens.tolist() == [[*letters("b.txt"), END, 0, 0]]
    read = Tokenize(lambda path: letters(path.read_text()[10]), eos_token_id=END)
    (batch,) = alone([file], 1, length=2, tokenizer=read, field=None)
    assert batch.tokens.tolist() == [[*letters("a"), END]]


def test_text_loader_maps_records_before_it_tokenizes(tmp_path: Path) -> None:
    lines = JsonLines(write_lines(tmp_path / "a.jsonl", [{"q": "a", "a": "b"}]), cache=tmp_path)
    (batch,) = alone(MappedRecords(lines, lambda record: f"{record['q']}?{record['a']}"), 1, length=4)
    assert batch.tokens.tolist() == [[*letters("a?b"), END]]


def test_text_loader_fails_documents_that_do_not_name_their_corpus() -> None:
    records = [{"text": "ab", "kind": "web"}, {"text": "cd"}, {"text": "ef", "kind": 3}, "gh"]
    with pytest.raises(LoadError, match="the record has no field 'kind', which `corpora` names"):
        list(alone(records, 1, length=8, corpora="kind"))
    loader = alone(records, 1, length=8, corpora="kind", on_error="skip")
    list(loader)
    assert [failure.index for failure in loader.failures] == [1, 2, 3]
    assert list(loader.statistics().corpora) == ["web"]
    assert loader.statistics().corpora["web"].tokens == loader.statistics().tokens.tokens == 3


def test_text_loader_packs_token_files_of_the_same_names_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for run, lengths in enumerate([[3, 4, 5], [5, 2, 1]]):
        folder = tmp_path / str(run)
        folder.mkdir()
        np.arange(sum(lengths), dtype="<u2").tofile(folder / "a.ds")
        np.cumsum(lengths).astype("<u8").tofile(folder / "a.ds.index")
        loader = alone(TokenFiles(folder / "a.ds"), 1, length=6, tokenizer=None)
        found = documents_in(loader)
        assert [len(found[number]) for number in range(3)] == lengths
        assert loader.statistics().tokens.tokens == sum(lengths)

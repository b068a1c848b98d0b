"""Records of JSON lines files, by their positions."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.source.counting_store import CountingStore

from spdl.dataloader import DataLoader
from spdl.io import FormatError
from spdl.pipeline import PipelineBuilder
from spdl.source import EpochSampler, JsonLines
from spdl.store import LocalStore
from spdl.testing import assert_resumes_exactly

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=4,
)
RECORDS = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
BLANKS = st.text(" \t", max_size=3)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_TMP_LINES", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))


@given(
    st.lists(st.tuples(RECORDS, BLANKS, st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n"]), st.booleans()), max_size=8),
    st.sampled_from(["", "\r\n \t"]),
)
def test_the_records_are_those_of_json(lines: list[tuple[dict[str, Any], str, str, bool]], stripped: str) -> None:
    path = Path(os.environ["PYTEST_TMP_LINES"], "any.jsonl")
    texts = [f"{blank}{json.dumps(record, ensure_ascii=plain)}{end}" for record, blank, end, plain in lines]
    content = "".join(texts).rstrip(stripped) if stripped else "".join(texts)
    path.write_text(content, newline="")
    os.utime(path, ns=(1, hash(content) % 10**15))
    expected = [json.loads(line) for line in content.split("\n") if line.strip()]
    if not expected:
        with pytest.raises(ValueError, match="`files` must be files with lines in them"):
            JsonLines(path)
        return
    for records in JsonLines(path), JsonLines(path.name, store=LocalStore(path.parent)):
        assert list(records) == expected
        assert [records[position] for position in reversed(range(len(records)))] == expected[::-1]


@pytest.mark.parametrize("before", range(1, 12))
def test_json_lines_are_found_across_the_pieces_that_a_file_is_read_in(tmp_path: Path, before: int) -> None:
    """A file is read in pieces of 8 MiB: here, the first has so many bytes of the ends of lines."""
    begin, ends = b'{"n": 0', b'}\r\n \t\r\n{"n": 1}\r\n\n\n{"n": 2}\n'
    path = tmp_path / "a.jsonl"
    path.write_bytes(begin + b" " * ((1 << 23) - before - len(begin)) + ends)
    records = JsonLines(path)
    assert len(records) == 3
    assert [records[position] for position in (2, 1, 0)] == [{"n": 2}, {"n": 1}, {"n": 0}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, count in enumerate((5, 0, 8)):
        lines = [json.dumps({"part": part, "number": number, "text": "é" * number}) for number in range(count)]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_files_follow_each_other(folder: Path, tmp_path: Path) -> None:
    for records in (
        JsonLines(folder / "{0..2}.jsonl"),
        JsonLines("{0..2}.jsonl", store=CountingStore(folder), cache=tmp_path / "cache"),
    ):
        assert len(records) == 13
        assert records.block_sizes == [5, 8]
        assert [(it["part"], it["number"]) for it in records.__getitems__([12, 0, 5])] == [(2, 7), (0, 0), (2, 0)]
        assert repr(records) == "JsonLines: 13 records in 3 files"
        assert records.split(0, 2).block_sizes == [5, 8]
    assert JsonLines(folder / "{0..2}.jsonl").fingerprint() == records.fingerprint()
    copy = pickle.loads(pickle.dumps(JsonLines(folder / "0.jsonl")))  # noqa: S301 - our own.
    assert copy[4]["text"] == "éééé"


def test_a_file_is_read_once(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    store = CountingStore(folder)
    threads = [
        threading.Thread(target=JsonLines, args=("2.jsonl",), kwargs={"store": store, "cache": cache}) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.bytes_read == (folder / "2.jsonl").stat().st_size
    records = JsonLines("2.jsonl", store=store, cache=cache)
    store.requests.clear()
    assert [it["number"] for it in records.__getitems__([7, 1])] == [7, 1]
    assert len(store.requests) == 1
    assert store.bytes_read < 200
    # What was changed is read anew.
    (folder / "2.jsonl").write_text('{"a": 1}\n')
    assert list(JsonLines("2.jsonl", store=store, cache=cache)) == [{"a": 1}]
    (folder / "0.jsonl").write_text('{"a": 1}')
    assert list(JsonLines(folder / "0.jsonl")) == [{"a": 1}]


def test_resumes_within_a_file(folder: Path, tmp_path: Path) -> None:
    for store in (None, CountingStore(folder)):
        records = JsonLines("{0..2}.jsonl" if store else folder / "{0..2}.jsonl", store=store, cache=tmp_path / "c")

        def make(rank: int, world_size: int, batch_size: int, records: JsonLines = records) -> DataLoader[int, Any]:
            sampler = EpochSampler(len(records), batch_size=batch_size, rank=rank, world_size=world_size, seed=1)
            return DataLoader(
                sampler,
                batch_size=batch_size,
                aggregator=lambda batch: [
                    (it["part"], it["number"], position)
                    for it, position in zip(records.__getitems__(batch), batch, strict=True)
                ],
                output_order="input",
                num_threads=1,
            )

        if store is None:
            assert_resumes_exactly(make, world=(1, 2), batch=(2, 3), cuts=(0, 1, 2))
        assert_resumes_exactly(
            lambda records=records: (
                PipelineBuilder()
                .add_source(records)
                .pipe(lambda it: (it["part"], it["number"]))
                .add_sink(1)
                .build(num_threads=1)
            ),
        )


def test_mistakes_are_explained(folder: Path) -> None:
    bad = folder / "bad.jsonl"
    bad.write_text('{"a": 1}\n\n{"a": 1,}\n[1]\n' + "[" * 100_000 + "\n")
    records = JsonLines(bad)
    assert records[0] == {"a": 1}
    with pytest.raises(FormatError, match=r"bad\.jsonl, record 1, at byte 10, is not JSON: .*: b'{\"a\": 1,}'"):
        records[1]
    with pytest.raises(FormatError, match=r"record 2, at byte 20, is \[1\]: a record is an object"):
        records[2]
    with pytest.raises(FormatError, match=r"record 3, .* is not JSON"):
        records[3]
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    with pytest.raises(FormatError, match=r"is compressed, so no line can be found .*: unpack it"):
        JsonLines(folder / "a.jsonl.gz")
    with pytest.raises(FileNotFoundError, match="none"):
        JsonLines(folder / "none.jsonl")
    with pytest.raises(TypeError, match="`cache`"):
        JsonLines(bad, cache=3)  # type: ignore[arg-type]


def test_lines_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    mark = b"\xef\xbb\xbf"
    for content in (
        b'{"a": "\xc3\xa9"}\r\n\r\n{"a": 2}\r\n',
        mark + b'{"a": "\xc3\xa9"}\n{"a": 2}',
        mark + b'\r\n{"a": "\xc3\xa9"}\n' + mark + b'{"a": 2}\n\n',
        b'{"a": "\xc3\xa9"}\n{"a": ' + b" " * 100_000 + b"2}",
    ):
        path.write_bytes(content)
        assert list(JsonLines(path, cache=tmp_path)) == [{"a": "é"}, {"a": 2}]


def test_other_encodings_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for encoding in ("utf-16", "utf-32"):
        path.write_text('{"a": 1}\n{"a": 2}\n', encoding)
        with pytest.raises(FormatError, match=r"a\.jsonl is text in UTF-16, .*iconv"):
            JsonLines(path, cache=tmp_path)
    # Without a mark, json would take single lines for UTF-16, and others not.
    for encoding in ("utf-16-le", "utf-16-be", "latin-1"):
        path.write_text('{"a": "é"}', encoding)
        with pytest.raises(FormatError, match=r"a\.jsonl, record 0, at byte 0, is not JSON"):
            JsonLines(path, cache=tmp_path)[0]


@pytest.mark.parametrize("seed", range(6))
def test_random_files(tmp_path: Path, seed: int) -> None:
    """The oracle reads a file from front to end."""
    rng = random.Random(seed)
    for number in range(20):
        path = tmp_path / f"{number}.jsonl"
        ends = rng.choice([["\n"], ["\r\n"], ["\n", "\r\n", "\n\n", " \n\t\r\n"]])
        records = [{rng.choice(["a", "é", "\u2028", "\x85"]): "x" * rng.choice([0, 9, 70_000])} for _ in range(9)]
        lines = [json.dumps(each, ensure_ascii=rng.random() < 0.5) + rng.choice(ends) for each in records]
        path.write_bytes(rng.choice(["", "\ufeff"]).encode() + "".join(lines).rstrip(rng.choice(["", "\n"])).encode())
        source = JsonLines(path, cache=tmp_path)
        assert list(source) == records
        assert source.__getitems__([8, 0, 3]) == [records[8], records[0], records[3]]


class Nameless(CountingStore):
    """A store that tells no versions."""

    def list(self, prefix: str) -> Any:
        for entry in super().list(prefix):
            yield entry._replace(etag=None)


def test_another_object_of_the_same_size_where_nobody_tells_versions(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    store = Nameless(tmp_path)
    assert list(JsonLines("x.jsonl", store=store, cache=tmp_path / "c")) == [{"a": 1}, {"b": 2}, {"c": 3}]
    (tmp_path / "x.jsonl").write_text('{"a": 4}\n\n\n\n\n\n\n\n\n\n{"c": 5}\n')
    assert list(JsonLines("x.jsonl", store=store, cache=tmp_path / "c")) == [{"a": 4}, {"c": 5}]

"""`StreamedJsonLines`: the records of compressed files in order, from any of them on."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import FormatError
from spdl.source import StreamedJsonLines
from spdl.store import LocalStore

arrow = pytest.importorskip("pyarrow")


def zstd(content: bytes) -> bytes:
    compressed: bytes = arrow.compress(content, codec="zstd", asbytes=True)
    return compressed


METHODS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstd,
    "plain": bytes,
}


def make_records(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"text": "x" * (number % 40), "number": number} for number in range(first, first + count)]


def as_lines(records: list[dict[str, Any]]) -> bytes:
    # Some lines are blank.
    return b"".join(json.dumps(each).encode() + (b"\n" if each["number"] % 7 else b"\r\n \n") for each in records)


@pytest.mark.parametrize("method", METHODS)
def test_streamed_json_lines_reads_each_way_of_compressing(tmp_path: Path, method: str) -> None:
    records = make_records(100)
    path = tmp_path / "a"
    path.write_bytes(METHODS[method](as_lines(records)))
    found = StreamedJsonLines(path)
    assert list(found) == list(found) == records
    for position in (0, 1, 37, 99, 100, 101):
        assert list(found.iterate_from(position)) == records[position:]


def test_streamed_json_lines_reads_files_in_their_order_also_from_a_store(tmp_path: Path) -> None:
    records = make_records(100)
    for part, method in enumerate(METHODS):
        # The last line may have no end.
        content = as_lines(records[part * 20 : part * 20 + 20]).rstrip()
        (tmp_path / f"part-{part}").write_bytes(METHODS[method](content))
    names = "part-{0..4}"
    assert list(StreamedJsonLines(f"{tmp_path}/{names}")) == records
    stored = StreamedJsonLines(names, store=LocalStore(tmp_path))
    assert list(stored) == records
    assert stored.fingerprint() == StreamedJsonLines(f"{tmp_path}/{names}").fingerprint()


@given(st.data())
def test_streamed_json_lines_goes_on_at_a_mark_as_from_the_beginning(data: st.DataObject) -> None:
    # Frames end anywhere, also within lines and behind no byte.
    content = as_lines(make_records(20))
    places = st.lists(st.integers(0, len(content)), max_size=5).map(sorted)
    bounds = [0, *data.draw(places), len(content)]
    frames = [zstd(content[begin:end]) for begin, end in pairwise(bounds)]
    # What a reader has to pass over.
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    files = {"a": gzip.compress(as_lines(make_records(3, 20))), "b": b"".join([skipped, *frames]), "c": content}
    with TemporaryDirectory() as folder:
        for name, data_of_file in files.items():
            Path(folder, name).write_bytes(data_of_file)
        found = StreamedJsonLines([f"{folder}/{name}" for name in "bac"])
        records = list(found)
        assert records == [*make_records(20), *make_records(3, 20), *make_records(20)]
        reader = found._lines_from(0)
        marks = [reader.mark]
        for position, _ in enumerate(reader, 1):
            assert reader.mark.record <= position
            marks.append(reader.mark)
            assert [found._parse(line) for line in found._lines_from(position, reader.mark)] == records[position:]
        assert len(set(marks)) >= 3


@pytest.mark.parametrize("method", ["gz", "xz", "bz2", "zst"])
def test_streamed_json_lines_says_that_a_file_is_cut_short(tmp_path: Path, method: str) -> None:
    content = METHODS[method](as_lines(make_records(100)))
    path = tmp_path / "a.jsonl"
    for cut in (len(content) - 1, len(content) // 2, 9):
        path.write_bytes(content[:cut])
        with pytest.raises(FormatError, match="truncated") as caught:
            list(StreamedJsonLines(path))
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("method", ["gz", "xz", "bz2"])
def test_streamed_json_lines_reads_streams_one_after_the_other(tmp_path: Path, method: str) -> None:
    records = make_records(60)
    first, second, third = (METHODS[method](as_lines(records[begin : begin + 20])) for begin in (0, 20, 40))
    path = tmp_path / "a.jsonl"
    # xz allows zeros in fours.
    zeros = bytes(8 if method == "xz" else 0)
    path.write_bytes(first + zeros + second + third + zeros)
    assert list(StreamedJsonLines(path)) == records
    for place in range(3):
        for damaged in (b"\x01", b"\xff"):
            head = second[:place] + damaged + second[place + 1 :]
            for content in (first + head, first + head[: place + 1]):
                path.write_bytes(content)
                with pytest.raises(FormatError, match=r"damaged|truncated"):
                    list(StreamedJsonLines(path))


def test_streamed_json_lines_refuses_zeros_that_xz_does_not_allow(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.xz"
    path.write_bytes(lzma.compress(b'{"a": 1}') + bytes(3))
    with pytest.raises(FormatError, match="3 zeros follow a stream"):
        list(StreamedJsonLines(path))


def test_streamed_json_lines_takes_a_mark_of_byte_order_for_blank(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\r\n{"a": 1}\n')
    assert list(StreamedJsonLines(path)) == [{"a": 1}]


def test_streamed_json_lines_says_that_a_file_of_zstd_is_damaged(tmp_path: Path) -> None:
    content = zstd(as_lines(make_records(100)))
    path = tmp_path / "a.jsonl.zst"
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        # Without a checksum, damage may make other content.
        with suppress(FormatError):
            list(StreamedJsonLines(path))
    path.write_bytes(content + b"more")
    with pytest.raises(FormatError, match=f"no frame begins at byte {len(content)}"):
        list(StreamedJsonLines(path))


def test_streamed_json_lines_names_a_line_that_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n[2]\n'))
    with pytest.raises(FormatError, match=r"record 1 of all files, is \[2\]: a record is an object"):
        list(StreamedJsonLines(path))
    path.write_bytes(gzip.compress('{"a": 1}'.encode("utf-16")))
    with pytest.raises(FormatError, match="is text in UTF-16"):
        list(StreamedJsonLines(path))


def test_streamed_json_lines_says_that_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StreamedJsonLines(tmp_path / "none.jsonl.gz")

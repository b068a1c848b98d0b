"""An object that was written again since a source was made is an error that names it: nothing is mixed."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.store.http.scripted_server import say_part, serving

from spdl.io import FormatError
from spdl.source import JsonLines, MDSShards, ParquetFiles, TarShards, TokenFiles
from spdl.store import CachedStore, Entry, HTTPStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spdl.store import Store

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

COUNT = 64


def write_tar(path: Path, value: int) -> None:
    """Write samples whose names and lengths do not depend on the value."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for number in range(COUNT):
            member = tarfile.TarInfo(f"{number:08}.txt")
            member.size = 4
            archive.addfile(member, io.BytesIO(b"%04d" % value))


def write_lines(path: Path, value: int) -> None:
    path.write_text("".join(json.dumps({"n": value}) + "\n" for _ in range(COUNT)), encoding="utf-8")


def write_parquet(path: Path, value: int) -> None:
    pq.write_table(pa.table({"n": [value] * COUNT}), path, row_group_size=8, compression=None)


def write_mds(path: Path, value: int) -> None:
    places = [4 * (COUNT + 2) + number * 8 for number in range(COUNT + 1)]
    table = struct.pack(f"<{COUNT + 2}I", COUNT, *places)
    shard = {"format": "mds", "version": 2, "samples": COUNT, "compression": None, "column_names": ["n"]}
    shard |= {"column_encodings": ["int"], "column_sizes": [8], "raw_data": {"basename": path.name}, "zip_data": None}
    (path.parent / "index.json").write_text(json.dumps({"shards": [shard]}), encoding="utf-8")
    path.write_bytes(table + struct.pack("<q", value) * COUNT)


def write_tokens(path: Path, value: int) -> None:
    path.write_bytes(struct.pack("<H", value) * COUNT)
    path.with_suffix(".ds.index").write_bytes(struct.pack(f"<{COUNT}Q", *range(1, COUNT + 1)))


def value_of(record: Any) -> int:
    if isinstance(record, np.ndarray):
        return int(record[0])
    return int(bytes(record["txt"])) if "txt" in record else int(record["n"])


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Store, Path], Any]]] = {
    "a.tar": (write_tar, lambda store, cache: TarShards("a.tar", store=store, cache=cache)),
    "a.jsonl": (write_lines, lambda store, cache: JsonLines("a.jsonl", store=store, cache=cache)),
    "a.parquet": (write_parquet, lambda store, _: ParquetFiles("a.parquet", store=store, prefetch_bytes=0)),
    "a.mds": (write_mds, lambda store, _: MDSShards("", store=store)),
    "a.ds": (write_tokens, lambda store, _: TokenFiles("a.ds", store=store)),
}


@pytest.mark.parametrize("cached", [False, True], ids=["store", "cache"])
@pytest.mark.parametrize("name", KINDS)
def test_an_object_that_changes(tmp_path: Path, name: str, *, cached: bool) -> None:
    write, make = KINDS[name]
    path = tmp_path / "data" / name
    path.parent.mkdir()
    write(path, 1)
    store: Store = LocalStore(path.parent)
    if cached:
        store = CachedStore(store, tmp_path / "objects", 10**8)
    records = make(store, tmp_path / "cache")
    assert value_of(records[0]) == 1
    copied = pickle.dumps(records)
    before = path.stat()
    write(path, 2)  # Of the same length, and with the same index.
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    for each in (records, records, pickle.loads(copied)):  # noqa: S301 - its own.
        with pytest.raises((FormatError, OSError), match=name):
            each[COUNT - 1]
    if cached:
        store = CachedStore(LocalStore(path.parent), tmp_path / "objects", 10**8)
    assert value_of(make(store, tmp_path / "cache")[COUNT - 1]) == 2


@pytest.mark.parametrize("name", ["a.tar", "a.jsonl", "a.parquet", "a.ds"])
def test_one_that_becomes_shorter(tmp_path: Path, name: str) -> None:
    write, make = KINDS[name]
    write(tmp_path / name, 1)
    records = make(LocalStore(tmp_path), tmp_path / "cache")
    assert len(records) == COUNT
    os.truncate(tmp_path / name, 10)
    with pytest.raises(FormatError, match=rf"{name} in LocalStore\(.* has changed since this source was made, from \d"):
        records[COUNT - 1]


def test_one_that_is_gone(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 1)
    records = JsonLines("a.jsonl", store=LocalStore(tmp_path), cache=tmp_path / "cache")
    assert len(records) == COUNT
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl"):
        records[0]


def test_an_object_of_a_web_server_that_changes(tmp_path: Path) -> None:
    content = b'{"n": 1}\n' * COUNT
    etag = '"1"'

    def answer(_: str, wanted: str) -> tuple[bytes, bool]:
        return say_part(content, wanted, etag), True

    with serving(answer) as (url, _):
        store = HTTPStore(url)
        records = JsonLines("a.jsonl", store=store, cache=tmp_path)
        assert [records[position] for position in (0, 10)] == [{"n": 1}] * 2
        etag = '"2"'
        with pytest.raises(
            FormatError, match=r'a\.jsonl in HTTPStore\(.*, from 576 bytes with the etag "1" to 576 .*"2"'
        ):
            records[5]
        store.close()


class Tells(LocalStore):
    """A folder whose listings and answers tell an etag, or do not."""

    def __init__(self, root: Path, *, listed: bool, answered: bool) -> None:
        super().__init__(root)
        self.listed = listed
        self.answered = answered

    def list(self, prefix: str) -> Iterator[Entry]:
        for entry in super().list(prefix):
            yield entry if self.listed else entry._replace(etag=None)

    def read_version(self, path: str, ranges: Any = None) -> Any:
        entry, parts = super().read_version(path, ranges)
        return entry if self.answered else entry._replace(etag=None), parts

    def __reduce__(self) -> Any:
        return partial(Tells, listed=self.listed, answered=self.answered), (self.identity(),)


@pytest.mark.parametrize(("listed", "answered"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("change", ["none", "content", "size"])
def test_an_object_whose_etag_is_told_now_and_then(
    tmp_path: Path,
    listed: bool,  # noqa: FBT001 - a parameter.
    answered: bool,  # noqa: FBT001 - a parameter.
    change: str,
) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, 1)
    store = Tells(tmp_path, listed=listed, answered=answered)
    records = JsonLines("a.jsonl", store=store, cache=tmp_path / "cache")
    assert records[0] == {"n": 1}
    copy = pickle.loads(pickle.dumps(records))  # noqa: S301 - its own.
    status = path.stat()
    write_lines(path, 1 if change == "none" else 2 if change == "content" else 100)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9 * (change != "none")))
    # Of content of the same length, nothing but an etag can tell.
    if change == "size" or (change == "content" and answered):
        for each in (records, copy):
            with pytest.raises(FormatError, match=r"a\.jsonl in .* has changed since this source was made"):
                each[COUNT - 1]
    else:
        assert records[COUNT - 1] == copy[COUNT - 1] == {"n": 1 if change == "none" else 2}


def test_what_lies_behind_the_end(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", 1)
    size = (tmp_path / "a.tar").stat().st_size
    (tmp_path / "a.idx").write_text(f"v1.2 1\ntxt {size - 2} 4 00000000.txt\n")
    shards = TarShards("a.tar", index="a.idx", store=LocalStore(tmp_path))
    with pytest.raises(FormatError, match=f"has {size} bytes, but by its index a record goes up to byte {size + 2}"):
        shards[0]

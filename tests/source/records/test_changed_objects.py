"""An object that was written anew since a source was made is an error that names it: nothing is mixed."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.source.counting_store import CountingStore
from tests.store.range_server import running

from spdl.io import FormatError
from spdl.io._common.one_version import ChangedError, OneVersion, find_version
from spdl.source import JsonLines, MDSShards, ParquetFiles, TarShards
from spdl.store import CachedStore, Entry, HTTPStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
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


def value_of(record: dict[str, Any]) -> int:
    return int(bytes(record["txt"])) if "txt" in record else int(record["n"])


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Store, Path], Any]]] = {
    "a.tar": (write_tar, lambda store, cache: TarShards("a.tar", store=store, cache=cache)),
    "a.jsonl": (write_lines, lambda store, cache: JsonLines("a.jsonl", store=store, cache=cache)),
    "a.parquet": (write_parquet, lambda store, _: ParquetFiles("a.parquet", store=store, prefetch_bytes=0)),
    "a.mds": (write_mds, lambda store, _: MDSShards("", store=store)),
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


@pytest.mark.parametrize("name", ["a.tar", "a.jsonl", "a.parquet"])
def test_one_that_becomes_shorter(tmp_path: Path, name: str) -> None:
    write, make = KINDS[name]
    write(tmp_path / name, 1)
    records = make(LocalStore(tmp_path), tmp_path / "cache")
    assert len(records) == COUNT
    os.truncate(tmp_path / name, 10)
    with pytest.raises(
        ChangedError, match=rf"{name} in LocalStore\(.* has changed since this source was made, from \d"
    ):
        records[COUNT - 1]


def test_one_that_is_gone(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 1)
    records = JsonLines("a.jsonl", store=LocalStore(tmp_path), cache=tmp_path / "cache")
    assert len(records) == COUNT
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl"):
        records[0]


def test_a_web_server() -> None:
    with running() as url:
        store = HTTPStore(url)
        same = find_version(store, "1000/a")
        assert [same.read([start], [5])[0].nbytes for start in (0, 10)] == [5, 5]
        changing = OneVersion(store, "@change*2/1000/a")
        changing.read([0], [5])
        with pytest.raises(
            ChangedError, match=r'a in HTTPStore\(.*, from 1000 bytes with the etag ".*-1" to 1000 .*-2"'
        ):
            changing.read([10], [5])
        store.close()


def test_etags_that_are_told_with_content_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    store = LocalStore(tmp_path)
    (whole,) = store.list("a")
    silent = Entry("a", 3, None)
    contents = OneVersion(store, "a", silent)
    assert contents.entry == silent
    assert contents.read([0], [3]) == [b"old"]
    assert contents.entry == whole
    for same in (silent, whole):
        contents.check(same)
    for other in (Entry("a", 4, None), Entry("a", 3, "another"), Entry("a", 4, whole.etag)):
        with pytest.raises(ChangedError, match="a in LocalStore"):
            contents.check(other)
    OneVersion(store, "a", whole).check(silent)  # As a copy in another process begins.


def test_what_lies_behind_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    contents = find_version(LocalStore(tmp_path), "a")
    with pytest.raises(FormatError, match="has 3 bytes, but by its index a record goes up to byte 4"):
        contents.read([2], [2])


def test_a_store_that_tells_no_version(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    contents = OneVersion(CountingStore(tmp_path), "a")
    assert contents.read([0], [3]) == [b"old"]
    assert contents.entry is None

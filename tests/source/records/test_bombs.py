"""What an index promises, or a limit with a name, bounds what becomes of data that is compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import struct
import tarfile
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar

from spdl.io import FormatError, iter_tarfile
from spdl.source import LitDataShards, MDSShards

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = 20_000_000
SPEC = json.dumps([1, {"type": None, "context": None, "children_spec": []}])
PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress}


def shard_of(text: bytes) -> bytes:
    """Return a shard of one sample, which is one text."""
    sample = struct.pack("<I", len(text)) + text
    return struct.pack("<3I", 1, 12, 12 + len(sample)) + sample


def write_mds(folder: Path, content: bytes, method: str, size: int) -> Path:
    shard: dict[str, Any] = {"format": "mds", "version": 2, "samples": 1, "compression": method}
    shard |= {"column_names": ["s"], "column_encodings": ["str"], "column_sizes": [None]}
    shard |= {"raw_data": {"basename": "s.mds", "bytes": size}, "zip_data": {"basename": "s.mds.x"}}
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    (folder / "s.mds.x").write_bytes(PACK[method](content))
    return folder


def peak_of(call: Callable[[], object]) -> int:
    """Return how many bytes a call has in use at most, which raises FormatError."""
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", PACK)
def test_an_index_bounds_what_a_shard_becomes(tmp_path: Path, method: str) -> None:
    bomb = shard_of(bytes(LARGE))
    shards = MDSShards(write_mds(tmp_path, bomb, method, 21))
    with pytest.raises(FormatError, match=rf"it has {len(bomb)} bytes when it is decompressed, and 21 by its index"):
        shards[0]
    assert peak_of(lambda: shards[0]) < 5_000_000
    assert list(MDSShards(write_mds(tmp_path, shard_of(b"text"), method, 20))) == [{"s": "text"}]


def test_a_table_is_no_longer_than_the_limit(tmp_path: Path) -> None:
    folder = write_mds(tmp_path, shard_of(b"text"), "gz", 20)
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["samples"] = (1 << 32) - 1
    (folder / "index.json").write_text(json.dumps(index))
    for limit in (1 << 30, 1 << 40):
        shards = MDSShards(folder, max_uncompressed_bytes=limit)
        assert peak_of(lambda: shards[0]) < 50_000_000  # noqa: B023 - called at once.


def test_a_limit_bounds_what_an_index_may_promise(tmp_path: Path) -> None:
    bomb = shard_of(bytes(LARGE))
    folder = write_mds(tmp_path, bomb, "gz", len(bomb))
    with pytest.raises(FormatError, match=r"becomes 20000016 bytes .*`max_uncompressed_bytes` is 20000015"):
        MDSShards(folder, max_uncompressed_bytes=len(bomb) - 1)[0]
    assert len(MDSShards(folder, max_uncompressed_bytes=len(bomb))[0]["s"]) == LARGE


def test_chunks_have_the_limit_too(tmp_path: Path) -> None:
    config = {"compression": "zstd", "data_format": ["str"], "data_spec": SPEC}
    chunk = {"filename": "c.bin", "chunk_size": 1}
    (tmp_path / "index.json").write_text(json.dumps({"config": config, "chunks": [chunk]}))
    (tmp_path / "c.bin").write_bytes(gzip.compress(shard_of(bytes(LARGE))))
    with pytest.raises(FormatError, match=r"becomes 20000016 bytes .*`max_uncompressed_bytes` is 1000"):
        LitDataShards(tmp_path, max_uncompressed_bytes=1000)[0]
    assert len(LitDataShards(tmp_path)[0]) == LARGE


class Endless(io.RawIOBase):
    """An archive whose first member has a tebibyte, of zeros; it counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        member = tarfile.TarInfo("long")
        member.size = 1 << 40
        self._left = member.tobuf(tarfile.GNU_FORMAT)
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        piece, self._left = self._left[:size], self._left[size:]
        piece += bytes(size - len(piece))
        self.taken += size
        return piece


def test_a_member_of_a_stream_has_a_limit() -> None:
    stream = Endless()
    with pytest.raises(FormatError, match=r"a member, the first one, has more bytes than `max_member_bytes`.* 1000000"):
        next(iter_tarfile(stream, max_member_bytes=1_000_000))
    assert stream.taken < 1_000_000 + (1 << 23)


def test_a_member_of_a_compressed_archive_has_a_limit() -> None:
    archive = make_tar([("a", b"1" * 1000), ("b", b"2" * 1001), ("c", b"")])
    for src in (gzip.compress(archive), io.BytesIO(archive), io.BytesIO(bz2.compress(archive))):
        found = iter_tarfile(src, max_member_bytes=1000)
        assert next(found) == ("a", b"1" * 1000)
        with pytest.raises(FormatError, match=r"the one after 'a', has more .* `max_member_bytes`, which is 1000"):
            next(found)
    assert [len(content) for _, content in iter_tarfile(archive, max_member_bytes=0)] == [1000, 1001, 0]
    bomb = gzip.compress(make_tar([("a", bytes(LARGE))]))
    assert peak_of(lambda: next(iter_tarfile(bomb, max_member_bytes=1000))) < 20_000_000


def test_many_headers_are_no_long_member() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(6000):  # 9 MB of headers, between two members.
            folder = tarfile.TarInfo(f"{'x' * 150}{number}")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        archive.addfile(tarfile.TarInfo("last"))
    file.seek(0)
    assert list(iter_tarfile(file, max_member_bytes=0)) == [("last", b"")]


@pytest.mark.parametrize("wrong", [-1, 1.5, "1"])
def test_limits_are_numbers_of_bytes(tmp_path: Path, wrong: Any) -> None:
    for call in (
        lambda: iter_tarfile(b"", max_member_bytes=wrong),
        lambda: MDSShards(tmp_path, max_uncompressed_bytes=wrong),
        lambda: LitDataShards(write_mds(tmp_path, b"", "gz", 1), max_uncompressed_bytes=wrong),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()

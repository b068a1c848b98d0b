"""Damaged files of records and damaged indexes: an error that is documented, or right contents; nothing else.

A few are drawn here. `SPDL_TEST_SEEDS=500` draws as many of each.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.source.records.damage import change_value, damaged
from tests.source.records.drawn_files import KINDS, archive_records, line_records, plain

from spdl.io import FormatError
from spdl.source import ParquetFiles, TarShards
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SEEDS = int(os.environ.get("SPDL_TEST_SEEDS", "12"))
ERRORS = (FormatError, OSError)
"""What reading damaged files raises."""


def read_every_way(make: Callable[[], Any]) -> dict[int, dict[str, Any]]:
    """Return the records that come, by their positions, read one by one; and read batches and all of them."""
    try:
        source = make()
        count = len(source)
    except (*ERRORS, ValueError):  # There may be no record, or none that is meant.
        return {}
    assert count < 10**6
    found = {}
    for position in range(count):
        try:
            found[position] = plain(source[position])
        except ERRORS:
            continue
    for read in (lambda: source.__getitems__(range(min(count, 50))), lambda: list(source)):
        try:
            records = [plain(each) for each in read()]
        except ERRORS:
            continue
        assert all(repr(found[position]) == repr(each) for position, each in enumerate(records))
    return found


def assert_right(found: dict[int, dict[str, Any]], records: Sequence[dict[str, Any] | None]) -> None:
    """Check that what came is what is there, in its place."""
    for position, record in found.items():
        assert repr(record) == repr(records[position])


def places(rng: random.Random, folder: Path) -> tuple[str, dict[str, Any]]:
    """Return a prefix of paths and options: files, or objects of a store."""
    return ("", {"store": LocalStore(folder)}) if rng.random() < 0.5 else (f"{folder}/", {})


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", ["lines", "archives", "files"])
def test_what_is_kept_of_files(kind: str, seed: int, tmp_path: Path) -> None:
    """Indexes are made again; a manifest is not, so that it is an error unless what it says is right."""
    rng = random.Random(seed)
    folder, cache = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    cache.mkdir()
    make, records = KINDS[kind](rng, folder, 2)
    prefix, options = places(rng, folder)
    if not records:
        return
    make(prefix, cache=cache, **options)
    kept = sorted(path for path in cache.rglob("*") if path.is_file() and path.stat().st_size)
    for path in rng.sample(kept, min(1, len(kept))):
        path.write_bytes(damaged(rng, path.read_bytes()))
    found = read_every_way(lambda: make(prefix, cache=cache, **options))
    assert_right(found, records)
    if kind != "files":
        assert list(found) == [position for position, record in enumerate(records) if record is not None]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lines(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    make, _ = KINDS["lines"](rng, tmp_path, 1)
    path = tmp_path / "0.jsonl"
    path.write_bytes(damaged(rng, path.read_bytes()))
    prefix, options = places(rng, tmp_path)
    assert_right(
        read_every_way(lambda: make(prefix, cache=tmp_path / "cache", **options)), line_records(path.read_bytes())
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_archives(seed: int, tmp_path: Path) -> None:
    """Contents are those that were written, or those that tarfile finds under their names in what is there now."""
    rng = random.Random(seed)
    make, _ = KINDS["archives"](rng, tmp_path, 1)
    path = tmp_path / "0.tar"
    sound = path.read_bytes()
    path.write_bytes(now := damaged(rng, sound))
    prefix, options = places(rng, tmp_path)
    found = read_every_way(lambda: make(prefix, cache=tmp_path / "cache", **options))
    used = len(sound.rstrip(b"\0"))
    assert not (found and len(now) < used and sound.startswith(now)), "an archive without its end was read"
    written = parts_of(archive_records(sound))
    try:
        written |= parts_of(archive_records(now))
    except (tarfile.TarError, ValueError, EOFError, OSError):
        if len(now) == len(sound):  # Nobody notices other bytes in a content; they were in their place.
            return
    for name, content in parts_of(list(found.values())):
        assert any(name.lower() == each.lower() and content == data for each, data in written), name


def parts_of(records: Sequence[dict[str, Any] | None]) -> set[tuple[str, bytes]]:
    """Return the names and contents of the parts of samples."""
    return {
        (f"{record['__key__']}.{part}", content)
        for record in records
        if record
        for part, content in record.items()
        if part != "__key__"
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lists_and_indexes_of_archives(seed: int, tmp_path: Path) -> None:
    """Lists of wids and indexes of DALI are damaged: no name has the content of another."""
    rng = random.Random(seed)
    content = io.BytesIO()
    count = rng.choice([1, 5, 80])
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for number in range(count):
            member = tarfile.TarInfo(f"{number:04}.bin")
            member.size = rng.choice([0, 1, 512, 700])
            archive.addfile(member, io.BytesIO(rng.randbytes(member.size)))
    (tmp_path / "0.tar").write_bytes(content.getvalue())
    prefix, options = places(rng, tmp_path)
    if rng.random() < 0.5:
        with tarfile.open(tmp_path / "0.tar") as archive:
            lines = [f"bin {each.offset_data} {each.size} {each.name}\n" for each in archive]
        (tmp_path / "0.idx").write_bytes(damaged(rng, f"v1.2 {count}\n{''.join(lines)}".encode()))
        found = read_every_way(lambda: TarShards(prefix + "0.tar", index=prefix + "0.idx", **options))
        written = parts_of(archive_records(content.getvalue()))
        for name, data in parts_of(list(found.values())):
            assert (name, data) in written
        return
    listed = {"wids_version": 1, "shardlist": [{"url": "0.tar", "nsamples": count}]}
    change = change_value if rng.random() < 0.7 else damaged
    (tmp_path / "0.json").write_bytes(change(rng, json.dumps(listed).encode()))
    found = read_every_way(lambda: TarShards(prefix + "0.json", cache=tmp_path / "cache", **options))
    assert_right(found, archive_records(content.getvalue()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_shards(seed: int, tmp_path: Path) -> None:
    """They have no checksums, so values may change; there are no others than the index says."""
    rng = random.Random(seed)
    make, _ = KINDS["shards"](rng, tmp_path, 2)
    path = rng.choice([tmp_path / "mds" / "0.mds", index := tmp_path / "mds" / "index.json", index])
    change = change_value if path == index and rng.random() < 0.7 else damaged
    path.write_bytes(change(rng, path.read_bytes()))
    prefix, options = places(rng, tmp_path)
    for record in read_every_way(lambda: make(prefix, cache=tmp_path, **options)).values():
        assert record.keys() <= {
            name for shard in json.loads(index.read_bytes())["shards"] for name in shard["column_names"]
        }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_tables(seed: int, tmp_path: Path) -> None:
    """Where pages have checksums, what they had is what comes."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = importlib.import_module("pyarrow.parquet")
    rng = random.Random(seed)
    rows = [{"i": number, "t": f"text {number}" * (number % 5)} for number in range(rng.choice([1, 50, 500]))]
    path, checksums = tmp_path / "0.parquet", rng.random() < 0.6
    pq.write_table(
        pa.Table.from_pylist(rows),
        path,
        row_group_size=rng.choice([7, 1000]),
        compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=checksums,
    )
    sound = path.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    path.write_bytes(now := damaged(rng, sound))
    prefix, options = places(rng, tmp_path)
    found = read_every_way(lambda: ParquetFiles(prefix + "0.parquet", **options))
    if checksums and len(now) == len(sound) and now[footer:] == sound[footer:]:
        assert_right(found, rows)

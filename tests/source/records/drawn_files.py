"""Random files of records in a folder, and their records as plain readers give them: tarfile, json, pyarrow, struct."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import struct
import tarfile
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.source.packed_files import write_mds

from spdl.source import FileRecord, Files, JsonLines, MDSShards, ParquetFiles, TarShards

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["KINDS", "Drawn", "archive_records", "line_records", "plain"]

_FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
_PARTS = ("jpg", "cls", "JPG", "seg.png", "Cls.Txt", "0", "x y", "ü", "tar.gz")
_FOLDERS = ("", "", "a/", "a.b/c.d/", "./", "./a/", "deep/" * 25, "very-long-" * 12 + "/", "__meta__/", "a/__meta__/")
_LETTERS = 'ab\n\r\t"\\{}[]:,\u2028\x85\x0b\x0c\x00é漢😀 \ufeff'
_BAD_LINES = ('{"a": 1', "[1]", "3", "{'a': 1}", '{"a": 1}{"a": 1}', "null", '{"a": 1}}', '{"a": 1,}')


class Drawn(NamedTuple):
    """A source that can be opened, and what is in it.

    Attributes:
        open: Makes the source of a prefix of its paths, and options.
        records: Of all files, as `plain` gives them; None in the place of one that is bad.
    """

    open: Callable[..., Any]
    records: list[dict[str, Any] | None]


def plain(record: Any) -> dict[str, Any]:
    """Return a record whose contents can be compared, and printed."""
    if isinstance(record, FileRecord):
        record = {"path": record.path, "size": record.size, "data": record.data}
    values = {name: bytes(each) if isinstance(each, memoryview) else each for name, each in record.items()}
    return {name: each.item() if hasattr(each, "item") else each for name, each in values.items()}


def draw_text(rng: random.Random) -> str:
    """Return characters that end lines, or mean something in JSON."""
    return "".join(rng.choices(_LETTERS, k=rng.choice([0, 1, 5, 40])))


def draw_value(rng: random.Random, depth: int = 0) -> Any:
    """Return a value that JSON has."""
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind == 4:
        return [draw_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {draw_text(rng): draw_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    simple: list[Any] = [None, True, 0, -1, 2**63, -(2**70), 0.1, -1e300, 1e-320]
    return rng.choice(simple) if kind else draw_text(rng)


def draw_lines(rng: random.Random, folder: Path, count: int) -> Drawn:
    """Write JSON lines; some are bad, some blank."""
    contents = []
    for number in range(count):
        lines = []
        for _ in range(rng.choice([0, 1, 5, 90])):
            record = {draw_text(rng): draw_value(rng) for _ in range(rng.randrange(4))}
            text = json.dumps(record, ensure_ascii=rng.random() < 0.5)
            text = rng.choice(_BAD_LINES) if rng.random() < 0.005 else text
            lines.append(rng.choice(["", " "]) + ("" if rng.random() < 0.05 else text) + rng.choice(["", "\t"]))
        end = rng.choice(["\n", "\r\n"])
        text = end.join(lines) + rng.choice(["", end])
        contents.append((b"\xef\xbb\xbf" if rng.random() < 0.2 else b"") + text.encode())
        (folder / f"{number}.jsonl").write_bytes(contents[-1])
    pattern = f"{{0..{count - 1}}}.jsonl"
    return Drawn(
        lambda prefix, **options: JsonLines(prefix + pattern, **options),
        [record for content in contents for record in line_records(content)],
    )


def line_records(content: bytes) -> list[dict[str, Any] | None]:
    """Return what json reads of each line that is not blank; None if that is no object."""
    found: list[dict[str, Any] | None] = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.strip(b" \t\r"):
            try:
                record = json.loads(line.decode())
            except (ValueError, RecursionError):
                record = None
            found.append(record if isinstance(record, dict) else None)
    return found


def draw_archives(rng: random.Random, folder: Path, count: int) -> Drawn:
    """Write archives of samples and of other members; some samples have a part twice."""
    paths = [folder / f"{number}.tar" for number in range(count)]
    for path in paths:
        with tarfile.open(path, "w", format=rng.choice(_FORMATS), encoding="utf-8") as archive:
            for number in range(rng.choice([0, 1, 5, 40])):
                stem = rng.choice(["{:06}", "a{}", "ключ{}", "with space {}", "{}-+%@", "x{}" + "y" * 60])
                key = rng.choice(_FOLDERS) + stem.format(number)
                parts = rng.sample(_PARTS, rng.randrange(1, 5))
                for part in [*parts, *(parts[:1] if rng.random() < 0.01 else [])]:
                    draw_member(rng, archive, f"{key}.{part}")
    pattern = f"{{0..{count - 1}}}.tar"
    return Drawn(
        lambda prefix, **options: TarShards(prefix + pattern, **options),
        [record for path in paths for record in archive_records(path.read_bytes())],
    )


def draw_member(rng: random.Random, archive: tarfile.TarFile, name: str) -> None:
    """Add a member, and at times one before it that is no part of a sample."""
    other = tarfile.TarInfo(rng.choice(["README", ".hidden", "._1.jpg", "folder.d", "pipe.p", "link.jpg"]))
    if other.name[-2:] in (".d", ".p") or other.name == "link.jpg":
        other.type = {"d": tarfile.DIRTYPE, "p": tarfile.FIFOTYPE, "g": tarfile.SYMTYPE}[other.name[-1]]
        other.linkname = "a.jpg" if other.issym() else ""
    if rng.random() < 0.1:
        archive.addfile(other)
    content = rng.randbytes(rng.choice([0, 1, 511, 512, 513, rng.randrange(3000)]))
    member = tarfile.TarInfo(name)
    member.size = len(content)
    if archive.format == tarfile.PAX_FORMAT and rng.random() < 0.1:
        member.pax_headers = {"comment": "x" * rng.randrange(2000)}
    try:
        archive.addfile(member, io.BytesIO(content))
    except ValueError:  # A name that this format does not have.
        return


def archive_records(content: bytes) -> list[dict[str, Any] | None]:
    """Return the samples that tarfile finds; None if one has a part twice."""
    found: list[dict[str, Any] | None] = []
    last = ""
    with tarfile.open(fileobj=io.BytesIO(content), encoding="utf-8") as archive:
        for member in archive:
            head, slash, base = member.name.rpartition("/")
            stem, dot, part = base.partition(".")
            file = archive.extractfile(member) if member.isfile() and stem and dot else None
            if file is None or re.match(r"(\./)?__[^/]*__/", member.name):
                continue
            key, part = head + slash + stem, part.lower()
            if key != last:
                found.append({"__key__": key})
            record, last = found[-1], key
            if record is not None:
                found[-1] = record | {part: file.read()} if part not in record else None
    return found


def draw_tables(rng: random.Random, folder: Path, count: int) -> Drawn:
    """Write Parquet files with row groups of any size."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    records: list[dict[str, Any] | None] = []
    for number in range(count):
        rows = [
            {"i": rng.randrange(99), "t": draw_text(rng), "b": rng.randbytes(rng.randrange(300)), "l": [rng.random()]}
            for _ in range(rng.choice([1, 7, 100]))
        ]
        path = folder / f"{number}.parquet"
        size = rng.choice([1, 3, 50, 1000])
        pack = rng.choice(["none", "snappy", "zstd", "gzip"])
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=size, compression=pack)
        records += pq.read_table(path).to_pylist()
    pattern = f"{{0..{count - 1}}}.parquet"
    fetched = rng.choice([0, 1, 10_000, 1 << 27])

    def make(prefix: str, *, cache: Path, **options: Any) -> ParquetFiles:
        del cache  # There is no index to keep: the format has one.
        return ParquetFiles(prefix + pattern, prefetch_bytes=fetched, **options)

    return Drawn(make, records)


def draw_shards(rng: random.Random, folder: Path, count: int) -> Drawn:
    """Write MDS shards of columns with various encodings."""
    columns = {f"c{n}": rng.choice([("int", 8), ("str", None), ("json", None), ("str_int", None)]) for n in range(3)}
    records: list[dict[str, Any] | None] = []
    shards = []
    for _ in range(count):
        samples = []
        for _ in range(rng.choice([1, 2, 30])):
            draw: dict[str, Callable[[], Any]] = {
                "int": lambda: rng.randrange(-(2**63), 2**63),
                "str_int": lambda: rng.randrange(-(10**30), 10**30),
            }
            draw |= {"str": lambda: draw_text(rng), "json": lambda: draw_value(rng)}
            record = {name: draw[kind]() for name, (kind, _) in columns.items()}
            write: dict[str, Any] = {"int": lambda n: struct.pack("<q", n), "str": str.encode}
            write |= {"json": lambda value: json.dumps(value).encode(), "str_int": lambda n: str(n).encode()}
            cells = [(write[kind](record[name]), size) for name, (kind, size) in columns.items()]
            lengths = [struct.pack("<I", len(cell)) for cell, size in cells if size is None]
            samples.append(b"".join(lengths) + b"".join(cell for cell, _ in cells))
            records.append(record)
        shards.append(samples)
    write_mds(folder / "mds", columns, shards)

    def make(prefix: str, *, cache: Path, **options: Any) -> MDSShards:
        del cache  # There is no index to keep: the format has one.
        return MDSShards(prefix + "mds", **options)

    return Drawn(make, records)


def draw_files(rng: random.Random, folder: Path, count: int) -> Drawn:
    """Write files into folders."""
    contents = {}
    for number in range(9 * count):
        name = rng.choice(["", "a/", "a/b.c/", "ü/", ".hid/", "z z/"]) + rng.choice(["n{}.txt", ".{}.txt", "{}"])
        path = name.format(number)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        contents[path] = content = rng.randbytes(rng.choice([0, 1, 5000]))
        (folder / path).write_bytes(content)
    listed = [{"path": path, "size": len(contents[path]), "data": contents[path]} for path in sorted(contents)]

    def make(prefix: str, *, cache: Path, **options: Any) -> Files:
        return Files(prefix, manifest=cache / "manifest", **options)

    return Drawn(make, [*listed])


KINDS: dict[str, Callable[[random.Random, Path, int], Drawn]] = {
    "lines": draw_lines,
    "archives": draw_archives,
    "shards": draw_shards,
    "files": draw_files,
}
if importlib.util.find_spec("pyarrow"):
    importlib.import_module("pyarrow.parquet")  # Before the first test, which would be said to leave its threads.
    KINDS["tables"] = draw_tables

"""Random archives, read as WebDataset reads them."""

from __future__ import annotations

import io
import random
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from spdl.io import FormatError
from spdl.source import TarShards
from spdl.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

_FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)
_PIECES = ["a", "b", "0001", "é", "日本", " ", "long" * 30, "x" * 90, ".", "..", "-", "\u2028", "\x85", "A", "__m__"]
_PIECES += ["$", "{0..2}", "\udcff"]
_PARTS = ("jpg", "cls", "JPG", "seg.png", "", "json", "Cls.Txt", "__key__", "a b")
_KINDS = [tarfile.REGTYPE] * 9 + [tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CONTTYPE]


def draw_archive(rng: random.Random) -> bytes:
    """Return an archive of members with all sorts of names, types and sizes."""
    file = io.BytesIO()
    kind = rng.choice(_FORMATS)
    with tarfile.open(fileobj=file, mode="w", format=kind, errors="surrogateescape") as archive:
        for _ in range(rng.choice([0, 1, 3, 8])):
            base = "/".join(rng.choice(_PIECES) + rng.choice(["", *_PIECES]) for _ in range(rng.choice([1, 1, 2, 3])))
            for part in rng.sample(_PARTS, rng.choice([1, 1, 2, 3])):
                member = tarfile.TarInfo(f"{base}.{part}" if rng.random() < 0.9 else base)
                # Of these WebDataset makes samples whose key is the folder.
                if "/" in member.name and member.name.rpartition("/")[2].startswith("."):
                    continue
                member.type = rng.choice(_KINDS)
                member.linkname = (
                    "link" * rng.choice([1, 30]) if member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
                )
                content = rng.randbytes(rng.choice([0, 1, 511, 512, 513, 3000])) if member.isreg() else b""
                member.size = len(content)
                if kind == tarfile.PAX_FORMAT and rng.random() < 0.2:
                    member.pax_headers = {"comment": "é" * rng.choice([1, 900])}
                try:
                    archive.addfile(member, io.BytesIO(content))
                except ValueError:  # A name that this format does not have.
                    continue
    return file.getvalue()


def read(source: TarShards) -> list[dict[str, Any]]:
    return [{name: part if name == "__key__" else bytes(part) for name, part in each.items()} for each in source]


def each_way(path: Path) -> list[list[dict[str, Any]] | FormatError]:
    """Read an archive as a file and from a store, each with the error if there is one."""
    found: list[list[dict[str, Any]] | FormatError] = []
    options: list[dict[str, Any]] = [{}, {"store": LocalStore(path.parent), "cache": path.parent / "cache"}]
    for each in options:
        try:
            found.append(read(TarShards(path.name if each else path, **each)))
        except FormatError as error:
            found.append(error)
        except ValueError as error:
            found.append([] if "archives with samples in them" in str(error) else FormatError("another"))
    assert all(path.name in str(each) for each in found if isinstance(each, FormatError))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_archives(tmp_path: Path, seed: int) -> None:
    oracle = pytest.importorskip("webdataset.tariterators", reason="needs webdataset, whose reader is the oracle")
    rng = random.Random(seed)
    same = 0
    for number in range(40):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(draw_archive(rng))
        ours, stored = each_way(path)
        assert isinstance(ours, list) == isinstance(stored, list)
        try:
            with path.open("rb") as stream:
                records = list(oracle.group_by_keys(oracle.tar_file_expander([{"url": path.name, "stream": stream}])))
        except ValueError:  # A name that a sample has twice.
            assert isinstance(ours, FormatError)
            continue
        if isinstance(ours, FormatError):
            # In the top folder, WebDataset does not see these twice.
            assert "__m__" in str(ours)
            continue
        for record in records:
            record.pop("__url__")
            record.pop("__local_path__", None)
        assert ours == stored == records
        same += 1
    assert same > 15


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_seen_in_the_same_way_in_files_and_in_stores(tmp_path: Path, seed: int) -> None:
    """Files are looked through by native code, objects of stores by their headers alone."""
    rng = random.Random(seed)
    seen = set()
    for number in range(40):
        content = bytearray(draw_archive(rng))
        blocks = len(content) // 512
        way = rng.randrange(4)
        if way == 0:
            del content[rng.randrange(len(content) + 1) :]
        elif way == 1:
            for _ in range(rng.choice([1, 3, 30])):
                content[rng.randrange(len(content))] = rng.randrange(256)
        elif way == 2:
            spoil_header(content, 512 * rng.randrange(blocks - 2), rng)
        else:
            place = 512 * rng.randrange(blocks)
            content[place:place] = bytes(512) if rng.random() < 0.5 else content[place : place + 1024]
        path = tmp_path / f"{number}.tar"
        path.write_bytes(content)
        ours, stored = each_way(path)
        if isinstance(ours, list) or isinstance(stored, list):
            assert ours == stored
        seen.add(type(ours))
    assert seen == {list, FormatError}


def spoil_header(content: bytearray, place: int, rng: random.Random) -> None:
    """Change a field of a header, whose checksum stays right."""
    first, end = rng.choice([(0, 100), (124, 136), (156, 157), (257, 265), (345, 500)])
    content[place + rng.randrange(first, end)] = rng.choice([0, *b" 017LxgS", 0x80, 0xFF, rng.randrange(256)])
    content[place + 148 : place + 156] = b" " * 8
    content[place + 148 : place + 156] = b"%06o\0 " % sum(content[place : place + 512])

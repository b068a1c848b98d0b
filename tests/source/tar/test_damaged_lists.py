"""Lists and indexes of archives that name what is not there: an error that says so, and never another sample."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.io import FormatError
from spdl.source import TarShards

if TYPE_CHECKING:
    from pathlib import Path


def write_index(path: Path, old: str = "", new: str = "") -> Path:
    """Write an index as wds2idx does, of an archive whose members have names of their own, with one name changed."""
    with tarfile.open(path) as archive:
        lines = [f"bin {each.offset_data} {each.size} {each.name}\n" for each in archive]
    assert old in "".join(lines)
    index = path.with_suffix(".idx")
    text = (
        f"v1.2 {len(lines)}\n{''.join(lines)}".replace(old, new, 1) if old else f"v1.2 {len(lines)}\n{''.join(lines)}"
    )
    index.write_bytes(text.encode("utf-8", "surrogateescape"))
    return index


NAMES = ["plain.bin", "épreuve.bin", "写真.bin", "a?é.bin", f"{'ö' * 60}.bin"]


@pytest.mark.parametrize("format", ["gnu", "pax"])
@pytest.mark.parametrize("in_store", [False, True])
def test_names_of_any_alphabet(tmp_path: Path, format: str, *, in_store: bool) -> None:  # noqa: A002 - tarfile's word.
    path = tmp_path / "0.tar"
    path.write_bytes(make_tar([(name, name.encode()) for name in NAMES], format))
    write_index(path)
    options: dict[str, Any] = {"store": CountingStore(tmp_path)} if in_store else {}
    place = "0" if in_store else str(tmp_path / "0")
    found = [
        (each["__key__"], bytes(each["bin"])) for each in TarShards(f"{place}.tar", index=f"{place}.idx", **options)
    ]
    assert found == [(name[:-4], name.encode()) for name in NAMES]


@pytest.mark.parametrize("format", ["gnu", "pax"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("plain", "plaiñ"),
        ("plain", "plainñ"),
        ("plain", "plai\udcff"),
        ("épreuve", "èpreuve"),
        ("épreuve", "éépreuve"),
        ("épreuve", "éprouve"),
        ("写真", "写"),
        ("写真", "真写"),
    ],
)
def test_names_that_were_damaged(tmp_path: Path, format: str, old: str, new: str) -> None:  # noqa: A002 - tarfile's word.
    path = tmp_path / "0.tar"
    path.write_bytes(make_tar([(name, name.encode()) for name in NAMES], format))
    shards = TarShards(path, index=write_index(path, old, new))
    number = [name.startswith(old) for name in NAMES].index(True)
    with pytest.raises(FormatError, match=r"0\.tar has no member .*Make the index again"):
        shards[number]
    others = [bytes(shards[other]["bin"]) for other in range(len(NAMES)) if other != number]
    assert others == [name.encode() for name in NAMES if not name.startswith(old)]

"""Random access to tar archives."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.tars import make_tar, reseal

from spdl.io import FormatError, TarFile, iter_tarfile, load_npz, save_npz

if TYPE_CHECKING:
    from pathlib import Path

MEMBERS = [(f"{number:03}/{'n' * number}", os.urandom(37 * number)) for number in range(120)]


@pytest.fixture
def tar(tmp_path: Path) -> TarFile:
    path = tmp_path / "archive.tar"
    path.write_bytes(make_tar(MEMBERS, "pax", b"5" * 20))
    return TarFile(path)


def test_reads_any_member(tar: TarFile) -> None:
    assert len(tar) == 120
    for position in reversed(range(120)):
        assert tar.read(position) == MEMBERS[position][1]
        assert tar.read(position - 120) == MEMBERS[position][1]
        assert tar.read(MEMBERS[position][0]) == MEMBERS[position][1]
    assert tar.read(5).readonly
    assert repr(tar) == "<TarFile of 120 members>"


def test_goes_on_from_any_member(tar: TarFile, tmp_path: Path) -> None:
    everything = [(name, bytes(view)) for name, view in iter_tarfile(tmp_path / "archive.tar")]
    assert everything == MEMBERS
    assert [(name, bytes(view)) for name, view in tar] == MEMBERS
    for position in range(0, 121, 10):
        assert [(name, bytes(view)) for name, view in tar.iter_from(position)] == MEMBERS[position:]


def test_positions_and_names_that_are_not_there(tar: TarFile) -> None:
    with pytest.raises(IndexError):
        tar.read(120)
    with pytest.raises(KeyError):
        tar.read("none")
    for position in -1, 121:
        with pytest.raises(ValueError, match=f"`position` must be an int from 0 to 120, got {position}"):
            tar.iter_from(position)


def test_contents_outlive_the_object(tar: TarFile) -> None:
    view = tar.read(50)
    del tar
    assert view == MEMBERS[50][1]


def test_many_take_no_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    path.write_bytes(make_tar(MEMBERS[:3]))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    files = [TarFile(path) for _ in range(100)]
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert all(len(file) == 3 for file in files)


def test_an_index_that_lies(tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    path.write_bytes(make_tar(MEMBERS))
    os.utime(path, (1, 1))
    TarFile(path)
    beside = path.with_name("archive.tar.index")
    arrays = dict(load_npz(beside.read_bytes()))
    arrays["sizes"] = np.full(120, (1 << 64) - 1, np.uint64)
    save_npz(beside, arrays)
    with pytest.raises(FormatError, match=r"archive\.tar' has \d+ bytes, but .*'003/nnn' goes up to byte 1844"):
        TarFile(path).read(3)


@pytest.mark.parametrize("in_place", [True, False])
def test_an_archive_that_its_index_is_not_of(tmp_path: Path, *, in_place: bool) -> None:
    """Two members in the middle have changed places: sizes, time and most headers are as they were."""
    path = tmp_path / "archive.tar"
    path.write_bytes(make_tar(MEMBERS, "gnu"))
    os.utime(path, (1, 1))
    tar = TarFile(path)
    changed = [*MEMBERS[:30], MEMBERS[31], MEMBERS[30], *MEMBERS[32:]]
    path.write_bytes(make_tar(changed, "gnu"))
    os.utime(path, (1, 1))
    tar = tar if in_place else TarFile(path)
    assert tar.read(29) == MEMBERS[29][1]
    assert tar.read(32) == MEMBERS[32][1]
    for position in 30, 31:
        name = rf"archive\.tar has no member '0{position}/n+' of \d+ bytes at byte \d+"
        with pytest.raises(FormatError, match=rf"{name}, where its index .*/archive\.tar\.index says.*Delete"):
            tar.read(position)
    with pytest.raises(FormatError, match=r"has no member '030/n+'"):
        list(tar)
    path.with_name("archive.tar.index").unlink()
    assert [(name, bytes(view)) for name, view in TarFile(path)] == changed


def test_headers_that_are_not_as_most_are(tmp_path: Path) -> None:
    """The size in the header is wrong, and that of the pax header counts: nothing has changed since."""
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(9):
            member = tarfile.TarInfo(f"{number}.txt")
            member.pax_headers = {"size": "3"}
            member.size = 3
            archive.addfile(member, io.BytesIO(b"%03d" % number))
    content = bytearray(path.read_bytes())
    for number in range(9):
        # A pax header, its content, the header, the content.
        header = content[2048 * number + 1024 : 2048 * number + 1536]
        header[124:136] = b"00000000000\0"
        reseal(header)
        content[2048 * number + 1024 : 2048 * number + 1536] = header
    path.write_bytes(content)
    os.utime(path, (1, 1))
    for _ in range(2):
        assert [bytes(view) for _, view in TarFile(path)] == [b"%03d" % number for number in range(9)]


class Replacing:
    """A path that names another archive from some use of it on."""

    def __init__(self, path: Path, other: Path, after: int) -> None:
        self.path, self.other, self.after = path, other, after
        self.uses = 0

    def __fspath__(self) -> str:
        if self.uses == self.after:
            self.other.replace(self.path)
        self.uses += 1
        return str(self.path)


def test_an_archive_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    path, other = tmp_path / "archive.tar", tmp_path / "other.tar"
    found: list[list[tuple[str, bytes]]] = []
    while not other.exists():
        path.write_bytes(make_tar(MEMBERS))
        other.write_bytes(make_tar(MEMBERS[::-1]))
        os.utime(path, (1, 1))
        os.utime(other, (2, 2))
        found.append([(name, bytes(view)) for name, view in TarFile(Replacing(path, other, len(found)))])
    # Since it was first looked at, until it was mapped.
    assert len(found) > 4
    assert found == [MEMBERS[::-1]] * (len(found) - 1) + [MEMBERS]

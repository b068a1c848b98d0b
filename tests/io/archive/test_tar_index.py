"""The index of a tar archive and the file beside it."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.tars import COMPRESSIONS, CONTENTS, NAMES, make_tar

from spdl.io import FormatError, TarMember, iter_tarfile, load_npz, save_npz, tar_index

MEMBERS = [("a.txt", b"one"), ("ü/b.bin", bytes(700)), ("a.txt", b"two")]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive.tar"
    path.write_bytes(make_tar(MEMBERS))
    # Older than its index will be, however coarse the clock.
    os.utime(path, (1, 1))
    return path


@given(st.lists(st.tuples(NAMES, CONTENTS), max_size=6))
def test_says_where_the_members_lie(members: list[tuple[str, bytes]]) -> None:
    # hypothesis allows no folder per example.
    path = Path(os.environ["PYTEST_TMP_ARCHIVE"])
    data = make_tar(members)
    path.write_bytes(data)
    os.utime(path, ns=(len(data), hash(data) % 10**15))
    for index in tar_index(path), tar_index(path):
        assert [member.name for member in index] == [name for name, _ in members]
        assert [data[offset : offset + size] for _, offset, size in index] == [content for _, content in members]


@pytest.fixture(autouse=True)
def place_for_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_TMP_ARCHIVE", str(tmp_path / "any.tar"))


def test_is_a_sequence(archive: Path) -> None:
    index = tar_index(archive)
    assert len(index) == 3
    assert index[0] == TarMember("a.txt", 512, 3)
    assert index[-1] == index[2]
    assert index[1:] == [index[1], index[2]]
    assert index.find("a.txt") == 2
    assert index.find("ü/b.bin") == 1
    assert repr(index) == "<TarIndex of 3 members>"
    with pytest.raises(IndexError, match="has 3 members, got the position 3"):
        index[3]
    with pytest.raises(KeyError, match="the archive of 3 members has no regular file 'none'"):
        index.find("none")


def test_is_kept_beside_the_archive(archive: Path) -> None:
    archive.write_bytes(make_tar([*MEMBERS, *MEMBERS]))
    os.utime(archive, (1, 1))
    first = list(tar_index(archive))
    beside = archive.with_name("archive.tar.index")
    assert beside.stat().st_mode & 0o777 == 0o644
    # Would it go through the archive again, it would stop at the second header.
    content = bytearray(archive.read_bytes())
    content[1024] ^= 0xFF
    archive.write_bytes(content)
    os.utime(archive, (1, 1))
    with pytest.raises(FormatError, match="damaged"):
        list(iter_tarfile(archive))
    assert list(tar_index(archive)) == first
    assert sorted(path.name for path in archive.parent.iterdir()) == ["archive.tar", "archive.tar.index"]


@pytest.mark.parametrize("changed", [0, 3, 6])
def test_an_archive_of_the_same_size_and_time_has_an_index_of_its_own(archive: Path, changed: int) -> None:
    """As `cp -p` and rsync leave it in the place of another one."""
    members = [(f"{number}.jpg", bytes([number]) * 600) for number in range(7)]
    archive.write_bytes(make_tar(members))
    os.utime(archive, (1, 1))
    tar_index(archive)
    size = archive.stat().st_size
    members[changed] = (members[changed][0], b"x" * 700)
    archive.write_bytes(make_tar(members))
    os.utime(archive, (1, 1))
    assert archive.stat().st_size == size
    index = tar_index(archive)
    content = archive.read_bytes()
    assert [(name, content[offset : offset + size]) for name, offset, size in index] == members
    assert list(load_npz(archive.with_name("archive.tar.index"))["sizes"]) == [len(each) for _, each in members]


def test_an_index_of_the_same_tick_is_made_anew(archive: Path) -> None:
    """The archive may have been written again since, and have the size and the time that it had."""
    tar_index(archive)
    status = archive.stat()
    archive.write_bytes(make_tar([("o.txt", b"one"), *MEMBERS[1:]]))
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(archive.with_name("archive.tar.index"), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert archive.stat().st_size == status.st_size
    assert tar_index(archive)[0].name == "o.txt"
    assert tar_index(archive)[0].name == "o.txt"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_is_for_whom_the_archive_is_for(archive: Path, mode: int) -> None:
    archive.chmod(mode)
    tar_index(archive)
    assert archive.with_name("archive.tar.index").stat().st_mode & 0o777 == mode & 0o666


def test_is_made_anew_for_another_archive(archive: Path) -> None:
    tar_index(archive)
    archive.write_bytes(make_tar([("other", b"1")]))
    os.utime(archive, ns=(5, 5))
    assert [member.name for member in tar_index(archive)] == ["other"]
    assert [member.name for member in tar_index(archive)] == ["other"]


def test_a_damaged_index_is_made_anew(archive: Path) -> None:
    expected = list(tar_index(archive))
    beside = archive.with_name("archive.tar.index")
    sound = beside.read_bytes()
    for place in range(0, len(sound), 23):
        spoilt = bytearray(sound)
        spoilt[place] ^= 0xFF
        beside.write_bytes(spoilt)
        assert list(tar_index(archive)) == expected
        beside.write_bytes(sound[:place])
        assert list(tar_index(archive)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": np.arange(2, dtype=np.uint64)},
        {"version": np.array(2)},
        {"offsets": np.zeros(3)},
        {"ends": np.array(1)},
    ],
)
def test_an_index_of_another_make_is_made_anew(archive: Path, changes: dict[str, np.ndarray[Any, Any]]) -> None:
    expected = list(tar_index(archive))
    beside = archive.with_name("archive.tar.index")
    save_npz(beside, dict(load_npz(beside.read_bytes())) | changes)
    assert list(tar_index(archive)) == expected


def test_a_folder_that_cannot_be_written_to(archive: Path) -> None:
    # Permissions do not stop root.
    archive.with_name("archive.tar.index").mkdir()
    assert len(tar_index(archive)) == 3
    assert sorted(path.name for path in archive.parent.iterdir()) == ["archive.tar", "archive.tar.index"]


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compressed_archives_are_refused(archive: Path, compression: str) -> None:
    archive.write_bytes(COMPRESSIONS[compression](archive.read_bytes()))
    with pytest.raises(FormatError, match="is compressed, so no member can be found"):
        tar_index(archive)


def test_truncated_archives_are_refused(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(FormatError, match=r"^'.*/archive\.tar': .* truncated"):
        tar_index(archive)
    assert not archive.with_name("archive.tar.index").exists()


def test_names_beyond_all_measure_are_refused(archive: Path) -> None:
    """One attribute names all members: each takes half a KiB in the archive, and would take much more in the index."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT, pax_headers={"path": "n" * 100_000}) as made:
        for _ in range(100):
            made.addfile(tarfile.TarInfo("a"))
    assert len(list(iter_tarfile(archive))) == 100
    with pytest.raises(FormatError, match=r"^'.*/archive\.tar': .* names that together are longer than the archive"):
        tar_index(archive)


def test_no_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tar_index(tmp_path / "none.tar")
    with pytest.raises(TypeError, match="PathLike"):
        tar_index(0)  # type: ignore[arg-type]

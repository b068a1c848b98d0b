"""What is not a file, where one is read in any order: an error that says so. To open a pipe could wait for ever."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar
from tests.source.records.test_names_in_lists import write_litdata, write_mds, write_wids

from spdl.io import FormatError, TarFile, tar_index
from spdl.source import Files, ImageFolder, JsonLines, LitDataShards, MDSShards, ParquetFiles, TarShards, TokenFiles

if TYPE_CHECKING:
    from collections.abc import Callable


def make_pipe(path: Path) -> str:
    os.mkfifo(path)
    return "a pipe"


def make_socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # A socket's path may have a hundred bytes only.
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)
    return "a socket"


def make_device(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return "a device"


OPEN: dict[str, Callable[[Path, Path], Any]] = {
    "tar": lambda path, _: TarShards(path),
    "tars": lambda path, _: TarShards([path, path], max_failures=1),
    "TarFile": lambda path, _: TarFile(path),
    "tar_index": lambda path, _: tar_index(path),
    "wids": lambda path, folder: write_wids(folder, path.name)[0],
    "list": lambda path, folder: TarShards(path.rename(folder / "x.json")),
    "dali": lambda path, folder: TarShards(sound(folder), index=path)[0],
    "mds": lambda path, folder: write_mds(folder, path.name)[0],
    "index": lambda path, folder: MDSShards(path.rename(folder / "index.json").parent),
    "litdata": lambda path, folder: write_litdata(folder, path.name)[0],
    "litdata index": lambda path, folder: LitDataShards(path.rename(folder / "index.json").parent),
    "tokens": lambda path, folder: TokenFiles(path.rename(folder / "a.bin"), dtype="uint16"),
    "lines": lambda path, folder: JsonLines(path, cache=folder / "cache")[0],
}


def sound(folder: Path) -> Path:
    (folder / "sound.tar").write_bytes(make_tar([("1.txt", b"one")]))
    return folder / "sound.tar"


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_device])
@pytest.mark.parametrize("opened", OPEN.values(), ids=OPEN)
def test_what_is_no_file_is_refused(
    tmp_path: Path, make: Callable[[Path], str], opened: Callable[[Path, Path], Any]
) -> None:
    kind = make(tmp_path / "x")
    with pytest.raises(FormatError, match=kind):
        opened(tmp_path / "x", tmp_path)


def test_a_manifest_is_a_file(tmp_path: Path) -> None:
    make_pipe(tmp_path / "x")
    with pytest.raises(FormatError, match="a pipe"):
        Files(tmp_path, manifest=tmp_path / "x")


def test_parquet_files_are_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    make_pipe(tmp_path / "x")
    with pytest.raises((FormatError, OSError)):
        ParquetFiles(tmp_path / "x")


def test_an_index_beside_an_archive_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    archive = sound(tmp_path)
    make_pipe(tmp_path / "sound.tar.index")
    os.utime(archive, (1, 1))
    assert len(tar_index(archive)) == 1


@pytest.mark.parametrize("make", [make_pipe, make_socket])
def test_folders_list_files_alone(tmp_path: Path, make: Callable[[Path], str]) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.jpg").touch()
    (tmp_path / "cats" / "2.jpg").symlink_to("1.jpg")
    (tmp_path / "cats" / "3.jpg").symlink_to("nowhere")
    make(tmp_path / "cats" / "4.jpg")
    (tmp_path / "cats" / "5.jpg").symlink_to("4.jpg")
    assert [Path(path).name for path, _ in ImageFolder(tmp_path).samples] == ["1.jpg", "2.jpg", "3.jpg"]

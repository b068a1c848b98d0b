"""The files of a folder and what is in them, with a manifest or without."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.source.counting_store import CountingStore

from spdl.io import FormatError, save_npz
from spdl.pipeline import PipelineBuilder
from spdl.source import FileRecord, Files
from spdl.store import LocalStore, StoreError
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spdl.store import Entry

NAMES = ["b/2.txt", "a.txt", "b/1.TXT", "b-c.txt", "b/x.jpg", "ü.txt"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_the_files_are_sorted(folder: Path) -> None:
    for files in (Files(folder), Files("", store=CountingStore(folder))):
        assert len(files) == 6
        assert [record.path for record in files] == sorted(NAMES)
        assert [bytes(record.data).decode() for record in files] == sorted(NAMES)
        assert [record.index for record in files.__getitems__([3, -1])] == [3, 5]
        assert files[0] == FileRecord(b"a.txt", "a.txt", 5, files[0].etag, 0)
        assert files[0].etag
        assert len(files.block_sizes) == 6
    below = Files("b", store=LocalStore(folder), extensions=(".txt",))
    assert [record.path for record in below] == ["b/1.TXT", "b/2.txt"]
    assert repr(below) == "Files: 2 of 'b'"
    assert [record.path for record in Files(folder, extensions=".jpg")] == ["b/x.jpg"]
    copy = pickle.loads(pickle.dumps(Files(folder)))  # noqa: S301 - our own.
    assert copy[3] == Files(folder)[3]


def test_the_fingerprint_does_not_depend_on_the_place(folder: Path, tmp_path: Path) -> None:
    below = Files("data", store=LocalStore(tmp_path))
    assert below.fingerprint() == Files(folder).fingerprint()
    (folder / "a.txt").write_text("longer")
    assert below.fingerprint() != Files(folder).fingerprint()


def test_a_manifest_is_listed_once(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "cache" / "files.manifest"
    first = Files("", store=CountingStore(folder), manifest=manifest)
    store = CountingStore(folder)
    second = Files("", store=store, manifest=manifest)
    assert store.requests == []
    (folder / "new.txt").touch()
    assert [record.path for record in second] == [record.path for record in first] == sorted(NAMES)
    assert Files("", store=store, manifest=manifest, extensions=".jpg")[0].path == "b/x.jpg"
    manifest.unlink()
    assert len(Files("", store=store, manifest=manifest)) == 7
    with pytest.raises(FormatError, match=r"files\.manifest' is the manifest of '', not of 'b'\. Remove it"):
        Files("b", store=store, manifest=manifest)
    manifest.write_bytes(manifest.read_bytes()[:-30])
    with pytest.raises(FormatError, match=r"is not a manifest, or is damaged: .* Remove it to list the store again"):
        Files("", store=store, manifest=manifest)
    save_npz(manifest, {"a": np.zeros(3)})
    with pytest.raises(FormatError, match="is not a manifest"):
        Files("", store=store, manifest=manifest)


class SlowStore(LocalStore):
    """A folder whose listings are counted in a file."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        import time  # noqa: PLC0415

        with open("listed", "a") as file:  # noqa: PTH123
            file.write(".")
        time.sleep(0.3)
        return super().list(prefix)


def test_a_manifest_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "files.manifest"
    child = os.fork()
    if not child:
        try:
            # A full disk, of another name: Python ignores the signal.
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
            with pytest.raises(OSError, match=r"File too large: '.*files\.manifest'"):
                Files("", store=LocalStore(folder), manifest=manifest)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert not manifest.exists()


def list_files(folder: Path, manifest: Path) -> int:
    return len(Files("", store=SlowStore(folder), manifest=manifest))


def test_ranks_that_begin_at_once_list_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=list_files, args=(folder, tmp_path / "m.manifest")) for _ in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0, 0]
    assert (tmp_path / "listed").read_text() == "."
    for rank in ranks:
        rank.close()


def test_a_file_that_was_changed(folder: Path, tmp_path: Path) -> None:
    files = Files(folder, manifest=tmp_path / "files.manifest")
    (folder / "a.txt").write_text("longer than it was")
    with pytest.raises(StoreError, match="has 18 bytes, and had 5 when it was listed: list again"):
        files[0]
    (folder / "a.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.txt"):
        files[0]


def test_resumes_exactly(folder: Path) -> None:
    for files in (Files(folder), Files("", store=CountingStore(folder))):
        assert_resumes_exactly(
            lambda files=files: (
                PipelineBuilder().add_source(files).pipe(lambda record: record.path).add_sink(1).build(num_threads=1)
            ),
        )


def test_mistakes_are_explained(folder: Path) -> None:
    make: Any = Files
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((3,), {}, TypeError, "`root` must be a path"),
        ((folder,), {"store": 3}, TypeError, "`store` must be a store"),
        ((folder,), {"store": LocalStore(folder)}, TypeError, "`root` must be a str"),
        ((folder,), {"extensions": 3}, TypeError, "`extensions`"),
        ((folder,), {"extensions": [3]}, TypeError, "`extensions`"),
        ((folder,), {"extensions": []}, ValueError, "`extensions`"),
        ((folder,), {"extensions": ".png"}, ValueError, r"`root` must be a folder with files with the ending \.png"),
        ((folder,), {"manifest": 3}, TypeError, "`manifest`"),
        ((folder / "none",), {}, FileNotFoundError, "none"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            make(*arguments, **options)

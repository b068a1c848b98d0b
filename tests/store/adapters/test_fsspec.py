"""What fsspec needs: file systems by URL, its errors, and a new one after a fork."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.store.s3_server import fsspec_options, needs_s3, running_s3

from spdl.store import FsspecStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("fsspec")


def test_any_file_system_of_fsspec(tmp_path: Path) -> None:
    import zipfile  # noqa: PLC0415

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/side.txt", b"content")
    store = FsspecStore(f"zip://in::file://{tmp_path}/a.zip")
    assert bytes(store.get("side.txt")) == b"content"
    assert [(entry.path, entry.size) for entry in store.list("")] == [("side.txt", 7)]


def test_a_file_system_that_is_not_known() -> None:
    with pytest.raises(StoreError, match=r"FsspecStore\('nothing://a'\): Protocol not known: nothing"):
        FsspecStore("nothing://a")


def test_errors_of_file_systems_are_store_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415

    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("the disk is on fire")

    store = FsspecStore(f"file://{tmp_path}")
    monkeypatch.setattr(LocalFileSystem, "cat_file", fail)
    with pytest.raises(StoreError, match=r"x in FsspecStore\('file://.*'\): the disk is on fire"):
        store.get("x")


@pytest.fixture(scope="module")
def bucket() -> Iterator[FsspecStore]:
    with running_s3("bucket", {"a": b"content"}) as url:
        store = FsspecStore("s3://bucket", options=fsspec_options(url))
        store.get("a")  # Starts fsspec's threads and opens its connection, which it keeps as long as the process lives.
        yield store


@needs_s3
def test_a_forked_process_and_a_copy_read_anew(bucket: FsspecStore) -> None:
    assert bytes(bucket.get("a")) == b"content"
    assert bytes(pickle.loads(pickle.dumps(bucket)).get("a")) == b"content"  # noqa: S301 - our own.
    child = os.fork()
    if not child:
        signal.alarm(50)
        os._exit(0 if bytes(bucket.get("a")) == b"content" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_package_is_named_if_it_is_missing() -> None:
    program = (
        "import sys; sys.modules['fsspec'] = None\nfrom spdl.store import open_store\n"
        "try: open_store('hf://datasets/a/b')\nexcept ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "reading hf://datasets/a/b needs the package fsspec: pip install 'spdl-turbo[fsspec]'\n"

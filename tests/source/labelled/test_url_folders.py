"""Folders of classes in stores are those of this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.file_server import forget_stores
from tests.io.images import make_jpeg
from tests.source.labelled.test_image_folder import PATHS, touch
from tests.store.s3_server import needs_s3, obstore_config, running_s3

from spdl.io import load_image_batch, to_numpy
from spdl.source import ArrayFolder, AudioFolder, ImageFolder, VideoFolder
from spdl.source.imagenet import ImageNet
from spdl.source.local_directory import LocalDirectory
from spdl.store import ObstoreStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDERS: list[Any] = [ArrayFolder, AudioFolder, ImageFolder, VideoFolder]


def in_memory(names: list[str]) -> str:
    """Make files in fsspec's memory; return the URL of their folder."""
    files = pytest.importorskip("fsspec").filesystem("memory")
    root = uuid4().hex
    for name in names:
        files.pipe(f"/{root}/{name}", b"")
    return f"memory://{root}"


@settings(max_examples=60)
@given(paths=PATHS, hidden=st.booleans())
def test_the_same_as_on_this_machine(*, paths: list[str], hidden: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = touch(Path(name), *paths, "always/1.jpg")
        url = in_memory([*paths, "always/1.jpg"])
        local, remote = (ImageFolder(each, hidden=hidden, allow_empty=True) for each in (root, url))
        files = ImageFolder(f"file://{root}", hidden=hidden, allow_empty=True)
    assert files.samples == local.samples
    assert (remote.classes, remote.targets) == (local.classes, local.targets)
    below = [path.removeprefix(name) for path, _ in local.samples]
    assert [path for path, _ in remote.samples] == [url + path for path in below]
    assert remote.fingerprint() == local.fingerprint()


def test_all_kinds_of_folders() -> None:
    url = in_memory(["a/1.npy", "a/1.wav", "a/1.jpg", "a/1.mp4", "a/x.txt"])
    for kind, ending in zip(FOLDERS, ("npy", "wav", "jpg", "mp4"), strict=True):
        assert kind(f"{url}/").samples == [(f"{url}/a/1.{ending}", 0)]


def test_what_is_no_folder_is_named() -> None:
    url = in_memory(["a/1.jpg", "1.jpg"])
    with pytest.raises(FileNotFoundError, match=f"nothing at '{url}/none'"):
        ImageFolder(f"{url}/none")
    with pytest.raises(NotADirectoryError, match=f"'{url}/1.jpg' is not one"):
        ImageFolder(f"{url}/1.jpg")
    with pytest.raises(FileNotFoundError, match=f"'{url}/a' has no folder in it.*'{url}/a/cats'"):
        ImageFolder(f"{url}/a")
    with pytest.raises(StoreError, match="web servers list no folders"):
        ImageFolder("http://127.0.0.1:9?token=secret")


@pytest.mark.parametrize("make", [ImageNet, lambda root: LocalDirectory(root, "*")], ids=["ImageNet", "LocalDirectory"])
def test_paths_are_of_this_machine(make: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match=r"'s3://bucket/data'.*no URL can be: use spdl\.source"):
        make("s3://bucket/data?signature=secret")


PHOTOS = {f"train/{name}/{number}.jpg": make_jpeg(seed=number) for number, name in enumerate(["cat", "dog", "dog"])}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_s3("bucket", {**PHOTOS, "other": b""}) as url:
        # Starts obstore's threads, which live as long as the process.
        store = ObstoreStore("s3://bucket", config=obstore_config(url))
        store.get("other")
        store.close()
        yield url


@needs_s3
def test_photos_in_s3(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"ENDPOINT": server, "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
    for name, value in values.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    folder = ImageFolder("s3://bucket/train")
    assert folder.classes == ["cat", "dog"]
    assert folder.targets == [0, 1, 1]
    batch = to_numpy(load_image_batch([sample.image for sample in folder], width=32, height=32))
    forget_stores()
    assert np.array_equal(batch, to_numpy(load_image_batch(list(PHOTOS.values()), width=32, height=32)))

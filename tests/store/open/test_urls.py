"""A URL names a store, and an object in it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import load_npy
from spdl.source import ImageFolder, JsonLines, TarShards
from spdl.store import FsspecStore, HTTPStore, LocalStore, ObstoreStore, StoreError, open_store, split_url

if TYPE_CHECKING:
    from spdl.store import Store


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://bucket/a/b.tar", ("s3://bucket", "a/b.tar")),
        ("s3://bucket", ("s3://bucket", "")),
        ("S3://bucket/a%20b", ("s3://bucket", "a%20b")),
        ("hf://datasets/user/name/x", ("hf://datasets", "user/name/x")),
        ("http://a:8080/b%20c/d?e=f", ("http://a:8080?e=f", "b c/d")),
        ("file:///data/a%20b", ("file:///", "data/a b")),
        ("file://localhost/data", ("file:///", "data")),
        ("/data//x/", ("file:///", "data/x")),
        (Path("/data/x"), ("file:///", "data/x")),
        ("/", ("file:///", "")),
        ("http://a/b%2Fc/d", ("http://a/b%2F", "c/d")),
        ("http://a/x y/b%2fc?e=f", ("http://a/x%20y/b%2f?e=f", "c")),
        ("http://a/b%2F/c", ("http://a/b%2F/", "c")),
        ("http://a//b/c", ("http://a//", "b/c")),
        ("http://a/b/", ("http://a", "b")),
        ("http://a/%FF", ("http://a", "\udcff")),
        ("file:///a%FF", ("file:///", "a\udcff")),
    ],
)
def test_parts(url: Any, parts: tuple[str, str]) -> None:
    assert split_url(url) == parts


def test_paths_are_those_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_url("a/b") == ("file:///", f"{tmp_path}/a/b".strip("/"))
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "there" / "deep")
    assert split_url("link/../x")[1] == f"{tmp_path.resolve()}/there/x".strip("/")


@pytest.mark.parametrize("url", ["s3://", "s3:///a", "file://host/a", "http://a/b#c", "https://a/b?c=d#e"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="`url` must be"):
        split_url(url)


@pytest.mark.parametrize(
    "url",
    ["zip://a.tar::file:///all.zip", "simplecache::memory://x/a.tar", "zip://a.tar::simplecache::s3://bucket/x.zip"],
)
def test_chained_urls_are_stores_and_not_objects(url: str, tmp_path: Path) -> None:
    for read in (split_url, TarShards, ImageFolder, load_npy, lambda url: JsonLines(url, cache=tmp_path)):
        with pytest.raises(ValueError, match=r"`url` must be the URL of one object.*FsspecStore\('zip://::"):
            read(url)


def test_a_chained_url_is_a_store_of_fsspec(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("lines/a.jsonl", '{"n": 1}\n{"n": 2}\n')
    store = open_store(f"zip://lines::file://{tmp_path}/all.zip")
    assert list(JsonLines("a.jsonl", store=store, cache=tmp_path)) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("url", ["s3://bucket/a::b.tar", "http://a/b::c"])
def test_two_colons_in_a_name_are_part_of_it(url: str) -> None:
    root, path = split_url(url)
    assert f"{root}/{path}" == url


def test_a_url_whose_host_is_none() -> None:
    with pytest.raises(ValueError, match=r"`url` must be a URL of a host, got 'http://\.\.\./a'"):
        split_url("http://[::1/a")


def test_what_is_empty() -> None:
    for function in (split_url, open_store):
        with pytest.raises(ValueError, match="`url` must be a URL or a path, not an empty one"):
            function("")
    with pytest.raises(ValueError, match="`root` must be the path of a folder, not an empty one"):
        LocalStore("")


@pytest.mark.parametrize("url", [None, 3, b"a"])
def test_what_is_no_url(url: Any) -> None:
    for function in (split_url, open_store):
        with pytest.raises(TypeError, match="`url` must be a URL or a path"):
            function(url)


def test_open_store_refuses_a_url_that_was_in_a_path() -> None:
    with pytest.raises(ValueError, match=r"`url` must be .*s3:/a/b.*pathlib.Path takes a slash"):
        open_store(Path("s3://a/b"))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://a/b", HTTPStore),
        ("HTTP://a", HTTPStore),
        pytest.param("s3://bucket/x", ObstoreStore),
        pytest.param("gs://bucket", ObstoreStore),
        pytest.param("memory://x", FsspecStore),
    ],
)
def test_stores(url: str, kind: type[Store], monkeypatch: pytest.MonkeyPatch) -> None:
    for package, adapter in (("obstore", ObstoreStore), ("fsspec", FsspecStore)):
        if kind is adapter and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    assert type(open_store(url)) is kind


def test_folders_and_what_is_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "x").write_bytes(b"content")
    for url in (folder, str(folder), folder.as_uri()):
        store = open_store(url)
        assert isinstance(store, LocalStore)
        assert bytes(store.get("x")) == b"content"
        root, path = split_url(url)
        assert bytes(open_store(root).get(f"{path}/x")) == b"content"
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path / "missing")


@given(st.text("abs3:/?#.%&= \u00e9", max_size=25))
def test_anything(text: str) -> None:
    try:
        root, path = split_url(text)
    except (ValueError, StoreError):
        return
    assert "://" in root
    assert not path.startswith("/")


@pytest.mark.parametrize(
    ("url", "package"), [("hf://datasets/x", "huggingface_hub"), ("smb://host/x", "smbprotocol"), ("gcs://x", "gcsfs")]
)
def test_a_missing_file_system(url: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    for module in ("huggingface_hub", "smbclient", "gcsfs"):
        monkeypatch.setitem(sys.modules, module, None)
    registry = importlib.import_module("fsspec.registry")
    monkeypatch.delitem(registry._registry, url.partition(":")[0], raising=False)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"pip install 'spdl-turbo[fsspec]' {package}")):
        open_store(url)

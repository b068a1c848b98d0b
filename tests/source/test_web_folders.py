"""A folder of a web server is none that can be listed, and its page is not a file: both are said, whoever is asked."""

from __future__ import annotations

import functools
import http.server
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.images import make_jpeg
from tests.io.inside import forget_stores

from spdl.io import load_image, load_npy
from spdl.source import (
    ArrayFolder,
    AudioFolder,
    Files,
    ImageFolder,
    JsonLines,
    MDSShards,
    ParquetFiles,
    TarShards,
    VideoFolder,
)
from spdl.store import CachedStore, HTTPStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REMEDY = "web servers list no folders. Name the files by their URLs.*, or have them in an object store"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that shows a page of each folder, as nearly all do."""
    root = tmp_path_factory.mktemp("web")
    Path(root, "train", "cats").mkdir(parents=True)
    Path(root, "train", "cats", "1.jpg").write_bytes(make_jpeg(seed=1))
    Path(root, "page.html").write_text("<html>a page</html>")

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=root)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def _stores_end() -> Iterator[None]:
    yield
    forget_stores()


@pytest.mark.parametrize("end", ["", "/", "?token=secret", "/?token=secret"])
@pytest.mark.parametrize("kind", [Files, ArrayFolder, AudioFolder, ImageFolder, VideoFolder])
def test_what_lists_a_folder_says_that_a_web_server_cannot(kind: Callable[[str], Any], end: str, url: str) -> None:
    with pytest.raises(StoreError, match=REMEDY) as found:
        kind(f"{url}/train{end}")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("path", ["", "train", "train/"])
@pytest.mark.parametrize("cached", [False, True])
def test_what_lists_a_store_says_so_too(path: str, cached: bool, url: str, tmp_path: Path) -> None:  # noqa: FBT001
    inner = HTTPStore(url)
    store = CachedStore(inner, tmp_path, 10**6) if cached else inner
    with pytest.raises(StoreError, match=REMEDY):
        Files(path, store=store)
    with pytest.raises(StoreError, match=REMEDY):
        list(store.list(path))
    inner.close()


@pytest.mark.parametrize("read", [load_image, load_npy, JsonLines, TarShards, ParquetFiles])
def test_what_reads_a_file_takes_no_folder_for_one(read: Callable[[str], Any], url: str) -> None:
    with pytest.raises(ValueError, match=r"/train is the URL of a folder: name an object|/train/ is the URL of a f"):
        read(f"{url}/train/?token=secret")
    with pytest.raises(
        (OSError, RuntimeError), match=f"train in HTTPStore.*: it is a folder, for which the server sends a.*{REMEDY}"
    ):
        list(read(f"{url}/train"))


def test_a_folder_with_an_index_may_end_with_a_slash(url: str) -> None:
    for end in ("", "/"):
        with pytest.raises(FileNotFoundError, match=r"train/index\.json"):
            MDSShards(f"{url}/train{end}")


def test_http_store_reads_pages_and_files(url: str) -> None:
    store = HTTPStore(url)
    assert bytes(store.get("page.html")) == b"<html>a page</html>"
    assert bytes(store.get("train/cats/1.jpg")) == make_jpeg(seed=1)
    for read in (store.get, store.size, lambda path: store.get_ranges(path, [0], [3])):
        with pytest.raises(StoreError, match="it is a folder"):
            read("train")
    store.close()

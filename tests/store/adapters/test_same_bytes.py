"""Every store gives the same bytes, sizes, lists and errors for the same objects."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.store.azure_server import azure_config, needs_azure, running_azure
from tests.store.s3_server import fsspec_options, needs_s3, obstore_config, running_s3

from spdl.store import FsspecStore, HTTPStore, LocalStore, ObstoreStore, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OBJECTS = {
    "a/b.bin": bytes(i * i % 251 for i in range(100_000)),
    "a/empty": b"",
    "a/c d/\u00e9%+.txt": b"text",
    "a/large": bytes(range(256)) * (9 << 12),
    "ab": b"another",
    "z": b"last",
}

needs_fsspec = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec")


@contextlib.contextmanager
def local(folder: Path) -> Iterator[Store]:
    yield LocalStore(folder)


@contextlib.contextmanager
def web(folder: Path) -> Iterator[Store]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None: ...

    handler: Any = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.server_port}")
        yield store
        store.close()
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def fsspec_local(folder: Path) -> Iterator[Store]:
    yield FsspecStore(f"file://{folder}")


def in_bucket() -> dict[str, bytes]:
    """Return the objects of a bucket, among them marks of folders: consoles make such, and they are no objects."""
    return {
        **{f"pre/{path}": content for path, content in OBJECTS.items()},
        "pre/": b"",
        "pre/a/": b"",
        "pre/new/": b"",
    }


@contextlib.contextmanager
def obstore_s3(folder: Path) -> Iterator[Store]:
    with running_s3("bucket", in_bucket()) as url:
        store = ObstoreStore("s3://bucket/pre", config=obstore_config(url), timeout=30)
        yield store
        store.close()


@contextlib.contextmanager
def obstore_azure(folder: Path) -> Iterator[Store]:
    with running_azure("box", {f"pre/{path}": content for path, content in OBJECTS.items()}) as url:
        store = ObstoreStore("az://box/pre", config=azure_config(url), timeout=30)
        yield store
        store.close()


@contextlib.contextmanager
def fsspec_s3(folder: Path) -> Iterator[Store]:
    with running_s3("bucket", in_bucket()) as url:
        yield FsspecStore("s3://bucket/pre", options=fsspec_options(url))


STORES = [
    local,
    web,
    pytest.param(fsspec_local, marks=needs_fsspec),
    pytest.param(obstore_s3, marks=needs_s3),
    pytest.param(obstore_azure, marks=needs_azure),
    pytest.param(fsspec_s3, marks=needs_s3),
]


@pytest.fixture(scope="module", params=STORES, ids=lambda each: str(each.__name__))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    make: Callable[[Path], contextlib.AbstractContextManager[Store]] = request.param
    folder = tmp_path_factory.mktemp("objects")
    for path, content in OBJECTS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    with make(folder) as store:
        # What lives as long as the process, such as threads of a package, is there before the first test.
        list(store.list("ab"))
        store.get("z")
        yield store


def test_whole_objects(store: Store) -> None:
    assert isinstance(store, Store)
    for path, content in OBJECTS.items():
        found = memoryview(store.get(path))
        assert bytes(found) == content
        assert found.readonly
        assert store.size(path) == len(content)


def test_ranges(store: Store) -> None:
    content = OBJECTS["a/b.bin"]
    starts, lengths = [99_990, 0, 5, 5, 50_000], [10, 4, 0, 20_000, 1]
    parts = store.get_ranges("a/b.bin", starts, lengths)
    assert [bytes(part) for part in parts] == [content[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    assert all(memoryview(part).readonly for part in parts)
    large = OBJECTS["a/large"]
    if not isinstance(store, HTTPStore):  # Python's own server sends no parts.
        first, last = store.get_ranges("a/large", [0, len(large) - 5], [len(large) - 1, 5])
        assert (bytes(first), bytes(last)) == (large[:-1], large[-5:])


def test_listing(store: Store) -> None:
    if isinstance(store, HTTPStore):
        assert [(entry.path, entry.size) for entry in store.list("a/c d/\u00e9%+.txt")] == [("a/c d/\u00e9%+.txt", 4)]
        return
    sizes = {path: len(content) for path, content in OBJECTS.items()}
    for prefix in ("", "a", "a/", "a/c d", "ab", "a/b.bin", "nothing"):
        below = {p: n for p, n in sizes.items() if not prefix or p == prefix or p.startswith(prefix.rstrip("/") + "/")}
        entries = list(store.list(prefix))
        assert [(entry.path, entry.size) for entry in entries] == sorted(below.items())
        assert all(entry.etag for entry in entries)
        assert list(store.list(prefix)) == entries


@pytest.mark.parametrize("path", ["missing", "a", "a/c", "z/below"])
def test_what_is_missing(store: Store, path: str) -> None:
    if isinstance(store, HTTPStore) and path in ("a", "a/c"):
        return  # Python's own server makes a page of a folder.
    for call in (store.get, store.size, lambda path: store.get_ranges(path, [0], [1])):
        with pytest.raises(FileNotFoundError, match="No such object in"):
            call(path)


def test_ranges_beyond_the_end(store: Store) -> None:
    for starts, lengths in (([0, 6], [1, 5]), ([100], [1])):
        with pytest.raises(StoreError, match=r"ab in .*: it has 7 bytes, but bytes \d+ to \d+ were asked for"):
            store.get_ranges("ab", starts, lengths)


@pytest.mark.parametrize("path", ["", "/ab", "../ab", "a//b", "a/"])
def test_paths_stay_below(store: Store, path: str) -> None:
    with pytest.raises(ValueError, match="`path` must be the path of an object below the store"):
        store.get(path)

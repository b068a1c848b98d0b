"""What was kept of one place is given for no other, though all that is seen of an object may be the same."""

from __future__ import annotations

import contextlib
import http.server
import io
import os
import tarfile
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from spdl.source import JsonLines, TarShards
from spdl.store import CachedStore, HTTPStore, LocalStore, ObstoreStore, open_store, split_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


@contextlib.contextmanager
def serving(answers: Mapping[str, bytes]) -> Iterator[str]:
    """Serve answers by what is asked for, as it stands in the request. All have one etag."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            content = answers.get(self.path)
            if content is None:
                self.send_error(404)
                return
            begin, end = 0, len(content)
            if "Range" in self.headers:
                first, last = self.headers["Range"].removeprefix("bytes=").split("-")
                begin, end = int(first), min(end, int(last) + 1)
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(end - begin))
            self.send_header("ETag", '"the same"')
            if "Range" in self.headers:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content[begin:end])

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def tar(names: Iterable[str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(f"{name}.txt")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return file.getvalue()


def test_versions_that_a_query_names(tmp_path: Path) -> None:
    with serving({"/d/a?versionId=1": b"first", "/d/a?versionId=2": b"other"}) as url:
        for version, content in ((1, b"first"), (2, b"other"), (1, b"first")):
            store = HTTPStore(f"{url}/d?versionId={version}")
            with contextlib.closing(store):
                assert bytes(CachedStore(store, tmp_path, 10**6).get("a")) == content


def test_servers(tmp_path: Path) -> None:
    with serving({"/a": b"first"}) as one, serving({"/a": b"other"}) as another:
        for url, content in ((one, b"first"), (another, b"other")):
            with contextlib.closing(HTTPStore(url)) as store:
                assert bytes(CachedStore(store, tmp_path, 10**6).get("a")) == content


def test_a_signature_is_renewed(tmp_path: Path) -> None:
    signed = "v=1&X-Amz-Date={0}&X-Amz-Expires=60&X-Amz-Signature={0}"
    with serving({f"/a?{signed.format(day)}": b"first" for day in range(3)}) as url:
        for day in range(3):
            with contextlib.closing(HTTPStore(f"{url}?{signed.format(day)}")) as store:
                cached = CachedStore(store, tmp_path, 10**6)
                assert bytes(cached.get("a")) == b"first"
                assert cached.statistics().misses == (day == 0)


@pytest.mark.parametrize("kind", [JsonLines, TarShards])
def test_indexes(kind: Any, tmp_path: Path) -> None:
    contents = []
    for names in (("aa", "b"), ("a", "bb")):
        if kind is JsonLines:
            contents.append("".join(f'{{"name": "{name}"}}\n' for name in names).encode())
        else:
            contents.append(tar(names))
    assert len(contents[0]) == len(contents[1])
    with serving({f"/x?of={number}": content for number, content in enumerate(contents)}) as url:
        found = []
        for number in range(2):
            with contextlib.closing(HTTPStore(f"{url}?of={number}")) as store:
                source = kind("x", store=store, cache=tmp_path / "cache")
                found.append([record.get("name") or bytes(record["txt"]).decode() for record in source])
    assert found == [["aa", "b"], ["a", "bb"]]


def test_endpoints_of_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)

    def identity(url: str, **config: str) -> str:
        return ObstoreStore(url, config={"skip_signature": True, "region": "a", **config}).identity()

    plain = identity("s3://bucket/x")
    assert identity("s3://bucket/x", token="t") == plain, "a secret is renewed"  # noqa: S106
    assert identity("s3://bucket/x", region="b") == plain
    assert identity("s3://bucket/y") != plain
    assert identity("s3://bucket/x", endpoint="http://host:1") not in (
        plain,
        identity("s3://bucket/x", endpoint="http://host:2"),
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://host:1")
    assert identity("s3://bucket/x") != plain


def test_options_of_file_systems() -> None:
    pytest.importorskip("fsspec")
    from spdl.store import FsspecStore  # noqa: PLC0415 - for those who have it.

    def identity(**options: Any) -> str:
        return FsspecStore("memory://x", options=options).identity()

    assert identity() == identity(token="a") == identity(key=object())  # noqa: S106
    assert identity(client_kwargs={"endpoint_url": "a", "token": "a"}) == identity(client_kwargs={"endpoint_url": "a"})
    assert identity(client_kwargs={"endpoint_url": "a"}) != identity(client_kwargs={"endpoint_url": "b"})


def test_the_folder_is_named_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "data").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        assert LocalStore("data").identity() == LocalStore(tmp_path / name / "data/").identity()
    assert LocalStore(tmp_path / "a/data").identity() != LocalStore(tmp_path / "b/data").identity()


def test_a_quoted_slash_is_no_folder() -> None:
    contents = {
        "/o/a%2Fb.txt": b"quoted", "/o/a/b.txt": b"folder", "/x%2fy/a%20b/c%2Fd/e%25%3F.txt?t=1": b"deep",
        "/o/a%2F/b.txt": b"behind",
    }  # fmt: skip
    with serving(contents) as url:
        for target, content in contents.items():
            root, path = split_url(url + target)
            store = open_store(root)
            assert isinstance(store, HTTPStore)
            with contextlib.closing(store):
                assert bytes(store.get(path)) == content
                assert urlsplit(root).netloc == urlsplit(url).netloc


def test_a_container_of_azure_is_shown_and_a_password_is_not() -> None:
    pytest.importorskip("obstore")
    url = "abfss://box@acct.dfs.core.windows.net/a"
    assert repr(ObstoreStore(url)) == f"ObstoreStore({url!r})"
    assert "word" not in repr(ObstoreStore("s3://user:word@bucket/a"))

"""A web server as a store: what the faults of the server do, and that nothing wrong comes through."""

from __future__ import annotations

import http.server
import json
import pickle
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.http.scripted_server import say, say_part, serving
from tests.store.range_server import Faults, content, running

from spdl.store import HTTPStore, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = "100000/a b%?#+\u00e9.bin"


@pytest.fixture
def store(url: str) -> Iterator[HTTPStore]:
    store = HTTPStore(url, timeout=30)
    yield store
    store.close()


def counted(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/_statistics") as answer:  # noqa: S310 - our own server.
        found: dict[str, int] = json.load(answer)
    return found


def written(path: str) -> str:
    """Return the path as the server sees it."""
    return urllib.request.quote(path, safe="/~!$&'()*,;=:@")  # type: ignore[attr-defined,no-any-return]


def test_content_sizes_and_entries(store: HTTPStore) -> None:
    assert isinstance(store, Store)
    path = "100000/a.bin"
    assert bytes(store.get(path)) == content(path)
    assert memoryview(store.get(path)).readonly
    assert store.size(path) == 100_000
    (entry,) = store.list(path)
    assert (entry.path, entry.size) == (path, 100_000)
    assert entry.etag is not None
    assert entry.etag.startswith('"')


def test_any_path(store: HTTPStore) -> None:
    assert bytes(store.get(ONE)) == content(written(ONE))


def test_a_connection_is_used_again(url: str) -> None:
    store = HTTPStore(url)
    for number in range(20):
        store.get(f"1000/{number}")
        store.size(f"1000/{number}")
    found = store.statistics()
    assert (found.connections, found.requests, found.answers, found.bytes) == (1, 40, 40, 20_000)
    store.close()


@given(ranges=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 70_000)), max_size=6))
def test_ranges_are_slices(url: str, ranges: list[tuple[int, int]]) -> None:
    ranges = [(start, min(length, 100_000 - start)) for start, length in ranges]
    store = HTTPStore(url)
    parts = store.get_ranges("100000/x", [s for s, _ in ranges], [n for _, n in ranges])
    whole = content("100000/x")
    assert [bytes(part) for part in parts] == [whole[start : start + length] for start, length in ranges]
    store.close()


def test_large_objects_come_in_several_pieces(store: HTTPStore) -> None:
    path = f"{20 << 20}/large"
    whole = content(path)
    assert bytes(store.get(path)) == whole
    first = store.statistics()
    assert first.requests == 3
    assert first.connections <= 3
    far, near = store.get_ranges(path, [19 << 20, 10], [1 << 20, 9 << 20])
    assert (bytes(far), bytes(near)) == (whole[19 << 20 :], whole[10 : (9 << 20) + 10])
    assert store.statistics().requests == 6


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [
        ([0, 0], [5, 9 << 20]),
        ([0, 0], [8 << 20, 9 << 20]),
        ([7, 7], [9 << 20] * 2),
        ([0, 0, 5], [1, 20 << 20, 9 << 20]),
    ],
)
def test_large_ranges_that_overlap(store: HTTPStore, starts: list[int], lengths: list[int]) -> None:
    whole = content("22000000/x")
    parts = [bytes(part) for part in store.get_ranges("22000000/x", starts, lengths)]
    assert parts == [whole[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    assert store.statistics().changed == 0


def test_objects_without_content(store: HTTPStore) -> None:
    assert bytes(store.get("0/empty")) == b""
    assert store.size("0/empty") == 0
    assert store.get_ranges("10/x", [], []) == []


def test_what_is_missing(store: HTTPStore) -> None:
    for call in (store.get, store.size, lambda path: store.get_ranges(path, [0], [1])):
        with pytest.raises(FileNotFoundError, match=r"No such object in HTTPStore\('http://127"):
            call("missing")
    assert list(store.list("missing")) == []
    with pytest.raises(StoreError, match="web servers list no folders"):
        store.list("")


def test_ranges_beyond_the_end(store: HTTPStore) -> None:
    for starts, lengths in (([90, 0], [20, 1]), ([200], [1]), ([0, 5_000_000], [1, 1])):
        with pytest.raises(
            StoreError, match=r"100/x in HTTPStore.*: it has 100 bytes, but bytes \d+ to \d+ were asked"
        ):
            store.get_ranges("100/x", starts, lengths)
    assert store.statistics().changed == 0


@pytest.mark.parametrize(
    "word", ["chunked", "close", "endless", "norange", "noetag", "chunked,norange", "endless,noetag"]
)
def test_servers_of_other_habits(store: HTTPStore, word: str) -> None:
    path = f"@{word}/50000/x"
    for _ in range(3):
        assert bytes(store.get(path)) == content(path)
        assert [bytes(part) for part in store.get_ranges(path, [49_000], [1000])] == [content(path)[-1000:]]


def test_a_server_that_does_not_send_parts_of_large_objects(store: HTTPStore) -> None:
    for word in ("norange", "norange,chunked", "norange,endless"):
        path = f"@{word}/{9 << 20}/x"
        assert bytes(store.get(path)) == content(path)
        for start in (0, 8 << 20):
            before = store.statistics().bytes
            with pytest.raises(StoreError, match="does not send parts of objects; it ignored the header Range"):
                store.get_ranges(path, [start], [10])
            assert store.statistics().bytes == before


def test_a_server_that_tells_no_size(store: HTTPStore) -> None:
    with pytest.raises(StoreError, match="does not say how many bytes"):
        store.size("@nosize,norange,endless/10/x")


@pytest.mark.parametrize(
    ("fault", "counter"),
    [
        ("busy", "throttled"),
        ("429", "throttled"),
        ("500", "broken"),
        ("502", "broken"),
        ("reset", "broken"),
        ("cut", "cut"),
        ("wrong", "wrong"),
        ("gzip", "wrong"),
        ("garbage", "wrong"),
        ("redirect", "redirects"),
    ],
)
def test_a_fault_is_counted_and_the_request_repeated(store: HTTPStore, fault: str, counter: str) -> None:
    path = f"@{fault}*2/50000/{fault}"
    assert bytes(store.get(path)) == content(path)
    path = f"@{fault}*1/50000/{fault}"
    assert bytes(store.get_ranges(path, [10], [30_000])[0]) == content(path)[10:30_010]
    # A reset of a connection that was idle is no fault: it was closed meanwhile.
    assert getattr(store.statistics(), counter) == (2 if fault == "reset" else 3)


def test_the_server_asks_for_time(store: HTTPStore) -> None:
    start = time.monotonic()
    store.get("@later*1/10/x")
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize("status", [400, 401, 403, 405, 451, 501])
def test_refusals_are_not_repeated(store: HTTPStore, status: int) -> None:
    with pytest.raises(StoreError, match=rf"10/x{status} in HTTPStore.*: the server answered {status}: a fault of the"):
        store.get(f"@{status}*9/10/x{status}")
    assert store.statistics().requests == 1


@pytest.mark.usefixtures("no_pauses")
def test_a_fault_that_stays(url: str) -> None:
    store = HTTPStore(url)
    with pytest.raises(StoreError, match=r"the answer ended after 5000 bytes of 10000 \(attempt 8, after"):
        store.get("@cut*99/10000/x")
    store.close()


def test_a_circle_of_redirections(store: HTTPStore) -> None:
    with pytest.raises(StoreError, match="the server names another place, 6 times in turn"):
        store.get("@circle*99/10/x")


def test_an_object_that_changes_is_read_anew(store: HTTPStore) -> None:
    path = f"@change*2/{20 << 20}/x"
    # The first three requests see three versions.
    assert bytes(store.get(path)) == content(path, 2)
    assert store.statistics().changed == 1
    path = f"@change*999/{20 << 20}/y"
    with pytest.raises(StoreError, match="it changed while it was read, 4 times"):
        store.get_ranges(path, [0, 15 << 20], [10, 10])


@pytest.mark.usefixtures("no_pauses")
def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = HTTPStore(f"http://127.0.0.1:{port}")
    with pytest.raises(
        StoreError, match=r"x in HTTPStore\(.*\): 127\.0\.0\.1: Connection refused \(attempt 8, after \d"
    ):
        store.get("x")

    def find_none(*_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_none)
    nameless = HTTPStore("http://nowhere.invalid")
    with pytest.raises(StoreError, match=r"nowhere\.invalid: Name .* \(attempt 8, after"):
        nameless.get("x")


def test_a_server_that_closed_idle_connections(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:  # One answer each, though the connection may be kept.
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/1\r\nContent-Length: 1\r\n\r\nx")

        thread = threading.Thread(target=serve)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert [bytes(store.get("x")) for _ in range(3)] == [b"x"] * 3
        thread.join()
        found = store.statistics()
        assert (found.connections, found.broken, found.retries) == (3, 0, 0)
        store.close()


def test_headers_are_renewed_when_they_have_expired() -> None:
    given: list[int] = []

    def headers() -> dict[str, str]:
        given.append(len(given))
        return {"Authorization": f"Bearer secret/{len(given)}"}

    with running(Faults(token="secret", uses=5)) as url:  # noqa: S106 - of this test.
        store = HTTPStore(url, headers=headers)
        with ThreadPoolExecutor(4) as pool:
            contents = list(pool.map(store.get, [f"100/{number}" for number in range(40)]))
        assert [bytes(each) for each in contents] == [content(f"100/{number}") for number in range(40)]
        assert 8 <= len(given) <= 16
        store.close()
        fixed = HTTPStore(url, headers={"Authorization": "Bearer secret/0"})
        for number in range(5):
            fixed.get(f"100/{number}")
        with pytest.raises(StoreError, match="the server answered 401: who are you"):
            fixed.get("100/5")
        fixed.close()


def test_no_other_server_is_told_who_asks(url: str) -> None:
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(302)
            self.send_header("Location", f"{other}/10/x")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    with running(Faults(token="secret", uses=99)) as other, http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:  # noqa: S106
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.server_port}", headers={"Authorization": "Bearer secret/1"})
        with pytest.raises(StoreError, match="the server answered 401"):
            store.get("x")
        server.shutdown()
        thread.join()
    assert seen == ["Bearer secret/1"]
    store.close()


@pytest.mark.parametrize("headers", [3, {"a": 3}, {"a": "b\r\nc: d"}, {"a:b": "c"}, {"": "x"}, {"a": "\u00e9"}])
def test_headers_that_are_none(headers: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`headers` must be"):
        HTTPStore("http://a", headers=headers)


@pytest.mark.parametrize(
    "url",
    ["", "a", "/a", "a/b", "ftp://a/b", "file:///a", "http://", "http:///a", "http://a:99999/b", "http://a/b c"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="`base_url` must be the URL of a folder"):
        HTTPStore(url)


SECRET = "S3cr3t"  # noqa: S105 - none at all.
HOSTS = ["", ":80", "a b", "a..b", ".a", "a\\b", "[::1", "[::1]x", "[x]", "a%20b", "a,b", "x" * 64, "\u2100", "a\tb"]
PORTS = [":0", ":-1", ":65536", ":x", ":8 0", ":80:80", ": 80", ":\u0661"]
TAILS = ["/ ", "/a b", "/a\nb", "/\x00", "/\u00e9", "/\x7f", f"/#{SECRET}", f"#{SECRET}", f"?a={SECRET}#b", "?a b"]


@given(
    scheme=st.sampled_from(["http://", "https://", "HTTP://"]),
    part=st.sampled_from(["user", "host", "port", "tail", "before"]),
    data=st.data(),
)
def test_what_is_no_url_is_refused_where_a_store_is_made(scheme: str, part: str, data: st.DataObject) -> None:
    """One part of a URL is wrong, which is drawn."""
    host = data.draw(
        st.sampled_from(HOSTS if part == "host" else ["host", "1.2.3.4", "[::1]", "a_b.c.", "b\u00fccher"])
    )
    port = data.draw(st.sampled_from(PORTS if part == "port" else ["", ":80"]))
    tail = data.draw(st.sampled_from(TAILS if part == "tail" else ["", "/", "/a?b=c", f"/%20?sig={SECRET}@b"]))
    user = data.draw(st.sampled_from([f"me:{SECRET}@", f"{SECRET}@", "@", f"me:{SECRET}/@"])) if part == "user" else ""
    before = data.draw(st.sampled_from([" ", "\n", "x "])) if part == "before" else ""
    with pytest.raises(ValueError, match="`base_url` must be") as found:
        HTTPStore(f"{before}{scheme}{user}{host}{port}{tail}")
    assert SECRET not in str(found.value)
    HTTPStore(f"{scheme}host:80/a?sig={SECRET}@b").close()


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match=r"without a user name or password.*`headers`") as found:
        HTTPStore("https://me:secret@example.com/data")
    assert "secret" not in str(found.value)


def test_what_the_function_of_the_headers_raises_is_raised(url: str) -> None:
    def no_token() -> dict[str, str]:
        raise FileNotFoundError(2, "No such file", "token.txt")

    store = HTTPStore(url, headers=no_token)
    with pytest.raises(FileNotFoundError, match=r"token\.txt"):
        store.get("10/x")
    assert store.statistics().retries == 0
    assert store.statistics().in_flight == 0
    store.close()


@pytest.mark.parametrize("answer", ["returns", "raises", "too late"])
def test_a_function_of_the_headers_takes_no_longer_than_a_call_may(url: str, answer: str) -> None:
    may_return, asked = threading.Event(), list[int]()

    def headers() -> dict[str, str]:
        asked.append(1)
        assert may_return.wait(60)
        if answer == "raises":
            raise FileNotFoundError(2, "No such file", "token.txt")
        return {}

    store = HTTPStore(url, headers=headers, timeout=0.5 if answer == "too late" else 60)
    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(store.get, f"10/{number}") for number in range(4)]
        if answer == "too late":
            for each in reading:
                with pytest.raises(
                    StoreError, match=r"10/\d in HTTPStore.*no answer in time: the function for `headers"
                ):
                    each.result()
        may_return.set()
        for number, each in enumerate(reading):
            if answer == "returns":
                assert bytes(each.result()) == content(f"10/{number}")
            elif answer == "raises":
                with pytest.raises(FileNotFoundError, match=r"token\.txt"):
                    each.result()
    if answer != "raises":  # All wait for one call of it, whose outcome the next one has.
        assert bytes(store.get("10/x")) == content("10/x")
        assert len(asked) == 1
    store.close()


@pytest.mark.parametrize("renewed", [True, False])
def test_a_function_of_the_headers_is_called_once_for_each_attempt(renewed: bool) -> None:  # noqa: FBT001
    asked, heads = list[int](), list[str]()

    def headers() -> dict[str, str]:
        asked.append(len(asked) if renewed else 0)
        return {"X-Token": f"{asked[-1]}"}

    def answer(*_: str) -> tuple[bytes, bool]:
        return (
            say_part(b"0123456789", "0-9") if "X-Token: 3" in heads[-1] else say("401 No", Content_Length="0")
        ), True

    with serving(answer, heads=heads) as (url, _):
        store = HTTPStore(url, headers=headers, timeout=60)
        if renewed:
            for _ in range(5):
                assert bytes(store.get("x")) == b"0123456789"
            assert (len(asked), len(heads)) == (4, 8)
        else:  # The same ones are not sent again.
            with pytest.raises(StoreError, match="the server answered 401"):
                store.get("x")
            assert (len(asked), len(heads)) == (2, 1)
        store.close()


def test_headers_that_are_refused_again_and_again() -> None:
    heads, asked = list[str](), list[int]()

    def headers() -> dict[str, str]:
        asked.append(0)
        return {"X-Token": f"{len(asked)}"}

    with serving(lambda *_: (say("401 No", Content_Length="0"), True), heads=heads) as (url, _):
        store = HTTPStore(url, headers=headers, timeout=60)
        with pytest.raises(StoreError, match="the server answered 401"):
            store.get("x")
        assert len(asked) == len(heads) == 8
        store.close()


def test_where_a_redirection_leads_is_not_shown_with_its_signature(url: str) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "ftp://elsewhere/x?signature=secret")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.server_port}", timeout=3)
        with pytest.raises(StoreError, match="names another place, which is not an HTTP URL: 'ftp://elsewhere/x'") as e:
            store.get("x")
        assert "secret" not in str(e.value)
        server.shutdown()
        thread.join()
        store.close()


def test_a_query_is_sent_with_every_path_and_not_shown(url: str) -> None:
    store = HTTPStore(f"{url}/1000?signature=secret")
    assert bytes(store.get("a")) == content("1000/a")
    assert "secret" not in repr(store)
    store.close()


def test_a_copy_is_another_store(store: HTTPStore) -> None:
    store.get("10/a")
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own.
    assert bytes(copy.get("10/a")) == content("10/a")
    assert copy.statistics().requests == 1
    copy.close()


def test_all_faults_at_once() -> None:
    """The seeded script of faults: nothing is lost, wrong or twice, and the counts are those of the server."""
    faults = Faults(
        seed=3, latency=0.005, slow=0.005, stall=0.003, busy=0.02, cut=0.01, reset=0.01, wrong=0.01, redirect=0.02,
        gzip=0.01,
    )  # fmt: skip
    paths = [f"{1000 + 37 * number}/{number}" for number in range(2500)]
    with running(faults) as url:
        store = HTTPStore(url)
        with ThreadPoolExecutor(16) as pool:
            for path, whole in zip(paths, pool.map(store.get, paths), strict=True):
                assert bytes(whole) == content(path)
        found, there = store.statistics(), counted(url)
        store.close()
    assert found.answers == len(paths)
    assert found.requests == len(paths) + found.retries + found.hedges
    assert found.hedges > 5
    assert found.hedges <= 0.05 * len(paths) + 10
    assert found.hedged_bytes <= 0.05 * found.bytes + 1e6
    # A loser that was cancelled may have met a fault, too.
    for ours, theirs in (("throttled", "busy"), ("cut", "cut"), ("redirects", "redirect")):
        assert there[theirs] - found.hedges <= getattr(found, ours) <= there[theirs]
    assert there["connections"] - 1 - found.hedges <= found.connections <= there["connections"] - 1

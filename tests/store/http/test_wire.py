"""What goes over the wire: where requests go, how answers begin, and how they are cut into chunks."""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.http.scripted_server import LETTERS, Reply, say, serving

from spdl.store import HTTPStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = say("200 OK", LETTERS, Content_Length="10", ETag='"1"')


@contextlib.contextmanager
def scripted(heads: list[str] | None = None) -> Iterator[tuple[HTTPStore, list[Reply], str]]:
    """Yield a store, the list of the answers that it gets next, and the server's URL."""
    replies: list[Reply] = []
    with serving(lambda *_: (replies.pop(0), True), heads=heads) as (url, _):
        store = HTTPStore(f"{url}/b", timeout=60)
        try:
            yield store, replies, url
        finally:
            store.close()


# ---- where requests go ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://a", "http://A:80/"),
        ("https://a/b", "https://A:443/b/"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example"),
    ],
)
def test_http_store_knows_one_place_by_its_names(url: str, same: str) -> None:
    assert HTTPStore(url).identity() == HTTPStore(same).identity()


@pytest.mark.parametrize(("url", "other"), [("http://a", "https://a"), ("http://a:80", "http://a:81")])
def test_http_store_tells_places_apart(url: str, other: str) -> None:
    assert HTTPStore(url).identity() != HTTPStore(other).identity()


@pytest.mark.parametrize(
    ("base", "target"), [("", "/x"), ("/b/c?d=e", "/b/c/x?d=e"), ("/%20", "/%20/x"), ("/o/a%2F", "/o/a%2Fx")]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_http_store_asks_for_what_stands_in_its_url(host: str, base: str, target: str) -> None:
    if host == "::1":
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("there is no IPv6")
    heads: list[str] = []
    with serving(lambda *_: (GOOD, True), heads=heads, host=host) as (url, _):
        store = HTTPStore(url + base, timeout=30)
        assert bytes(store.get("x")) == LETTERS
        store.close()
    (head,) = heads
    assert head.startswith(f"GET {target} HTTP/1.1\r\nHost: {url.removeprefix('http://')}\r\n")


@pytest.mark.parametrize(
    ("location", "target"), [("/x?y", "/x?y"), ("x", "/b/x"), ("//{host}/d", "/d"), ("http://{host}/d#part", "/d")]
)
def test_http_store_follows_a_server_that_names_another_place(location: str, target: str) -> None:
    heads: list[str] = []
    with scripted(heads) as (store, replies, url):
        place = location.format(host=url.removeprefix("http://"))
        replies += [say("302 Found", Content_Length="0", Location=place), GOOD]
        assert bytes(store.get("c")) == LETTERS
    assert [head.split(" ")[1] for head in heads] == ["/b/c", target]


@pytest.mark.parametrize(
    ("location", "target"),
    [(b"/x y", "/x%20y"), (b"/\xc3\xa9", "/%C3%A9"), (b"/\xe9?a b", "/%E9?a%20b"), (b"/x%20y#a b", "/x%20y")],
)
def test_http_store_quotes_what_a_server_left_unquoted(location: bytes, target: str) -> None:
    heads: list[str] = []
    with scripted(heads) as (store, replies, _):
        replies += [b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % location, GOOD]
        assert bytes(store.get("c")) == LETTERS
    assert [head.split(" ")[1] for head in heads] == ["/b/c", target]


@pytest.mark.parametrize(
    "location",
    ["/x\ty", "/x\x01y", "/x\x7fy", "ftp://a/b", "mailto:me", "http://", "http://a b/", "//[", "http://a:99999/",
     "http://a:0/", "http://a..b/", "http://:80/"],
)  # fmt: skip
def test_http_store_asks_once_where_a_server_names_what_is_no_url(location: str) -> None:
    heads: list[str] = []
    with scripted(heads) as (store, replies, _):
        replies.append(say("302 Found", Content_Length="0", Location=location))
        with pytest.raises(
            StoreError, match=r"the server names another place, which is (not an HTTP URL|a URL with char)"
        ):
            store.get("c")
    assert len(heads) == 1


# ---- how answers begin ------------------------------------------------------------------------------------------

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ-", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f\x85\xa0"), max_size=20)
OURS = {"connection", "content-length", "etag", "transfer-encoding", "content-encoding", "content-range", "location"}


@given(
    headers=st.dictionaries(NAMES, VALUES, max_size=8),
    etag=VALUES.filter(bool),
    spaces=st.sampled_from(["", " ", "  \t"]),
)
@settings(max_examples=50)
def test_http_store_reads_headers_as_the_standard_library_does(headers: dict[str, str], etag: str, spaces: str) -> None:
    others = {name: value for name, value in headers.items() if name.lower() not in OURS}
    lines = "".join(
        f"{name}:{spaces}{value}{spaces}\r\n"
        for name, value in {**others, "eTaG": etag, "content-LENGTH": "10"}.items()
    ).encode("latin-1")
    oracle = http.client.parse_headers(io.BytesIO(lines + b"\r\n"))
    with scripted() as (store, replies, _):
        replies.append(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")
        (entry,) = store.list("x")
    assert (entry.size, entry.etag) == (int(oracle["Content-Length"]), oracle["ETag"].strip())


@pytest.mark.parametrize(
    "bad",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: nothing\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nfolded: a\r\n b: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        *(
            b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % length
            for length in (b"-1", b"1e3", b"0x10", b"1 2", b"")
        ),
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb3\r\n\r\n",
        *(
            say("206 OK", LETTERS, Content_Length="10", Content_Range=text)
            for text in ("bytes 0-10/10", "bytes 5-4/10", "bytes 0-9/*", "items 0-9/10", "bytes 1-10/11", "")
        ),
        *(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
            for chunks in (b"x\r\n", b"-1\r\n", b"\r\n", b"3\r\nabcd\r\n", b"f" * 16 + b"\r\n")
        ),
    ],
)
def test_http_store_asks_again_where_an_answer_is_none(bad: bytes) -> None:
    with scripted() as (store, replies, _):
        replies += [bad, GOOD]
        assert bytes(store.get("x")) == LETTERS
        found = store.statistics()
        assert (found.wrong + found.cut, found.retries) == (1, 1)


def test_http_store_takes_heads_whose_lines_end_otherwise() -> None:
    body = b"abc\r\n\r\ndef"
    with scripted() as (store, replies, _):
        replies += [
            b"HTTP/1.1 200 OK\nContent-Length: 10\nA: b\n\n" + body,
            b"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 10\n\n" + body,
        ]
        assert [bytes(store.get("x")) for _ in range(2)] == [body] * 2


@pytest.mark.parametrize("text", ["bytes 0-9/10", "bytes 0-9/10 "])
def test_http_store_takes_the_part_that_an_answer_says_it_has(text: str) -> None:
    with scripted() as (store, replies, _):
        replies.append(say("206 OK", LETTERS, Content_Length="10", Content_Range=text))
        assert bytes(store.get("x")) == LETTERS


@pytest.mark.parametrize(
    ("head", "connections"),
    [
        (b"HTTP/1.1 200 OK\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", 2),
        (b"HTTP/1.0 200 OK\r\n", 2),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", 1),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n", 1),
    ],
)
def test_http_store_uses_a_connection_again_if_the_server_keeps_it(head: bytes, connections: int) -> None:
    with serving(lambda *_: (head + b"Content-Length: 10\r\n\r\n" + LETTERS, True)) as (url, _):
        store = HTTPStore(url, timeout=30)
        for _ in range(2):
            assert bytes(store.get("x")) == LETTERS
        assert store.statistics().connections == connections
        store.close()


# ---- chunks -----------------------------------------------------------------------------------------------------


class _Socket:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def oracle_of(reply: bytes) -> bytes:
    sock: socket.socket = _Socket(reply)  # type: ignore[assignment]
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response.read()


@given(
    parts=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    extension=st.sampled_from([b"", b";a=1", b" ;b"]),
    trailer=st.sampled_from([b"", b"Expires: never\r\n"]),
    cuts=st.lists(st.integers(0, 500), max_size=20),
)
@settings(max_examples=60)
def test_http_store_puts_chunks_together_however_they_are_cut(
    parts: list[bytes],
    extension: bytes,
    trailer: bytes,
    cuts: list[int],
) -> None:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n%b\r\n" % trailer
    assert oracle_of(reply) == b"".join(parts)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(reply)}), len(reply)]
    with scripted() as (store, replies, _):
        replies.append([reply[start:stop] for start, stop in itertools.pairwise(edges)])
        assert bytes(store.get("x")) == b"".join(parts)

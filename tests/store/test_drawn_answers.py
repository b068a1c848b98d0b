"""Servers that mean harm: each call ends with the right bytes or an error, and delays nobody else.

A call that does not end is stopped with its test, after a minute. Only the long tests ask whether it ends by its
deadline: a busy machine may be late itself.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.store.socket_server import listening

from spdl.store import HTTPStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT = random.Random(50).randbytes(20_000)  # noqa: S311 - content, no secret.
SECONDS = 1.5
GRACE = 1.0
"""What the machine may be late itself, where that is asked."""

Pieces: TypeAlias = "Iterator[bytes | float | None]"
"""What a server sends: bytes, pauses in seconds, and None for a reset. At its end it closes the connection."""


@contextlib.contextmanager
def serving(answer: Callable[[str], Pieces]) -> Iterator[str]:
    """Run a server that sends what a function of the request's head returns, until the other side has gone."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        head = b""
        while data := connection.recv(4096):
            head += data
            if not head.endswith(b"\r\n\r\n"):
                continue
            for piece in answer(head.decode()):
                if ended.is_set():
                    return
                if piece is None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                if isinstance(piece, float):
                    ended.wait(piece)
                else:
                    connection.sendall(piece)
            return

    with listening(serve) as url:
        try:
            yield url
        finally:
            ended.set()


def wanted(head: str) -> tuple[int, int]:
    """Return which bytes a request is for."""
    first, _, last = head.partition("Range: bytes=")[2].partition("\r\n")[0].partition("-")
    return (int(first), min(len(CONTENT), int(last) + 1)) if first else (0, len(CONTENT))


def good(head: str) -> tuple[bytes, bytes]:
    """Return the head and the body of the answer that is right."""
    start, stop = wanted(head)
    body = b"" if head.startswith("HEAD") else CONTENT[start:stop]
    return (
        f'HTTP/1.1 206 Part\r\nETag: "1"\r\nContent-Range: bytes {start}-{stop - 1}/{len(CONTENT)}\r\n'
        f"Content-Length: {stop - start}\r\n\r\n".encode()
        if "Range:" in head
        else f'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: {len(CONTENT)}\r\n\r\n'.encode()
    ), body


def part(place: str, length: int) -> bytes:
    """Return the head of an answer that says that it is a part."""
    return f"HTTP/1.1 206 P\r\nContent-Range: {place}\r\nContent-Length: {length}\r\n\r\n".encode()


def for_ever(first: bytes, piece: bytes, pause: float = 0.0) -> Pieces:
    yield first
    while True:
        yield piece
        if pause:
            yield pause


ENDLESS = {
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100, 0.0),
    "interim answers, slowly": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.2),
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.01),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.05),
    "bytes": (b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-19999/20000\r\nContent-Length: 20000\r\n\r\n", b"x", 0.05),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10, 0.001),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"T: x\r\n" * 10, 0.001),
    "nothing": (b"", b"", 1.0),
}


def read_beside_the_endless() -> dict[str, float]:
    """Read from eight servers that never end and eight others; return how long it took until each call ended."""
    with contextlib.ExitStack() as servers, ThreadPoolExecutor(16) as pool:
        bad = [
            HTTPStore(servers.enter_context(serving(lambda _, how=how: for_ever(*how))), timeout=SECONDS)  # type: ignore[misc]
            for how in ENDLESS.values()
        ]
        fair = [HTTPStore(servers.enter_context(serving(lambda head: iter(good(head))))) for _ in range(8)]

        def suffer(store: HTTPStore) -> float:
            began = time.monotonic()
            with pytest.raises(StoreError):
                store.get("x")
            return time.monotonic() - began

        def read(store: HTTPStore) -> None:
            for _ in range(10):
                assert bytes(store.get("x")) == CONTENT

        suffering = [pool.submit(suffer, store) for store in bad]
        for each in [pool.submit(read, store) for store in fair]:
            each.result()
        times = dict(zip(ENDLESS, [each.result() for each in suffering], strict=True))
        for store in [*bad, *fair]:
            store.close()
    return times


def test_http_store_ends_each_call_to_eight_servers_that_never_end() -> None:
    assert set(read_beside_the_endless()) == set(ENDLESS)


@pytest.mark.long
def test_http_store_ends_each_call_in_time_to_eight_servers_that_never_end() -> None:
    assert max(read_beside_the_endless().values()) <= SECONDS + GRACE


def test_http_store_reads_on_beside_an_answer_that_never_ends() -> None:
    def answer(head: str) -> Pieces:
        return for_ever(*ENDLESS["bytes"]) if "/bad" in head else iter(good(head))

    with serving(answer) as url, ThreadPoolExecutor(1) as pool:
        store = HTTPStore(url, timeout=SECONDS)
        suffering = pool.submit(store.get, "bad")
        for _ in range(5):
            assert bytes(store.get("good")) == CONTENT
        with pytest.raises(StoreError, match=r"bad in HTTPStore\(.*\): no answer in 1\.5 s"):
            suffering.result()
        store.close()


@pytest.mark.parametrize("size", [10**15, 10**12 + 1, 9 * 10**18])
def test_http_store_plans_nothing_for_a_size_that_nothing_has(size: int) -> None:
    asked: list[str] = []

    def answer(head: str) -> Pieces:
        asked.append(head)
        body = bytes(1 << 23)
        yield part(f"bytes 0-{len(body) - 1}/{size}", len(body))
        yield body

    with serving(answer) as url:
        store = HTTPStore(url, timeout=SECONDS)
        with pytest.raises(StoreError, match=f"x in HTTPStore.*: not enough memory for its {size} bytes"):
            store.get("x")
        store.close()
    assert len(asked) == 1


@pytest.mark.parametrize("length", [10**9, 2**40, 2**62])
def test_http_store_asks_for_nothing_behind_the_end(length: int) -> None:
    asked: list[str] = []

    def answer(head: str) -> Pieces:
        asked.append(head)
        return iter(good(head))

    with serving(answer) as url:
        store = HTTPStore(url, timeout=SECONDS)
        for starts, lengths in (([0], [length]), ([5, 0, 7], [1, length, 2])):
            with pytest.raises(StoreError, match=f"x in HTTPStore.*it has 20000 bytes, but bytes 0 to {length} were"):
                store.get_ranges("x", starts, lengths)
        store.close()
    assert len(asked) == 2


# ---- drawn answers ------------------------------------------------------------------------------------------------


def draw(chance: random.Random, head: str) -> Pieces:  # noqa: C901, PLR0911, PLR0912 - a branch for each kind.
    """Return what is sent, of which nothing is wrong that cannot be told."""
    lines, body = good(head)
    start, stop = wanted(head)
    kind = chance.choice([
        "good", "cut", "reset", "garbage", "flipped", "length", "range", "interim", "slow", "circle", "away", "coded",
        "chunked", "chunks", "endless", "status", "two", "huge", "close", "part",
    ])  # fmt: skip
    whole = lines + body
    if kind == "good":
        return iter([whole])
    if kind in ("cut", "reset"):
        return iter([whole[: chance.randrange(len(whole))], *([None] if kind == "reset" else [])])
    if kind == "garbage":
        return iter([chance.randbytes(chance.randrange(200)), *([b"\r\n\r\n"] * chance.randrange(2))])
    if kind == "flipped":  # In what says how the body comes.
        place = chance.randrange(lines.index(b"Content-"), len(lines))
        return iter([lines[:place] + chance.randbytes(1) + lines[place + 1 :] + body])
    if kind == "length" and body:
        told = chance.choice([0, 1, len(body) - 1, len(body) + 1, 10**9, 10**17, -1])
        return iter([part(f"bytes {start}-{stop - 1}/20000", told) + body])
    if kind == "range" and body:
        text = chance.choice([
            f"bytes {start + 1}-{stop}/20001", f"bytes {start}-{stop - 2}/20000", "bytes */20000", "",
            f"bytes {stop}-{start}/20000", f"bytes {start}-{stop - 1}/*", f"bytes {start}-{stop - 1}/{stop - 1}",
            "bytes 0-18446744073709551616/2",
        ])  # fmt: skip
        return iter([part(text, len(body)) + body])
    if kind == "interim":
        count = chance.choice([1, 5, 1000])
        return iter([b"HTTP/1.1 10%d X\r\nA: b\r\n\r\n" % chance.choice([0, 2, 3]) * count + whole])
    if kind == "slow":
        step = chance.choice([1, 50, 5000])
        cuts = [whole[at : at + step] for at in range(0, len(whole), step)]
        return itertools.chain.from_iterable((cut, 0.02) for cut in cuts)
    if kind in ("circle", "away"):
        places = ["", "http://", "//[", "ftp://a/b", "http://a b/", "?", "http://:99999/"]
        target = "/x" if kind == "circle" else chance.choice(places)
        return iter([f"HTTP/1.1 302 F\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()])
    if kind == "coded":
        coded = chance.choice([b"gzip", b"br", b"x, y"])
        return iter([lines[:-2] + b"Content-Encoding: " + coded + b"\r\n\r\n" + body])
    if kind == "chunked":
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        return iter([_unframed(lines, b"Transfer-Encoding: chunked") + chunks if body else whole])
    if kind == "chunks":
        bad = chance.choice(
            [b"-1\r\n", b"x\r\n", b"f" * 14 + b"\r\n", b"5\r\nab", b"\r\n", b"0\r\n", b"3\r\nabcde\r\n"]
        )
        return iter([_unframed(lines, b"Transfer-Encoding: chunked"), bad])
    if kind == "endless":
        return for_ever(*ENDLESS[chance.choice(list(ENDLESS))])
    if kind == "status":
        return iter([b"HTTP/1.1 %d X\r\nContent-Length: 3\r\nRetry-After: %b\r\n\r\nabc" % (
            chance.choice([204, 206, 304, 408, 429, 500, 503, 599]), chance.choice([b"0", b"0.01", b"1e8", b"x"]),
        )])  # fmt: skip
    if kind == "two":
        return iter([lines[:-2] + b"Content-Length: 7\r\n\r\n" + body])
    if kind == "huge":
        status, _, rest = lines.partition(b"\r\n")
        return iter([status + b"\r\nX: " + b"x" * chance.choice([10**4, 10**6]) + b"\r\n" + rest + body])
    if kind == "close":
        return iter([_unframed(lines, b"Connection: close") + body[: chance.choice([len(body), len(body) // 2])]])
    return iter([lines + body[: len(body) // 2], chance.choice([None, 3.0])])


def _unframed(lines: bytes, line: bytes) -> bytes:
    kept = [each for each in lines[:-4].split(b"\r\n") if not each.startswith(b"Content-Length")]
    return b"\r\n".join([*kept, line, b"", b""])


def read_drawn(count: int, seed: int) -> tuple[dict[str, int], float]:
    """Read until so many answers were drawn.

    Returns:
        How often there were bytes, and how often an error; and how long the longest call took.
    """
    chance, lock = random.Random(seed), threading.Lock()  # noqa: S311 - a script.
    counts, times = {"answers": 0, "right": 0, "errors": 0}, list[float]()

    def answer(head: str) -> Pieces:
        with lock:
            counts["answers"] += 1
            own = random.Random(chance.random())  # noqa: S311 - the same.
        return draw(own, head)

    def read(number: int) -> None:
        store, own = HTTPStore(url, timeout=SECONDS), random.Random(number)  # noqa: S311 - the same.
        while counts["answers"] < count:
            begin = own.randrange(19_000)
            began = time.monotonic()
            try:
                if own.random() < 0.5:
                    assert bytes(store.get("x")) == CONTENT
                else:
                    parts = store.get_ranges("x", [begin, 5], [900, 7])
                    assert [bytes(part) for part in parts] == [CONTENT[begin : begin + 900], CONTENT[5:12]]
                kind = "right"
            except StoreError:
                kind = "errors"
            with lock:
                times.append(time.monotonic() - began)
                counts[kind] += 1
        store.close()

    with serving(answer) as url, ThreadPoolExecutor(16) as pool:
        for each in [pool.submit(read, 100 * seed + number) for number in range(16)]:
            each.result()
    return counts, max(times)


def test_http_store_gives_right_bytes_or_an_error_whatever_a_server_answers() -> None:
    counts, _ = read_drawn(150, 1)
    assert min(counts.values()) > 0


@pytest.mark.long
def test_http_store_gives_right_bytes_or_an_error_for_many_drawn_answers() -> None:
    counts, longest = read_drawn(2000, 2)
    assert min(counts.values()) > 0
    assert longest <= SECONDS + GRACE

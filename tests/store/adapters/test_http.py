"""A web server as a store: what the faults of the server do, and that nothing wrong comes through."""

from __future__ import annotations

import contextlib
import functools
import gc
import http.server
import json
import os
import pickle
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delays import tolerates_delays
from tests.pipeline.support import wait_until
from tests.store.range_server import Faults, content, running

from spdl.store import HTTPStore, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE = "100000/a b%?#+\u00e9.bin"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


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


def test_a_fault_that_stays(store: HTTPStore) -> None:
    with pytest.raises(StoreError, match=r"the answer ended after 5000 bytes of 10000 \(attempt 8, after"):
        store.get("@cut*99/10000/x")


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


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = HTTPStore(f"http://127.0.0.1:{port}", timeout=0.5)
    with pytest.raises(
        StoreError, match=r"x in HTTPStore\(.*\): 127\.0\.0\.1: Connection refused \(attempt \d+, after \d"
    ):
        store.get("x")
    nameless = HTTPStore("http://nowhere.invalid", timeout=0.5)
    with pytest.raises(StoreError, match=r"nowhere\.invalid: .* \(attempt \d+, after"):
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


@pytest.mark.parametrize("url", ["", "a/b", "ftp://a", "http://", "http://a:99999/b"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="`base_url` must be the URL of a folder"):
        HTTPStore(url)


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
        store = HTTPStore(f"http://127.0.0.1:{server.server_port}", timeout=5)
        with pytest.raises(StoreError, match="names another place, which is no URL of HTTP: 'ftp://elsewhere/x'") as e:
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


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_end_with_the_store(url: str) -> None:
    before = descriptors()
    store = HTTPStore(url)
    store.get("10/a")
    assert descriptors() > before
    del store
    gc.collect()
    # Its thread closes them.
    deadline = time.monotonic() + 10
    while descriptors() > before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert descriptors() == before


def test_a_closed_store_opens_again(url: str) -> None:
    before = descriptors()
    store = HTTPStore(url)
    for _ in range(2):
        assert bytes(store.get("10/a")) == content("10/a")
        assert len(reading_threads()) == 1
        store.close()
        assert descriptors() == before
        assert not reading_threads()
    store.close()


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "spdl-store"]


def test_one_thread_reads_for_all(url: str) -> None:
    store = HTTPStore(url)
    with ThreadPoolExecutor(30) as pool:
        for path, found in [(f"1000/{i}", pool.submit(store.get, f"1000/{i}")) for i in range(300)]:
            assert bytes(found.result()) == content(path)
        assert len(reading_threads()) == 1
    store.close()


@tolerates_delays
def test_a_close_while_others_read(url: str) -> None:
    store = HTTPStore(url)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(store.get, "@slow*1/1000/close")
        while not store.statistics().in_flight:
            time.sleep(0.001)
        start = time.monotonic()
        store.close()
        assert time.monotonic() - start < 0.5
        assert bytes(reading.result()) == content("@slow*1/1000/close")
    deadline = time.monotonic() + 10
    while reading_threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not reading_threads()


def test_the_collector_waits_for_nothing(url: str) -> None:
    store = HTTPStore(url)
    assert bytes(store.get("10/a")) == content("10/a")
    cycle: list[object] = [store]
    cycle.append(cycle)
    del store, cycle
    # It may come while a thread begins or ends, or while threads are listed. No other one can end meanwhile.
    with threading._active_limbo_lock:  # type: ignore[attr-defined]
        gc.collect()
    deadline = time.monotonic() + 10
    while reading_threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not reading_threads()


def test_a_caller_that_is_interrupted(url: str) -> None:
    class Interrupted(BaseException): ...

    def interrupt(*_: object) -> None:
        raise Interrupted

    store = HTTPStore(url)

    def get_interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        store.get("@hang*99/1000/x")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(5):
            with pytest.raises(Interrupted):
                get_interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert bytes(store.get("1000/x")) == content("1000/x")
    assert store.statistics().in_flight == 0
    store.close()


def test_a_caller_that_is_interrupted_while_the_thread_starts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BaseException): ...

    start = threading.Thread.start

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "spdl-store" and len(interrupted) < 2:
            interrupted.append(thread)
            raise Interrupted

    interrupted: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", start_and_be_interrupted)
    store = HTTPStore(url)
    with pytest.raises(Interrupted):
        store.get("@hang*99/1000/x")
    assert bytes(store.get("1000/x")) == content("1000/x")
    # That of the test before may have yet to end.
    assert wait_until(lambda: len(reading_threads()) == 1, 60)
    assert store.statistics().in_flight == 0
    store.close()


def test_a_call_while_the_thread_goes_to_sleep_for_the_first_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HTTPStore(url)
    transport: Any = store._transport
    send, wait = transport.send, transport.wait
    waits: list[float] = []

    def wait_late(seconds: float | None) -> Any:
        if not waits:
            waits.append(0.0)
            time.sleep(0.2)
        return wait(seconds)

    def refuse(request: object) -> Any:
        monkeypatch.setattr(transport, "send", send)
        raise StoreError("not now")

    monkeypatch.setattr(transport, "wait", wait_late)
    monkeypatch.setattr(transport, "send", refuse)
    with pytest.raises(StoreError, match="not now"):
        store.get("1000/x")
    with ThreadPoolExecutor(1) as pool:
        assert bytes(pool.submit(store.get, "1000/x").result(20)) == content("1000/x")
    store.close()


def test_the_process_ends_while_threads_read(url: str) -> None:
    program = (
        "import sys, threading, time; from spdl.store import HTTPStore\n"
        "store = HTTPStore(sys.argv[1])\n"
        "threading.Thread(target=store.get, args=('@hang*99/1000/y',), daemon=True).start()\n"
        "while not store.statistics().in_flight: time.sleep(0.001)\n"
        "print('ends')"
    )
    done = subprocess.run([sys.executable, "-c", program, url], check=False, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_an_error_inside_reaches_all_callers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HTTPStore(url)
    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(store.get, f"@hang*99/1000/{number}") for number in range(3)]
        while store.statistics().in_flight < 3:
            time.sleep(0.001)
        transport: Any = store._transport
        monkeypatch.setattr(transport, "wait", lambda seconds: 1 / 0)
        transport.wake()
        for each in reading:
            with pytest.raises(StoreError, match="the thread that carries requests has ended: ZeroDivisionError"):
                each.result()
    monkeypatch.undo()
    assert bytes(store.get("1000/x")) == content("1000/x")
    assert store.statistics().in_flight == 0
    store.close()


def test_nobody_waits_for_the_address_of_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = threading.Event()
    known = socket.getaddrinfo

    def slow(host: bytes | str, port: int, *, flags: int = 0, **options: Any) -> Any:
        if host == b"elsewhere.invalid" and not flags:
            assert looked_up.wait(20)
            host = "127.0.0.1"
        return known(host, port, flags=flags, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    port = url.rpartition(":")[2]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = self.path == "/1000/here"
            self.send_response(200 if found else 302)
            self.send_header("Location", f"http://elsewhere.invalid:{port}{self.path}")
            self.send_header("Content-Length", "4" if found else "0")
            self.end_headers()
            self.wfile.write(b"here" if found else b"")

        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(3) as pool:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.server_port}")
        far = [pool.submit(store.get, f"1000/{number}") for number in range(2)]
        while store.statistics().redirects < 2:
            time.sleep(0.001)
        assert bytes(store.get("1000/here")) == b"here"
        assert not any(each.done() for each in far)
        looked_up.set()
        assert [bytes(each.result()) for each in far] == [content("1000/0"), content("1000/1")]
        store.close()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n", b""])
def test_an_answer_that_does_not_end_is_given_up(framing: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent = []

        def serve() -> None:
            for _ in range(8):
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\n" + framing + b"\r\n")
                    for _ in range(1000):
                        connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
                        sent.append(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=30)
        with pytest.raises(StoreError, match=r"more than the 10 bytes that it says .*\(attempt 8"):
            store.get("x")
        store.close()
        thread.join()
        assert sum(sent) < 8 * (64 << 16)


def test_a_slow_answer_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less arrives than the system is asked to wait for, but something does."""
    from spdl.store._reading import dispatcher  # noqa: PLC0415

    monkeypatch.setattr(dispatcher, "_SILENCE_SECONDS", 2.0)
    whole = content("20000/x")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(
                    b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-19999/20000\r\nContent-Length: 20000\r\n\r\n"
                )
                for start in range(0, 20_000, 2000):
                    time.sleep(0.25)
                    connection.sendall(whole[start : start + 2000])

        thread = threading.Thread(target=serve)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=20)
        assert bytes(store.get("x")) == whole
        thread.join()
        assert store.statistics().late == 0
        store.close()


def test_a_forked_process_begins_anew(url: str) -> None:
    store = HTTPStore(url)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            store.get("100000/a")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):  # Each time, threads hold locks and connections.
            child = os.fork()
            if not child:
                good = store.statistics().requests == 0 and bytes(store.get("1000/b")) == content("1000/b")
                os._exit(0 if good and store.statistics().connections == 1 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert bytes(store.get("100000/c")) == content("100000/c")
    store.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_encryption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "large").write_bytes(content("3000000/x"))

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=tmp_path)) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://localhost:{server.server_port}"
        with pytest.raises(StoreError, match="the certificate of localhost is not trusted: self-signed"):
            HTTPStore(url).get("large")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        store = HTTPStore(url)
        for _ in range(3):
            assert bytes(store.get("large")) == content("3000000/x")
        assert store.size("large") == 3_000_000
        assert store.statistics().connections == 1
        store.close()
        server.shutdown()
        thread.join()


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
    assert there["connections"] - 1 == found.connections

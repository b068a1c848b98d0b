"""A web server as a store: its connections and threads, when stores, callers and processes end."""

from __future__ import annotations

import contextlib
import functools
import gc
import http.server
import itertools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.support import wait_until
from tests.store.http.scripted_server import LETTERS, say, serving
from tests.store.range_server import content

from spdl.store import HTTPStore, StoreError


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
    assert wait_until(lambda: descriptors() == before, 60)


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


def test_callers_read_in_their_own_threads(url: str) -> None:
    store = HTTPStore(url)
    with ThreadPoolExecutor(30) as pool:
        for path, found in [(f"1000/{i}", pool.submit(store.get, f"1000/{i}")) for i in range(300)]:
            assert bytes(found.result()) == content(path)
        assert len(reading_threads()) == 1
    store.close()


def test_a_close_while_others_read() -> None:
    may_answer = threading.Event()

    def answer(*_: str) -> tuple[bytes, bool]:
        assert may_answer.wait(60)
        return say("200 OK", LETTERS, Content_Length="10"), True

    with serving(answer) as (url, asked), ThreadPoolExecutor(1) as pool:
        store = HTTPStore(url)
        reading = pool.submit(store.get, "x")
        assert wait_until(lambda: asked, 60)
        try:
            store.close()
            assert not reading.done()  # It did not wait for the answer.
        finally:
            may_answer.set()
        assert bytes(reading.result()) == LETTERS
        assert wait_until(lambda: not reading_threads(), 60)


def test_the_collector_waits_for_nothing(url: str) -> None:
    store = HTTPStore(url)
    assert bytes(store.get("10/a")) == content("10/a")
    cycle: list[object] = [store]
    cycle.append(cycle)
    del store, cycle
    # It may come while a thread begins or ends, or while threads are listed. No other one can end meanwhile.
    with threading._active_limbo_lock:  # type: ignore[attr-defined]
        gc.collect()
    assert wait_until(lambda: not reading_threads(), 60)


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


# Python 3.15 shows what is raised where an answer that was never whole is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_step_keeps_no_place(url: str) -> None:
    class Interrupted(BaseException): ...

    left = 0

    def interrupt(frame: Any, event: str, function: Any) -> None:
        nonlocal left
        # Between these, Python calls no handlers, nor where a lock was entered (3.14 does: see tests/moments.py)
        entered = event == "c_return" and function.__name__ == "__enter__"
        if event in ("call", "c_return") and not entered and "/spdl/store/" in frame.f_code.co_filename:
            left -= 1
            if not left:
                raise Interrupted

    store = HTTPStore(url)
    for step in itertools.count(1):
        left = step
        sys.setprofile(interrupt)
        try:
            store.get("1000/x")
            break
        except Interrupted:
            pass
        finally:
            sys.setprofile(None)
        assert store.statistics().in_flight == 0, step
        assert bytes(store.get("1000/x")) == content("1000/x")
    assert step > 50
    store.close()


def test_a_caller_that_is_interrupted_while_the_thread_starts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BaseException): ...

    start = threading.Thread.start

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "spdl-store" and not interrupted:
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


def test_nobody_waits_for_the_address_of_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = threading.Event()
    known = socket.getaddrinfo

    def slow(host: bytes | str, *arguments: Any, **options: Any) -> Any:
        if host == b"elsewhere.invalid":
            assert looked_up.wait(20)
            host = "127.0.0.1"
        return known(host, *arguments, **options)

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


def test_nobody_waits_for_an_address_for_longer_than_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up, found = threading.Event(), list[bool]()

    def slow(*_: object, **__: object) -> Any:
        found.append(looked_up.wait(30))
        raise socket.gaierror(socket.EAI_AGAIN, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    store = HTTPStore("http://elsewhere.invalid", timeout=1)
    with pytest.raises(StoreError, match="x in HTTPStore"):
        store.get("x")
    assert not found
    looked_up.set()
    store.close()
    assert wait_until(lambda: not reading_threads(), 60)


def test_helpers_of_a_failed_call_do_not_sleep_on() -> None:
    busy = threading.Event()

    def answer(_: str, wanted: str) -> tuple[bytes, bool]:
        if wanted.startswith("0-"):
            busy.set()
            return say("503 Busy", Content_Length="0", Retry_After="600"), True
        assert busy.wait(60)
        return say("403 Forbidden", Content_Length="0"), True

    with serving(answer) as (url, _):
        store = HTTPStore(url, timeout=6000)
        with pytest.raises(StoreError, match="the server answered 403"):
            store.get_ranges("x", [0, 1 << 30], [5, 5])
        store.close()
        assert wait_until(lambda: not reading_threads(), 20)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n", b""])
def test_an_answer_that_does_not_end_is_given_up(framing: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent: list[int] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    sent.append(0)
                    with connection, contextlib.suppress(OSError):
                        connection.recv(4096)
                        connection.sendall(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-9/10\r\n" + framing + b"\r\n")
                        for _ in range(1000):
                            connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
                            sent[-1] += 1 << 16

        thread = threading.Thread(target=serve)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(StoreError, match=r"more than the 10 bytes that it says .*\(attempt 8"):
            store.get("x")
        store.close()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        assert sum(sent) < len(sent) * (64 << 16)


@pytest.mark.long
def test_a_slow_answer_is_not_silent() -> None:
    """It takes longer than silence may last."""
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
                    time.sleep(2.5)
                    connection.sendall(whole[start : start + 2000])

        thread = threading.Thread(target=serve)
        thread.start()
        store = HTTPStore(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert bytes(store.get("x")) == whole
        thread.join()
        assert store.statistics().late == 0
        store.close()


def test_statistics_may_be_read_while_threads_read(url: str) -> None:
    store = HTTPStore(url)
    stop = threading.Event()
    wrong = []

    def look() -> None:
        while not stop.is_set():
            found = store.statistics()
            if found.requests - found.in_flight - found.hedges > found.answers or found.bytes != 1000 * found.answers:
                wrong.append(found)

    watching = threading.Thread(target=look)
    watching.start()
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(store.get, f"1000/{number}") for number in range(300)]:
            each.result()
    stop.set()
    watching.join()
    assert not wrong
    assert store.statistics().in_flight == 0
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


needs_certificate = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for localhost and of its key."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@needs_certificate
def test_a_handshake_is_ended_when_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    before = descriptors()
    with socket.create_server(("localhost", 0)) as listening, ThreadPoolExecutor(1) as pool:
        store = HTTPStore(f"https://localhost:{listening.getsockname()[1]}", timeout=60)
        reading = pool.submit(store.get_ranges, "x", [0, 1 << 30], [5, 5])
        first, second = listening.accept()[0], listening.accept()[0]
        with second:
            with context.wrap_socket(first, server_side=True) as answering:
                answering.recv(4096)
                answering.sendall(say("403 Forbidden", Content_Length="0"))
                with pytest.raises(StoreError, match="the server answered 403"):
                    reading.result()
            second.settimeout(15)  # Silence lasts 20 s.
            while second.recv(4096):
                pass
        store.close()
    assert wait_until(lambda: descriptors() <= before, 60)


@needs_certificate
def test_encryption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
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

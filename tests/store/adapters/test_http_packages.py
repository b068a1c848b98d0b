"""What `HTTPStore` needs and takes of its surroundings: a package, and proxies."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import subprocess
import sys
import threading
import traceback
from typing import TYPE_CHECKING

import pytest
import urllib3
from tests.store.adapters.test_http_threads import make_certificate, needs_certificate
from tests.store.http.scripted_server import LETTERS, say, serving
from tests.store.socket_server import listening

from spdl.store import HTTPStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_http_store_names_the_package_if_it_is_missing() -> None:
    program = (
        "import sys; sys.modules['urllib3'] = None\n"
        "from spdl.io import load_npy\nfrom spdl.store import HTTPStore, open_store\n"
        "for call in (HTTPStore, open_store, load_npy):\n"
        "    try: call('http://host/a.npy?secret=1')\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("reading http://host")
        assert line.endswith(" needs the package urllib3: pip install 'spdl-turbo[http]'")
        assert "secret" not in line


def test_http_store_names_the_version_if_the_package_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib3, "__version__", "1.26.20")
    needed = r"reading http://host needs the package urllib3 2\.2\.1 or newer, and 1\.26\.20 is installed: pip install"
    with pytest.raises(ModuleNotFoundError, match=needed):
        HTTPStore("http://host")
    monkeypatch.setattr(urllib3, "__version__", "2.10.0rc1")
    HTTPStore("http://host").close()


def test_store_is_imported_without_a_package() -> None:
    program = "import sys, spdl.store; print('urllib3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    heads: list[str] = []
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def answer(method: str, _: str) -> tuple[bytes, bool]:
        if method == "CONNECT":
            return say("403 Forbidden", Content_Length="0"), False
        return say("200 OK", LETTERS, Content_Length="10"), True

    with serving(answer, heads=heads) as (url, _):
        place = url.removeprefix("http://")
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pa%20ss@{place}")
        monkeypatch.setenv("http_proxy", f"http://me:pa%20ss@{place}")
        monkeypatch.setenv("https_proxy", f"http://{place}")
        monkeypatch.setenv("no_proxy", "near.example")
        yield heads


def test_http_store_uses_the_proxy_of_the_environment(proxy: list[str]) -> None:
    store = HTTPStore("http://far.example/data?a=b", timeout=20)
    assert bytes(store.get("x")) == LETTERS
    store.close()
    (head,) = proxy
    assert head.startswith("GET http://far.example/data/x?a=b HTTP/1.1\r\nHost: far.example\r\n")
    told = head.lower().partition("proxy-authorization: basic ")[2]
    assert told
    told = head[-len(told) :].partition("\r\n")[0]
    assert base64.b64decode(told) == b"me:pa ss"


@pytest.mark.usefixtures("no_pauses")
def test_http_store_asks_a_proxy_for_a_way_to_what_is_encrypted(proxy: list[str]) -> None:
    store = HTTPStore("https://far.example")
    with pytest.raises(
        StoreError, match=r"the proxy 127\.0\.0\.1:\d+ of the environment: Tunnel connection failed: 403"
    ):
        store.get("x")
    store.close()
    assert proxy[0].startswith("CONNECT far.example:443 ")


def test_http_store_shows_no_secret_of_a_proxy_that_repeats_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []

    def answer(*_: str) -> tuple[bytes, bool]:
        head = " ".join(heads[-1].split())
        said = head[head.index("roxy-") :].encode()
        return say("403 Forbidden", said, Content_Length=str(len(said))), False

    with serving(answer, heads=heads) as (url, _):
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, url.replace("://", "://someone:S3cr3tOfMine@"))
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        store = HTTPStore("http://far.example", timeout=20)
        with pytest.raises(StoreError, match=r"answered 403: roxy-authorization: \.\.\.") as found:
            store.get("x")
        store.close()
    assert base64.b64encode(b"someone:S3cr3tOfMine").decode() in heads[0]
    for secret in (base64.b64encode(b"someone:S3cr3tOfMine").decode(), "S3cr3tOfMine"):
        assert secret not in "".join(traceback.format_exception(found.value))


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_http_store_names_the_proxy_that_does_not_answer(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = f"127.0.0.1:{free.getsockname()[1]}"
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
        monkeypatch.setenv(name, f"http://me:S3cr3tOfMine@{dead}")
    store = HTTPStore(f"{scheme}://far.example")
    with pytest.raises(StoreError, match=f": the proxy {dead} of the environment: Connection refused") as e:
        store.get("x")
    store.close()
    assert "S3cr3tOfMine" not in "".join(traceback.format_exception(e.value))


@needs_certificate
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("of_proxy", ["http", "https"])
def test_http_store_reads_by_way_of_a_proxy(
    scheme: str, of_proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy passes on what it is told, encrypted or not, in a tunnel for what is encrypted."""
    certificate, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    told: list[str] = []

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) if scheme == "https" else connection as end:
            while end.recv(4096):
                end.sendall(say("200 OK", LETTERS, Content_Length="10"))

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) if of_proxy == "https" else connection as near:
            head = near.recv(4096)
            told.append(head.decode())
            with socket.create_connection(("127.0.0.1", port)) as far:
                if head.startswith(b"CONNECT"):
                    near.sendall(b"HTTP/1.1 200 Go on\r\n\r\n")
                else:
                    far.sendall(head)
                back = threading.Thread(target=pass_on, args=(far, near))
                back.start()
                pass_on(near, far)
                back.join()

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with listening(answer) as server, listening(serve) as url:
        port = int(server.rpartition(":")[2])
        for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            monkeypatch.setenv(name, f"{of_proxy}://me:word@localhost:{url.rpartition(':')[2]}")
        store = HTTPStore(f"{scheme}://localhost:{port}", timeout=20)
        assert [bytes(store.get("x")) for _ in range(2)] == [LETTERS] * 2
        assert store.statistics().connections == 1
        store.close()
    if scheme == "http":
        assert told[0].startswith(f"GET http://localhost:{port}/x HTTP/1.1")
    else:
        assert told[0].startswith(f"CONNECT localhost:{port} ")
    assert base64.b64encode(b"me:word").decode() in told[0]


@pytest.mark.parametrize("variable", ["ALL_PROXY", "HTTP_PROXY"])
def test_http_store_refuses_proxies_of_other_kinds(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(variable.lower(), "socks5h://me:S3cr3tOfMine@127.0.0.1:1")
    store = HTTPStore("http://far.example", timeout=20)
    with pytest.raises(
        StoreError, match=f"{variable} names a proxy of the kind 'socks5h'.*: unset {variable}"
    ) as found:
        store.get("x")
    assert "S3cr3tOfMine" not in str(found.value)
    assert store.statistics().retries == 0
    store.close()
    monkeypatch.setenv("no_proxy", "far.example")
    store = HTTPStore("http://far.example", timeout=1)
    with pytest.raises(StoreError, match=r"far\.example: "):
        store.get("x")
    store.close()


@pytest.mark.usefixtures("proxy")
def test_http_store_leaves_out_the_proxy_for_hosts_that_the_environment_names() -> None:
    store = HTTPStore("http://near.example", timeout=1)
    with pytest.raises(StoreError, match=r"near\.example: "):
        store.get("x")
    store.close()

"""Connections of urllib3 that another thread can end, kept for each server, and answers that come by them."""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import struct
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ClosedPoolError

from spdl.store._http.address import Address, Origin, host_header
from spdl.store._requests import Crew
from spdl.store._store import StoreError

_SILENCE_SECONDS = 20

_BUFFER = 8192
_LONGEST_LINE = 1 << 16
_LONGEST_HEAD = 1 << 17
_MOST_INTERIM = 16
_LONGEST_CHUNK = 1 << 60
_MOST_KEPT = 512
_HEADER = re.compile(r"^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*)\r?$", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}) *$", re.ASCII)


class Exchange:
    """The connection that a request uses now, which any thread may end. Messages call its server, or proxy, `place`."""

    def __init__(self, until: float, crew: Crew) -> None:
        self.until = until
        self.crew = crew
        self.place = ""
        self.is_cut = False
        self._lock = threading.Lock()
        self._waits_for: socket.socket | Future[Any] | None = None

    def seconds(self) -> float:
        """Return how long there may be silence from now on. TimeoutError if the deadline has passed."""
        seconds = min(_SILENCE_SECONDS, self.until - time.monotonic())
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def use(self, waits_for: socket.socket | Future[Any] | None) -> None:
        """Have this be what `cut` ends; with None, another request may have the connection.

        ConnectionAbortedError if `cut` was called.
        """
        with self._lock:
            self._waits_for = waits_for
            if self.is_cut and waits_for is not None:
                raise ConnectionAbortedError("the request was cancelled")

    def cut(self) -> None:
        """End the connection. Its reader gets an error, or the end of the answer."""
        with self._lock:
            self.is_cut = True
            if isinstance(self._waits_for, Future):
                self._waits_for.cancel()
            elif self._waits_for is not None:
                # The method of ssl's sockets would have the reader take encrypted bytes for the answer.
                with suppress(OSError):  # It has ended.
                    socket.socket.shutdown(self._waits_for, socket.SHUT_RDWR)

    def look_up(self, host: str, port: int | None) -> Any:
        """Return the addresses of a host, as `socket.getaddrinfo` does. OSError if none was found in time.

        Only the system knows when it has looked up a name, so another thread waits for that.
        """
        # Bytes need no codec: a child that was forked while one was imported would never have it.
        look_up = partial(socket.getaddrinfo, host.encode(), port, type=socket.SOCK_STREAM)
        found: Future[Any] = Future()
        self.use(found)
        try:
            ipaddress.ip_address(host)
        except ValueError:
            self.crew.fulfil(found, look_up)
        else:
            return look_up()
        return found.result(self.seconds())


class _Plain(HTTPConnection):
    exchange: Exchange
    wire: socket.socket | None = None
    """The last socket, also while it is opened."""

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        super().close()
        if self.wire is not None:
            self.wire.close()

    def connect(self) -> None:
        super().connect()
        # Encryption in encryption has a socket inside.
        handshake, self.wire = self.wire, getattr(self.sock, "socket", self.sock)
        self.exchange.use(self.wire)
        if handshake is not None and handshake is not self.wire:
            handshake.close()
        if type(self.sock) is socket.socket:
            # The system knows how long there may be silence: Python would ask it each time before it receives.
            self.sock.settimeout(None)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", _SILENCE_SECONDS, 0))

    def take(self, exchange: Exchange) -> None:
        self.exchange, self.timeout = exchange, exchange.seconds()
        exchange.use(self.wire)
        if self.sock is not None and type(self.sock) is not socket.socket:
            self.sock.settimeout(self.timeout)

    def ask(self, method: str, head: bytes) -> Response:
        self.sock.sendall(head)
        response = Response(_Wire(self.sock), method=method)  # type: ignore[arg-type]
        response.begin()
        return response

    def _new_conn(self) -> socket.socket:
        error = OSError("it has no address")
        for family, kind, protocol, _, place in self.exchange.look_up(self.host, self.port):
            self.wire = sock = socket.socket(family, kind, protocol)
            try:
                self.exchange.use(sock)
                sock.settimeout(self.exchange.seconds())
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.connect(place)
            except OSError as failure:
                sock.close()
                error = failure
            else:
                return sock
        raise error


class _Secure(_Plain, HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        try:
            # The TLS socket takes the file descriptor from this one, and is known only after the handshake.
            self.wire = sock.dup()
            self.exchange.use(self.wire)
        except OSError:
            sock.close()
            raise
        return sock


class _Wire(io.RawIOBase):
    """A socket that waits in the system until all that is wanted has come: to wake up for a part costs CPU time."""

    def __init__(self, sock: Any) -> None:
        self._socket = sock
        self._all = socket.MSG_WAITALL if type(sock) is socket.socket else 0

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self, _BUFFER)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            if self._all and len(buffer) > _BUFFER:
                return self._socket.recv_into(buffer, 0, self._all)  # type: ignore[no-any-return]
            return self._socket.recv_into(buffer)  # type: ignore[no-any-return]
        except BlockingIOError:
            raise TimeoutError from None


class ContentRange(NamedTuple):
    """The bytes of an object that an answer has, and how many the whole object has."""

    start: int
    stop: int
    size: int


class Response(http.client.HTTPResponse):
    """An answer that is refused if anything in it is wrong. Its head is read here: email's parser is slow."""

    told: dict[str, str]
    """All headers, by their names in lower case. Two of a name are joined by a comma, unless they say the same."""
    part: ContentRange | None
    """The value of the header ``Content-Range``; None if it is missing or wrong in itself."""
    has_end: bool
    """Whether it says where its body ends."""
    connection: _Plain
    pool: urllib3.HTTPConnectionPool

    def begin(self) -> None:
        for _ in range(_MOST_INTERIM):
            version, self.status, self.reason = self._read_status()  # type: ignore[attr-defined]
            self.told = self._read_headers()
            if not 100 <= self.status < 200:  # noqa: PLR2004 - what is below says that an answer will come.
                break
        else:
            raise http.client.HTTPException(f"it has more than {_MOST_INTERIM} interim answers")
        if not version.startswith("HTTP/1."):
            raise http.client.UnknownProtocol(version)
        length, coding = self.told.get("content-length", ""), self.told.get("transfer-encoding", "")
        kept = self.told.get("connection", "" if version != "HTTP/1.0" else "close").lower()
        bodiless = self._method == "HEAD" or self.status in (204, 304)  # type: ignore[attr-defined]
        self.chunked = coding.lower() == "chunked" and not bodiless
        self.chunk_left = None
        self.length = 0 if bodiless else int(length) if not coding and _NUMBER.fullmatch(length) else None
        self.has_end = self.chunked or self.length is not None
        self.will_close = "close" in kept or not self.has_end
        self.part = _parse_range(self.told.get("content-range"))

    def _read_headers(self) -> dict[str, str]:
        # Nearly always, all of them have come with the first line.
        ahead = self.fp.peek()
        end = 0 if ahead.startswith(b"\r\n") else ahead.find(b"\r\n\r\n")
        text = bytearray(self.fp.read(end + 2) if end > 0 and b"\n\n" not in ahead[:end] else b"")
        while (line := self.fp.readline(_LONGEST_LINE)) not in (b"\r\n", b"\n"):
            text += line
            if not line.endswith(b"\n") or len(text) > _LONGEST_HEAD:
                raise http.client.HTTPException(f"its headers do not end, or one is {line[:50]!r}")
        told: dict[str, str] = {}
        found = _HEADER.findall(text.decode("latin-1"))
        if len(found) != text.count(b"\n"):
            raise http.client.HTTPException("one of its headers is invalid")
        for name, said in found:
            key, value = name.lower(), said.rstrip()
            told[key] = value if told.get(key, value) == value else f"{told[key]}, {value}"
        return told

    def flush(self) -> None:
        """Do nothing: nothing is written. The garbage collector may have closed the reader below first."""

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if not 0 <= size < _LONGEST_CHUNK:
            raise http.client.HTTPException("one of its chunks has an invalid length")
        return size


def _parse_range(text: str | None) -> ContentRange | None:
    found = _RANGE.match(text) if text else None
    if found is None:
        return None
    first, final, whole = found.groups()
    size = int(whole)
    if first is None:
        return ContentRange(0, 0, size)
    start, last = int(first), int(final)
    return ContentRange(start, last + 1, size) if start <= last < size else None


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


class _Route(NamedTuple):
    pool: urllib3.HTTPConnectionPool
    place: str
    """The server, and the proxy if there is one, as messages name them."""
    before: str = ""
    """The text before the target of each request."""
    headers: str = ""
    """The headers of each request for the proxy."""


class Connections:
    """The connections of a store, by their servers. `learn` is given the secrets of the environment's proxies."""

    def __init__(self, opened: Callable[[], None], learn: Callable[[object], None]) -> None:
        self._opened = opened
        self._learn = learn
        self._lock = threading.Lock()
        self._all: weakref.WeakSet[_Plain] = weakref.WeakSet()
        self._routes: dict[Origin, _Route] = {}
        self._context: ssl.SSLContext | None = None

    def ask(self, exchange: Exchange, method: str, address: Address, headers: dict[str, str]) -> Response:
        """Return the answer of a server as soon as its head is there. The exchange can be cut during the call."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        while True:
            route = self._routes.get(address.origin) or self._find_route(address.origin)
            exchange.place = route.place
            head = f"{method} {route.before}{address.target} HTTP/1.1\r\n{lines}{route.headers}\r\n".encode()
            try:
                # urllib3 has no public way to take a connection out of a pool.
                connection = cast("_Plain", route.pool._get_conn())  # noqa: SLF001
            except ClosedPoolError:  # Another thread has closed all of them.
                continue
            reused = connection.sock is not None
            try:
                connection.take(exchange)
                if not reused:
                    self._all.add(connection)
                    if connection.proxy is not None and not route.before:
                        pool = route.pool
                        connection.set_tunnel(
                            pool.host, pool.port, pool.proxy_headers, connection.proxy.scheme or "http"
                        )
                    connection.connect()
                    self._opened()
                response = connection.ask(method, head)
            except BaseException as error:
                if connection.proxy is not None and not connection.has_connected_to_proxy:
                    exchange.place = f"the proxy {connection.host}:{connection.port} of the environment"
                connection.close()
                # The server has closed it while it was idle.
                if not reused or exchange.is_cut or not isinstance(error, ConnectionError):
                    raise
            else:
                response.connection, response.pool = connection, route.pool
                return response

    def end(self, response: Response) -> None:
        """Keep the connection of an answer for the next request if that was read to its end; otherwise close it."""
        connection = response.connection
        connection.exchange.use(None)
        if not response.isclosed() or response.will_close:
            connection.close()
        response.pool._put_conn(connection)  # noqa: SLF001 - as above.

    def close(self) -> None:
        """Close the connections that are idle, and the others when they become idle."""
        routes, self._routes = self._routes, {}
        for route in routes.values():
            route.pool.close()

    def abandon(self) -> None:
        """Let everything go in a forked process, which has copies of it, without a word to the servers."""
        for each in list(self._all):
            each.close()
        for route in self._routes.values():
            if route.pool.pool is not None:
                # Another thread may have held its lock, which is taken when the pool goes.
                route.pool.pool.__init__()  # type: ignore[misc]

    def _find_route(self, origin: Origin) -> _Route:
        scheme, host, port = origin
        proxies = getproxies()
        proxy = proxies.get(scheme) or proxies.get("all") or ""
        if proxy_bypass(f"{host}:{port}"):
            proxy = ""
        kind, _, rest = (proxy if "://" in proxy else f"http://{proxy}").partition("://")
        if kind.lower() not in ("http", "https"):
            variable = f"{scheme if proxies.get(scheme) else 'all'}_proxy".upper()
            raise StoreError(
                f"the environment's {variable} names a proxy of the kind {kind!r}, and only 'http' and 'https' are "
                f"supported: unset {variable}, name such a proxy in it, or have NO_PROXY name {host}"
            )
        with self._lock:
            if self._context is None and "https" in (scheme, kind.lower()):
                self._context = ssl.create_default_context()
        options: dict[str, Any] = {"maxsize": _MOST_KEPT, "ssl_context": self._context}
        user = unquote(rest.partition("/")[0].rpartition("@")[0])
        told = urllib3.make_headers(proxy_basic_auth=user) if user else {}
        self._learn([user, user.partition(":")[2], told])
        manager = urllib3.PoolManager(**options)
        if proxy:
            manager = urllib3.ProxyManager(
                f"{kind}://{rest}", proxy_headers=told, proxy_ssl_context=self._context, **options
            )
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        pool = manager.connection_from_host(host, port, scheme)
        route = _Route(pool, host)
        if pool.proxy is not None:
            route = _Route(pool, f"{host} by way of the proxy {pool.proxy.host}:{pool.proxy.port}")
            if scheme == "http":
                headers = "".join(f"{key}: {value}\r\n" for key, value in told.items())
                route = route._replace(before=f"http://{host_header(origin)}", headers=headers)
        return self._routes.setdefault(origin, route)

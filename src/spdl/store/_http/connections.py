"""Connections of urllib3 that another thread can end, in pools for each server."""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import socket
import ssl
import struct
import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import urllib3
import urllib3.connection
from urllib3.exceptions import ClosedPoolError, ProtocolError
from urllib3.util.response import assert_header_parsing

from spdl.store._http.address import host_header
from spdl.store._protocol.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spdl.store._http.address import Address, Origin
    from spdl.store._reading.crew import Crew

__all__ = ["SILENCE_SECONDS", "Answered", "Line", "Pools"]

SILENCE_SECONDS = 20

_ONCE = urllib3.Retry(total=False, redirect=False)
_FRAMING = ("content-length", "transfer-encoding")
_BUFFER = 8192
_MOST_INTERIM = 16
_LONGEST_CHUNK = 1 << 60
_MOST_KEPT = 512


class Line:
    """A request's connection, which any thread may end.

    Attributes:
        target: What is asked for, as it stands in the request: urllib3 would write it otherwise.
        until: When nobody waits for an answer anymore, by the monotonic clock.
        reused: Whether the connection has carried an answer before.
        opened: Whether it was opened for this request.
        connections: All of the store.
        proxy: The host and port of the proxy that the request goes by; "" if by none.
        is_cut: Whether somebody has ended it.

    Args:
        pools: Where the connections are.
        until: When nobody waits for an answer anymore, by the monotonic clock.
        crew: The threads that look up names.
    """

    def __init__(self, pools: Pools, until: float, crew: Crew) -> None:
        self.target = ""
        self.proxy = ""
        self.until = until
        self.reused = True
        self.opened = False
        self.is_cut = False
        self.connections = pools.connections
        self._lock = pools.lock
        self._connection: Any = None
        self._crew = crew
        self._addresses: SimpleQueue[Any] = SimpleQueue()

    def begin(self, target: str, proxy: Any) -> None:
        """Ask for something, over no connection yet, and by a proxy if there is one: urllib3's URL of it."""
        self.target = target
        self.proxy = proxy and f"{proxy.host}:{proxy.port}"
        self.reused, self.opened = True, False

    def note_opening(self, *, done: bool) -> None:
        """Note that a connection is opened for this, or has been."""
        self.reused, self.opened = False, done

    def take(self, connection: Any) -> None:
        """Use a connection.

        Raises:
            ConnectionAbortedError: If nobody waits for an answer.
        """
        with self._lock:
            if self.is_cut:
                raise ConnectionAbortedError("nobody waits for it")
            connection.line, self._connection = self, connection

    def look_up(self, host: str, port: int | None, seconds: float) -> Any:
        """Return the addresses of a host, as `socket.getaddrinfo` does.

        Only the system knows when it has looked up a name, so another thread waits for that.

        Raises:
            OSError: If it has none, or none was found in so many seconds, or nobody waits for an answer.
        """

        def look_up() -> None:
            try:
                # Bytes need no codec: a child that was forked while one was imported would never have it.
                self._addresses.put(socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for.
                self._addresses.put(error)

        if _is_number(host):
            look_up()
        elif not self._crew.help(look_up):
            raise OSError("too many threads wait for the addresses of servers")
        try:
            found = self._addresses.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if isinstance(found, Exception):
            raise found
        return found

    def hold(self, connection: Any, wire: Any) -> None:
        """Have this be the socket by which a connection is ended."""
        with self._lock:
            before, connection.wire = connection.wire, wire
            if before is not None and before is not wire:
                before.close()

    def cut(self) -> None:
        """End the connection. Who reads from it is told an error, or the end of the answer."""
        self._addresses.put(ConnectionAbortedError("nobody waits for it"))
        with self._lock:
            self.is_cut = True
            connection = self._connection
            if connection is not None and connection.line is self and connection.wire is not None:
                # The method of ssl's sockets would have the reader take encrypted bytes for the answer.
                with suppress(OSError):  # It has ended.
                    socket.socket.shutdown(connection.wire, socket.SHUT_RDWR)


class _Asking(threading.local):
    line: Line


_asking = _Asking()
"""The line of the request that each thread carries: urllib3 hands none to the connection that it chooses."""


class _Wire(io.RawIOBase):
    """A socket that waits in the system until all that is wanted has come: to wake up for a part costs CPU time."""

    def __init__(self, sock: socket.socket, file: Any) -> None:
        self._socket = sock
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            return self._socket.recv_into(buffer, 0, socket.MSG_WAITALL if len(buffer) > _BUFFER else 0)
        except BlockingIOError:
            raise TimeoutError from None

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer of which nothing that is wrong is taken."""

    def __init__(self, sock: Any, method: str) -> None:
        super().__init__(sock, method=method)
        if type(sock) is socket.socket:
            self.fp = io.BufferedReader(_Wire(sock, self.fp.detach()), _BUFFER)

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(_MOST_INTERIM):
            found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= found[1] < 200:  # noqa: PLR2004 - what is below says that an answer will come.
                return found
            http.client.parse_headers(self.fp)
        raise http.client.HTTPException(f"it has more than {_MOST_INTERIM} interim answers")

    def begin(self) -> None:
        super().begin()
        if self.msg.defects or self.msg.get_payload():
            assert_header_parsing(self.msg)
        self.told = [(name.lower(), value.strip()) for name, value in self.msg.items()]
        if any("\n" in value for _, value in self.told):
            raise http.client.HTTPException("one of its headers goes on in another line")

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if not 0 <= size < _LONGEST_CHUNK:
            raise http.client.HTTPException("one of its chunks has a length that none can have")
        return size


class Answered(urllib3.HTTPResponse):
    """An answer of urllib3.

    Attributes:
        told: All headers, by their names in lower case. Its own are only those that say how the body comes.
    """

    told: dict[str, str]


class _Connection(urllib3.connection.HTTPConnection):
    line: Line | None = None
    wire: socket.socket | None = None
    """The last socket, also while it is opened, and while the rest of an answer is read that ends with it."""

    def connect(self) -> None:
        line = _asking.line
        line.note_opening(done=False)
        line.connections.add(self)
        try:
            super().connect()
        finally:
            # Encryption in encryption has a socket inside.
            line.hold(self, getattr(self.sock, "socket", self.sock))
        line.note_opening(done=True)
        if type(self.sock) is socket.socket:
            # The system knows how long there may be silence: Python would ask it each time before it receives.
            self.sock.settimeout(None)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", SILENCE_SECONDS, 0))

    def request(self, method: str, _: str, *, headers: Mapping[str, str], **__: Any) -> None:  # type: ignore[override]
        # As one text: headers were checked once, and not for each request, which saves a fifth of the time.
        line = _asking.line
        line.take(self)
        if self.sock is None:
            self.connect()
        if type(self.sock) is not socket.socket:
            self.sock.settimeout(self.timeout)
        self._asked = method
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        self.sock.sendall(f"{method} {line.target} HTTP/1.1\r\n{lines}\r\n".encode())

    def getresponse(self) -> Answered:  # type: ignore[override]
        answer = _Response(self.sock, method=self._asked)
        try:
            answer.begin()
            framing = [each for each in answer.told if each[0] in _FRAMING]
            response = Answered(
                body=answer, headers=urllib3.HTTPHeaderDict(framing), status=answer.status,
                original_response=answer, preload_content=False, decode_content=False, request_method=self._asked,
            )  # fmt: skip
            response.told = dict(answer.told)
        except BaseException:
            answer.close()
            raise
        if answer.will_close:
            self.close()
        return response

    def _new_conn(self) -> socket.socket:
        line, error = _asking.line, OSError("it has no address")

        def seconds() -> float:
            return max(1e-3, min(float(self.timeout or 0), line.until - time.monotonic()))

        for family, kind, protocol, _, place in line.look_up(self.host, self.port, seconds()):
            self.wire = sock = socket.socket(family, kind, protocol)
            try:
                line.take(self)
                sock.settimeout(seconds())
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.connect(place)
            except OSError as failure:
                sock.close()
                error = failure
            else:
                return sock
        raise error


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _SecureConnection(_Connection, urllib3.connection.HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        try:
            # What encrypts it takes the socket away from this one, and gives its own only after the handshake.
            self.wire = sock.dup()
            _asking.line.take(self)
        except OSError:
            sock.close()
            raise
        return sock


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection  # type: ignore[assignment]


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection  # type: ignore[assignment]


class _OwnPools:
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


class _Direct(_OwnPools, urllib3.PoolManager):
    pass


class _Proxied(_OwnPools, urllib3.ProxyManager):
    pass


class Pools:
    """The connections of a store, for each server. Threads share them.

    Attributes:
        lock: Is held by whoever takes a connection, or ends one.
        connections: All that were opened.

    Args:
        opened: Called when a connection is opened.
        learn: Is given what is secret of the environment's proxies.
    """

    def __init__(self, opened: Callable[[], None], learn: Callable[[object], None]) -> None:
        self.lock = threading.Lock()
        self.connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._opened = opened
        self._learn = learn
        self._pools: dict[Origin, tuple[urllib3.HTTPConnectionPool, str]] = {}
        self._context: ssl.SSLContext | None = None

    def ask(self, line: Line, method: str, address: Address, headers: dict[str, str], seconds: float) -> Answered:
        """Return the answer of a server as soon as its head is there.

        Args:
            line: Is taken.
            method: Such as ``"GET"``.
            address: Whom to ask for what.
            headers: What to tell it.
            seconds: How long there may be silence.

        Raises:
            urllib3.exceptions.HTTPError: If there is none.
        """
        _asking.line = line
        while True:
            found = self._pools.get(address.origin)
            if found is None:
                with self.lock:
                    found = self._pools.setdefault(address.origin, self._pool_of(address.origin))
            pool, before = found
            line.begin(before + address.target, pool.proxy)
            try:
                return pool.urlopen(  # type: ignore[return-value]
                    method, line.target, headers=headers, retries=_ONCE, redirect=False,
                    assert_same_host=False, timeout=seconds, preload_content=False, decode_content=False,
                )  # fmt: skip
            except ClosedPoolError:  # By another thread.
                continue
            except ProtocolError as error:
                # The server has closed it while nobody used it.
                if not line.reused or line.is_cut or not isinstance(error.args[-1], ConnectionError):
                    raise
            finally:
                if line.opened:
                    self._opened()

    def close(self) -> None:
        """Close the connections that nobody uses, and the others when they are not used anymore."""
        with self.lock:
            pools, self._pools = self._pools, {}
        for pool, _ in pools.values():
            pool.close()

    def abandon(self) -> None:
        """Let everything go in a forked process, which has copies of it, and threads may have held any lock."""
        for each in list(self.connections):
            if each.wire is not None:
                with suppress(OSError):
                    os.close(each.wire.detach())
        for pool, _ in self._pools.values():
            if pool.pool is not None:
                pool.pool.__init__()  # type: ignore[misc]  # Its lock is taken when the pool goes.

    def _pool_of(self, origin: Origin) -> tuple[urllib3.HTTPConnectionPool, str]:
        """Return the pool for a server, and what stands before the target of each request."""
        scheme, host, port = origin
        options: dict[str, Any] = {"maxsize": _MOST_KEPT}
        if self._context is None and scheme == "https":
            self._context = ssl.create_default_context()
        if scheme == "https":
            options["ssl_context"] = self._context
        proxies = getproxies()
        proxy = proxies.get(scheme) or proxies.get("all")
        manager: urllib3.PoolManager = _Direct(**options)
        before = ""
        if proxy and not proxy_bypass(f"{host}:{port}"):
            proxy = proxy if "://" in proxy else f"http://{proxy}"
            kind, _, rest = proxy.partition("://")
            if kind.lower() not in ("http", "https"):
                variable = f"{scheme if proxies.get(scheme) else 'all'}_proxy".upper()
                raise StoreError(
                    f"the environment's {variable} names a proxy of the kind {kind!r}, and only 'http' and 'https' are "
                    f"supported: unset {variable}, name such a proxy in it, or have NO_PROXY name {host}"
                )
            user = unquote(rest.partition("/")[0].rpartition("@")[0])
            headers = urllib3.make_headers(proxy_basic_auth=user) if user else {}
            self._learn([user, user.partition(":")[2], headers])
            manager = _Proxied(proxy, proxy_headers=headers, **options)
            before = f"http://{host_header(origin)}" if scheme == "http" else ""
        return manager.connection_from_host(host, port, scheme), before

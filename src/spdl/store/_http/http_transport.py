"""Carries requests over HTTP."""

from __future__ import annotations

import os
import re
import selectors
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from spdl.store._http.address import Address
from spdl.store._http.exchange import HTTPExchange
from spdl.store._http.pool import Pool
from spdl.store._http.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._http.connection import Connection
    from spdl.store._http.credentials import Credentials
    from spdl.store._reading.attempts import Exchange, Request

__all__ = ["HTTPTransport"]

# A plus would be another path where servers take it for a space, as S3 does.
_SAFE = "/~!$&'()*,;=:@"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")


class HTTPTransport:
    """Asks one server for the objects below an address.

    One thread sends, and waits for all answers at once. Connections stay registered with the system as long as they
    live, also those that are kept for later: so a server that closes one is noticed at once.

    Attributes:
        store: The repr of the store, which errors name.
        credentials: What the server is told of who asks.
        origin: The server.

    Args:
        store: The repr of the store, which errors name.
        address: The address that paths are relative to.
        credentials: What the server is told of who asks.
        count: Called with the name of a counter.
    """

    def __init__(self, store: str, address: Address, credentials: Credentials, count: Callable[[str], None]) -> None:
        self.store = store
        self.credentials = credentials
        self.origin = address.origin
        self.monotonic = time.monotonic
        self._pool = Pool(lambda: count("connections"))
        self._resolver = Resolver(self.wake)
        self._unresolved: dict[tuple[str, str, int], list[HTTPExchange]] = {}
        self._users: dict[Connection, HTTPExchange] = {}
        self._done: list[Exchange] = []
        self._selector: selectors.BaseSelector | None = None
        self._pipe: tuple[int, int] | None = None
        path, mark, query = address.target.partition("?")
        # A quoted slash is one, too, for servers whose names of objects have slashes in them.
        self._folder = path if path.endswith("/") or path[-3:].upper() == "%2F" else path + "/"
        self._query = mark + query
        self._count = count

    def prepare(self) -> None:
        """Have the credentials ready."""
        self.credentials.lines()

    def begin(self) -> None:
        """Open what is waited with. From here on `wake` is heard."""
        self._pipe = os.pipe()
        for descriptor in self._pipe:
            os.set_blocking(descriptor, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe[0], selectors.EVENT_READ)

    def send(self, request: Request) -> HTTPExchange:
        """Send a request, or begin to open a connection for it."""
        path = request.path
        if not _PLAIN.fullmatch(path):
            path = quote(path, _SAFE, errors="surrogateescape")
        exchange = HTTPExchange(self, request, Address(self.origin, f"{self._folder}{path}{self._query}"))
        if exchange.done:
            self._done.append(exchange)
        return exchange

    def wait(self, seconds: float | None) -> Sequence[Exchange]:
        """Return exchanges that are done, as soon as something has happened; none after so many seconds, or `wake`."""
        found = self._selecting.select(0.0 if self._done else seconds)
        done, self._done = self._done, []
        for key, _ in found:
            connection = key.data
            if connection is None:
                assert self._pipe is not None
                os.read(self._pipe[0], 4096)
                self._take_resolved(done)
                continue
            exchange = self._users.get(connection)
            if exchange is not None:
                exchange.ready()
                if exchange.done:
                    done.append(exchange)
            elif connection.fileno() >= 0:  # Nobody has asked anything: it was closed.
                self.discard(connection)
        return done

    def wake(self) -> None:
        """Have `wait` return, now or when it is called next."""
        pipe = self._pipe
        if pipe is not None:
            with suppress(BlockingIOError, OSError):  # It is full: `wait` will return.
                os.write(pipe[1], b"\0")

    def rest(self) -> None:
        """Close the connections that nobody uses."""
        for connection in self._pool.idle():
            self.discard(connection)
        if self._selector is not None:
            self._selector.close()
        self._close_pipe()
        self._selector = self._pipe = None

    def abandon(self) -> None:
        """Close everything, in a process forked from that which uses it.

        Nothing is unregistered: both processes share what the system knows of it.
        """
        self._pool.abandon()
        if self._selector is not None:
            self._selector.close()
        self._close_pipe()

    def _close_pipe(self) -> None:
        for descriptor in self._pipe or ():
            os.close(descriptor)

    @property
    def _selecting(self) -> selectors.BaseSelector:
        assert self._selector is not None
        return self._selector

    # ---- for exchanges ----------------------------------------------------------------------------------------

    def connect(self, exchange: HTTPExchange, origin: tuple[str, str, int], *, fresh: bool) -> Connection | None:
        """Return a connection for an exchange: one that was used last, or a new one if there is none.

        None means that the server has to be found first. The exchange is told.

        Args:
            exchange: Who uses it.
            origin: The server.
            fresh: Whether it has to be a new one.

        Raises:
            OSError: If there is no way to the server.
        """
        connection = None if fresh else self._pool.take(origin)
        while connection is not None and not connection.is_silent():
            self.discard(connection)
            connection = self._pool.take(origin)
        if connection is None:
            address = self._resolver.next(origin)
            if address is None:
                self._unresolved.setdefault(origin, []).append(exchange)
                self._resolver.ask(origin)
                return None
            connection = self._pool.open(origin, address)
            self._selecting.register(connection.fileno(), connection.interest, connection)
        self._users[connection] = exchange
        return connection

    def watch(self, connection: Connection) -> None:
        """Wait for another kind of event of a connection."""
        self._selecting.modify(connection.fileno(), connection.interest, connection)

    def keep(self, connection: Connection) -> None:
        """Take a connection back whose answer was received to its end."""
        del self._users[connection]
        for old in self._pool.put(connection):
            self.discard(old)

    def discard(self, connection: Connection) -> None:
        """Close a connection."""
        self._users.pop(connection, None)
        with suppress(KeyError, ValueError):
            self._selecting.unregister(connection.fileno())
        self._pool.remove(connection)

    def redirected(self) -> None:
        """Count that the server named another place."""
        self._count("redirects")

    def _take_resolved(self, done: list[Exchange]) -> None:
        for origin, error in self._resolver.found():
            for exchange in self._unresolved.pop(origin, ()):
                exchange.resolved(error)
                if exchange.done:
                    done.append(exchange)

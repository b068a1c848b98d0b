"""Carries requests over HTTP."""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from spdl.store._http.exchange import HTTPExchange
from spdl.store._http.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._http.address import Address
    from spdl.store._http.credentials import Credentials
    from spdl.store._reading.attempts import Exchange, Request

__all__ = ["HTTPTransport"]

_SAFE = "/~!$&'()*+,;=:@"


class HTTPTransport:
    """Asks one server for the objects below an address. Threads share it.

    Attributes:
        store: The repr of the store, which errors name.
        credentials: What the server is told of who asks.
        origin: The server.
        pool: Its connections.

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
        self.pool = Pool(lambda: count("connections"))
        self.monotonic = time.monotonic
        self._address = address
        path, mark, query = address.target.partition("?")
        self._folder = path if path.endswith("/") else path + "/"
        self._query = mark + query
        self._count = count

    def redirected(self) -> None:
        """Count that the server named another place."""
        self._count("redirects")

    def send(self, request: Request) -> HTTPExchange:
        """Send a request, or begin to open a connection for it."""
        target = f"{self._folder}{quote(request.path, _SAFE, errors='surrogateescape')}{self._query}"
        return HTTPExchange(self, request, self._address._replace(target=target))

    def wait(self, exchanges: Sequence[Exchange], seconds: float | None) -> None:
        """Return when one of the exchanges is done or has moved on, or after so many seconds."""
        if not exchanges:
            time.sleep(seconds or 0)
            return
        if any(exchange.done for exchange in exchanges):
            return
        poll = select.poll()
        by_descriptor: dict[int, HTTPExchange] = {}
        for exchange in exchanges:
            assert isinstance(exchange, HTTPExchange)
            descriptor = exchange.fileno()
            by_descriptor[descriptor] = exchange
            poll.register(descriptor, exchange.interest)
        for descriptor, _ in poll.poll(None if seconds is None else math.ceil(1000 * seconds)):
            by_descriptor[descriptor].ready()

"""Connections that are kept and used again."""

from __future__ import annotations

import ssl
import time
from collections import deque
from typing import TYPE_CHECKING

from spdl.store._http.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.store._http.address import Origin
    from spdl.store._http.resolver import SocketAddress

__all__ = ["Pool"]

_IDLE_SECONDS = 60.0


class Pool:
    """The connections of a store. One thread uses it.

    Args:
        opened: Called when a connection is opened.
    """

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened
        self._idle: dict[Origin, deque[Connection]] = {}
        self._all: set[Connection] = set()
        self._context: ssl.SSLContext | None = None

    def take(self, origin: Origin) -> Connection | None:
        """Return the connection that was used last; None if there is none that nobody uses."""
        idle = self._idle.get(origin)
        return idle.pop() if idle else None

    def open(self, origin: Origin, address: SocketAddress) -> Connection:
        """Return a new connection.

        Raises:
            OSError: If there is no way to it.
        """
        connection = Connection(origin, address, self._encryption() if origin[0] == "https" else None)
        self._all.add(connection)
        self._opened()
        return connection

    def put(self, connection: Connection) -> list[Connection]:
        """Keep a connection whose answer was received to its end; return those that were not used for too long."""
        now = time.monotonic()
        connection.reuse(now)
        idle = self._idle.setdefault(connection.origin, deque())
        idle.append(connection)
        old = []
        while now - idle[0].idle_since > _IDLE_SECONDS:
            old.append(idle.popleft())
        return old

    def remove(self, connection: Connection) -> None:
        """Close a connection, which may be one that is kept."""
        self._all.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle and connection in idle:
            idle.remove(connection)
        connection.close()

    def idle(self) -> list[Connection]:
        """Return the connections that nobody uses."""
        return [each for kept in self._idle.values() for each in kept]

    def abandon(self) -> None:
        """Close what a parent process has open as well, which can go on."""
        for each in self._all:
            each.close()

    def _encryption(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

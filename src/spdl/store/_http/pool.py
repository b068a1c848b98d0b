"""Connections that are kept and used again."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from spdl.store._http.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pool"]

_IDLE_SECONDS = 60.0
_RESOLVED_SECONDS = 60.0

Origin = tuple[str, str, int]


class Pool:
    """The connections of a store. Threads share it.

    Args:
        opened: Called when a connection is opened.
    """

    def __init__(self, opened: Callable[[], None]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._idle: dict[Origin, deque[Connection]] = {}
        self._addresses: dict[Origin, tuple[float, deque[tuple[int, object]]]] = {}
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def take(self, origin: Origin, *, fresh: bool) -> Connection:
        """Return a connection that was used last, or a new one if there is none or it has to be fresh.

        Raises:
            OSError: If the server cannot be found.
        """
        if not fresh:
            with self._lock:
                idle = self._idle.get(origin)
                if idle:
                    return idle.pop()
        connection = Connection(origin, self._address(origin), self._encryption() if origin[0] == "https" else None)
        self._opened()
        return connection

    def put(self, connection: Connection) -> None:
        """Keep a connection whose answer was received to its end."""
        now = time.monotonic()
        connection.reuse(now)
        old: list[Connection] = []
        with self._lock:
            if self._closed:
                old.append(connection)
            else:
                idle = self._idle.setdefault(connection.origin, deque())
                idle.append(connection)
                while now - idle[0].idle_since > _IDLE_SECONDS:
                    old.append(idle.popleft())
        for each in old:
            each.close()

    def close(self) -> None:
        """Close all connections that are not in use, and the others when they are put back."""
        with self._lock:
            self._closed = True
            idle = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for each in idle:
            each.close()

    def abandon(self) -> None:
        """Close what a parent process has open as well, which can go on. No lock is taken: nobody would release it."""
        for kept in self._idle.values():
            for each in kept:
                each.close()

    def _encryption(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context()
                self._context.set_alpn_protocols(["http/1.1"])
            return self._context

    def _address(self, origin: Origin) -> tuple[int, object]:
        """Return the next of the server's addresses, so that connections are spread over all."""
        now = time.monotonic()
        with self._lock:
            until, known = self._addresses.get(origin, (0.0, deque()))
            if now < until:
                known.rotate(-1)
                return known[-1]
        found = socket.getaddrinfo(origin[1], origin[2], type=socket.SOCK_STREAM)
        known = deque((int(family), address) for family, _, _, _, address in found)
        with self._lock:
            self._addresses[origin] = (now + _RESOLVED_SECONDS, known)
            return known[0]

"""The addresses of servers, which are looked up in threads: the system may take long."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.store._http.address import Origin

__all__ = ["Resolver", "SocketAddress"]

_GOOD_SECONDS = 60.0

SocketAddress = tuple[int, object]
"""A family of addresses, and an address of it."""


class Resolver:
    """Looks addresses up, and knows them for a minute. One thread uses it, except for `_look_up`.

    Args:
        wake: Called in another thread when `found` has something to say.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._known: dict[Origin, tuple[float, deque[SocketAddress]]] = {}
        self._asked: set[Origin] = set()
        self._found: deque[tuple[Origin, list[SocketAddress] | OSError]] = deque()

    def next(self, origin: Origin) -> SocketAddress | None:
        """Return the next of a server's addresses, so that connections are spread; None if it has to be asked."""
        until, known = self._known.get(origin, (0.0, None))
        if known is None or time.monotonic() >= until:
            try:
                known = self._note(origin, _addresses(origin, socket.AI_NUMERICHOST))
            except OSError:  # It is a name.
                return None
        known.rotate(-1)
        return known[-1]

    def ask(self, origin: Origin) -> None:
        """Look the addresses of a server up; `found` will name it."""
        if origin not in self._asked:
            self._asked.add(origin)
            threading.Thread(target=self._look_up, args=(origin,), name="spdl-resolver", daemon=True).start()

    def found(self) -> list[tuple[Origin, OSError | None]]:
        """Return the servers that were looked up since the last time, and why that failed, if it did."""
        news: list[tuple[Origin, OSError | None]] = []
        while self._found:
            origin, answer = self._found.popleft()
            self._asked.discard(origin)
            if isinstance(answer, OSError):
                news.append((origin, answer))
            else:
                self._note(origin, answer)
                news.append((origin, None))
        return news

    def _note(self, origin: Origin, addresses: list[SocketAddress]) -> deque[SocketAddress]:
        known = deque(addresses)
        self._known[origin] = (time.monotonic() + _GOOD_SECONDS, known)
        return known

    def _look_up(self, origin: Origin) -> None:
        try:
            self._found.append((origin, _addresses(origin, 0)))
        except OSError as error:
            self._found.append((origin, error))
        except Exception as error:  # noqa: BLE001 - a host that is no name, say. Nobody may wait for ever.
            self._found.append((origin, OSError(str(error))))
        self._wake()


def _addresses(origin: Origin, flags: int) -> list[SocketAddress]:
    # Bytes need no codec: a child that was forked while one was imported would never have it.
    host = origin[1].encode() if origin[1].isascii() else origin[1]
    found = socket.getaddrinfo(host, origin[2], type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), address) for family, _, _, _, address in found]

"""A server in threads: what it does with a connection is a function."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["listening"]


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[str]:
    """Run a server, whose URL this yields. At its end all connections end, and so do its threads.

    Args:
        serve: Is called with each connection, in a thread of its own. What goes wrong with the connection ends it.
        host: Where it listens.
    """
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def begin(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connections.append(server.accept()[0])
                threads.append(threading.Thread(target=begin, args=(connections[-1],)))
                threads[-1].start()

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, backlog=128) as server:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()

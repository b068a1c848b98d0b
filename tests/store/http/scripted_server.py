"""A web server whose every byte a test writes."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, TypeAlias

from tests.store.socket_server import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LETTERS = b"abcdefghij"

Reply: TypeAlias = "bytes | list[bytes]"
"""What is sent: at once, or in pieces that go on their way one by one."""


def say(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def say_part(content: bytes, wanted: str, etag: str = '"1"') -> bytes:
    """Return a good answer to a request for a range, or for the size if there is none."""
    if not wanted:
        return say("200 OK", Content_Length=str(len(content)), ETag=etag)
    start, last = map(int, wanted.split("-"))
    part = content[start : last + 1]
    place = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
    return say("206 Partial", part, Content_Length=str(len(part)), Content_Range=place, ETag=etag)


@contextlib.contextmanager
def serving(
    answer: Callable[[str, str], tuple[Reply, bool]],
    *,
    connections: list[socket.socket] | None = None,
    heads: list[str] | None = None,
    host: str = "127.0.0.1",
) -> Iterator[tuple[str, list[str]]]:
    """Run a server. It sends what a function of the method and the range returns; the connection stays if it says.

    Args:
        answer: The function.
        connections: Is given each connection.
        heads: Is given the head of each request.
        host: Where it listens.
    """
    asked: list[str] = []

    def serve(connection: socket.socket) -> None:
        if connections is not None:
            connections.append(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(4096):
            head = data.decode()
            if heads is not None:
                heads.append(head)
            method = head.partition(" ")[0]
            wanted = head.partition("Range: bytes=")[2].partition("\r\n")[0]
            asked.append(f"{method} {wanted}".strip())
            reply, stays = answer(method, wanted)
            for piece in [reply] if isinstance(reply, bytes) else reply:
                connection.sendall(piece)
            if not stays:
                return

    with listening(serve, host) as url:
        yield url, asked

"""The messages between `spdl record PID` and the process: lines of JSON, and the trace after the last one.

The process greets. The request names some seconds; the answer is that it has begun, or why not. A message stops it, or
the seconds pass. Then the process sends the length of the trace, and the trace. If one of the two ends, the system
closes the connection, and the other one notices.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, TypeGuard

# No recording is asked for that takes longer than a day.
MOST_SECONDS = 86_400.0

_MOST_LINE = 4096
_CHUNK = 1 << 16


class MessageStreamError(Exception):
    """Raised if the other side has ended, or says what it should not."""


class MessageStream:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""

    def is_of_this_user(self) -> bool:
        """Return whether the other side runs as the user of this process: the system knows."""
        credentials = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, user, _ = struct.unpack("3i", credentials)
        return bool(user == os.geteuid())

    def say(self, **message: object) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def send(self, content: memoryview) -> None:
        self._connection.sendall(content)

    def hear(self, seconds: float) -> dict[str, Any]:
        """Return the next line.

        Raises:
            TimeoutError: None comes within this number of seconds.
            MessageStreamError: The other side has ended, or did not send a line.
            OSError: The connection has failed.
        """
        self._connection.settimeout(seconds)
        while b"\n" not in self._unread:
            if len(self._unread) > _MOST_LINE:
                raise MessageStreamError("a line is too long")
            received = self._connection.recv(_CHUNK)
            if not received:
                raise MessageStreamError("the other side has ended")
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MessageStreamError("a line is not JSON") from error
        if not isinstance(message, dict):
            raise MessageStreamError("a line is not an object")
        return message

    def receive(self, size: int, seconds: float) -> Iterator[bytes]:
        """Yield the bytes that a line has announced. It raises as `hear` does, if a piece takes longer than that."""
        self._connection.settimeout(seconds)
        while size:
            piece, self._unread = self._unread[:size] or self._connection.recv(min(size, _CHUNK)), self._unread[size:]
            if not piece:
                raise MessageStreamError("the other side has ended")
            size -= len(piece)
            yield piece


def are_seconds(value: object) -> TypeGuard[float]:
    # Values of other types cannot be compared.
    return isinstance(value, (int, float)) and 0 < value <= MOST_SECONDS

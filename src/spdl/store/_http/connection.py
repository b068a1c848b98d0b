"""A connection to a server, which is opened without waiting."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl

__all__ = ["Connection"]

_HAS_LOW_MARK = hasattr(socket, "SO_RCVLOWAT")
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)


class Connection:
    """A connection. One thread uses it at a time.

    Attributes:
        origin: The server.
        reused: Whether it has carried an answer.
        idle_since: When it was last used.
        encrypted: Whether bytes may have been taken from the system that nobody has received yet.
        interest: What to wait for before `advance` or the next bytes.

    Args:
        origin: The server, as scheme, host and port.
        address: One of its addresses, as ``socket.getaddrinfo`` lists them.
        context: How to encrypt; None if nothing is to be encrypted.

    Raises:
        OSError: If there is no way to it.
    """

    __slots__ = (
        "_address",
        "_connected",
        "_context",
        "_low",
        "_socket",
        "encrypted",
        "idle_since",
        "interest",
        "origin",
        "reused",
    )

    def __init__(
        self, origin: tuple[str, str, int], address: tuple[int, object], context: ssl.SSLContext | None
    ) -> None:
        self.origin = origin
        self.reused = False
        self.idle_since = 0.0
        self.interest = selectors.EVENT_WRITE
        self.encrypted = context is not None
        self._low = 1
        self._context = context
        self._connected = False
        family, self._address = address
        self._socket = socket.socket(socket.AddressFamily(family), socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)  # noqa: FBT003 - the standard library's.
            # A request is one packet, and waits for nothing.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _check(self._socket.connect_ex(self._address))  # type: ignore[arg-type]
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def advance(self) -> bool:
        """Return whether it is open; if not yet, wait for `interest` and call this again.

        Raises:
            OSError: If it cannot be opened.
        """
        if not self._connected:
            _check(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            self._connected = True
            if self._context is not None:
                self._socket = self._context.wrap_socket(
                    self._socket, server_hostname=self.origin[1], do_handshake_on_connect=False
                )
        if isinstance(self._socket, ssl.SSLSocket):
            try:
                self._socket.do_handshake()
            except ssl.SSLWantReadError:
                self.interest = selectors.EVENT_READ
                return False
            except ssl.SSLWantWriteError:
                self.interest = selectors.EVENT_WRITE
                return False
        self.interest = selectors.EVENT_READ
        return True

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return those that there was no room for; wait for `interest` then.

        Raises:
            OSError: If it is broken.
        """
        try:
            done = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            done = 0
        rest = data[done:]
        self.interest = selectors.EVENT_READ | selectors.EVENT_WRITE if rest else selectors.EVENT_READ
        return rest

    def await_bytes(self, count: int) -> None:
        """Have the system wait until so many bytes have come, or the end, before it says that there are some."""
        if count != self._low and _HAS_LOW_MARK and not self.encrypted:
            self._low = count
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            except OSError:  # It is closed, which whoever receives next will see.
                return

    def receive(self, most: int) -> bytes | None:
        """Return bytes that are there, b"" if it was closed, and None if nothing is there yet.

        Raises:
            OSError: If it is broken.
        """
        try:
            return self._socket.recv(most)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            return b""

    def receive_into(self, target: memoryview) -> int | None:
        """Put bytes that are there into memory, and return how many; as `receive` does.

        Raises:
            OSError: If it is broken.
        """
        try:
            return self._socket.recv_into(target)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            return 0

    def is_silent(self) -> bool:
        """Return whether nothing has come since the last answer.

        What a server sends without being asked is no answer to the next request. Mostly it has closed the connection.
        """
        try:
            return self.receive(1) is None
        except OSError:
            return False

    def reuse(self, now: float) -> None:
        """Note that it has carried an answer and may carry the next."""
        self.reused = True
        self.idle_since = now

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _check(number: int) -> None:
    if number and number not in _UNDER_WAY:
        raise OSError(number, os.strerror(number))

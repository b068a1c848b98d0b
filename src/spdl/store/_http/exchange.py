"""A request on its way over HTTP, and its answer as it arrives."""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

from spdl.store._http.address import host_header
from spdl.store._http.chunked import Chunked
from spdl.store._http.head import OK, PARTIAL, ContentRange, Head, content_range, parse_head
from spdl.store._http.meaning import IGNORED, find_fault, has_too_much, says_no_size, to_answer
from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, ExpiredError, FailedAttemptError
from spdl.store._reading.room import make_room

if TYPE_CHECKING:
    from spdl.store._http.address import Address, Origin
    from spdl.store._http.connection import Connection
    from spdl.store._http.http_transport import HTTPTransport
    from spdl.store._reading.attempts import Request

__all__ = ["HTTPExchange"]

_FIRST_BYTES = 4096
_LONGEST_HEAD = 1 << 16
_MANY = 1 << 16
_AT_ONCE = 1 << 17
"""Bytes of a body that are waited for together: the system may have no room for more."""
_REDIRECTS = 5

_REDIRECTIONS = (301, 302, 303, 307, 308)


class HTTPExchange:
    """A request that was sent, over one connection after the other if the server names another place.

    Args:
        transport: Has the connections.
        request: What to ask.
        address: Whom to ask it.
    """

    __slots__ = (
        "_address",
        "_body",
        "_by_get",
        "_cancelled",
        "_chunks",
        "_connection",
        "_credentials",
        "_data",
        "_failure",
        "_head",
        "_length",
        "_range",
        "_received",
        "_redirects",
        "_request",
        "_sent",
        "_text",
        "_transport",
        "_unsent",
        "done",
        "first_byte_at",
        "moved_at",
    )

    def __init__(self, transport: HTTPTransport, request: Request, address: Address) -> None:
        self.done = False
        self.first_byte_at: float | None = None
        self.moved_at = transport.monotonic()
        self._transport = transport
        self._request = request
        self._redirects = 0
        self._by_get = False
        """Whether only the size is wanted, and HEAD was in vain: the first byte is asked for, and not received."""
        self._cancelled = False
        self._failure: Exception | None = None
        self._connection: Connection | None = None
        self._begin(address)

    # ---- sending ----------------------------------------------------------------------------------------------

    def _begin(self, address: Address, *, fresh: bool = False) -> None:
        self._address = address
        self._sent = False
        self._unsent = b""
        self._credentials = b""
        self._data = b""
        self._head: Head | None = None
        self._range: ContentRange | None = None
        self._length: int | None = None  # Of the body, if the head says it.
        self._body: memoryview | None = None  # None until something of it has come.
        self._received = 0
        self._chunks: Chunked | None = None
        self._text: bytearray | None = None
        if address.origin == self._transport.origin:  # No other server is told who asks.
            # What the user's function raises is no error of the connection.
            self._credentials = self._transport.credentials.lines()
        self._connect(fresh=fresh)

    def _connect(self, *, fresh: bool) -> None:
        try:
            self._connection = self._transport.connect(self, self._address.origin, fresh=fresh)
            if self._connection is not None and self._connection.reused:
                self._transmit()
        except OSError as error:
            self._broken(error)

    def resolved(self, error: OSError | None) -> None:
        """Go on, since it is known where the server is, or that it is nowhere."""
        if self.done or self._cancelled:
            return
        if error is None:
            self._connect(fresh=True)
        else:
            self._broken(error)

    def _transmit(self) -> None:
        assert self._connection is not None
        _, start, length, _ = self._request
        origin, target = self._address
        line, wanted = "GET", ""
        if length is not None:
            wanted = f"Range: bytes={start}-{start + length - 1}\r\n"
        elif self._by_get:
            wanted = "Range: bytes=0-0\r\n"
        else:
            line = "HEAD"
        head = f"{line} {target} HTTP/1.1\r\n{_usual_lines(origin)}{wanted}"
        self._sent = True
        self._send(b"%b%b\r\n" % (head.encode(), self._credentials))

    def _send(self, data: bytes) -> None:
        assert self._connection is not None
        unsent, self._unsent = self._unsent, self._connection.send(data)
        if unsent or self._unsent or not self._connection.reused:
            self._transport.watch(self._connection)

    # ---- receiving --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take what has arrived, be it less than was waited for."""
        before = self._received
        moved_at = self.moved_at
        if self._length is not None:
            self.ready()
        if not self.done and self._received == before:
            self.moved_at = moved_at

    def ready(self) -> None:
        """Go on, since what was waited for has come."""
        self.moved_at = self._transport.monotonic()
        assert self._connection is not None
        try:
            if not self._sent:
                self._advance(self._connection)
                return
            if self._unsent:
                self._send(self._unsent)
            while self._receive():
                pass
        except OSError as error:
            self._broken(error)
        except ValueError as error:
            self._wrong(f"the answer is no HTTP that can be read: {error}")
        except MemoryError:
            self._fail(StoreError("the answer says that it has more bytes than there is memory"))

    def _advance(self, connection: Connection) -> None:
        before = connection.interest
        if connection.advance():
            self._transmit()
        elif connection.interest != before:
            self._transport.watch(connection)

    def _receive(self) -> bool:
        """Return whether something arrived that was waited for."""
        if self.done or not self._sent:
            return False
        if self._head is None:
            return self._receive_head()
        if self._length is not None:
            return self._receive_body(self._length)
        assert self._connection is not None
        data = self._connection.receive(_MANY)
        if data is None:
            return False
        self._take(data)
        return True

    def _receive_body(self, length: int) -> bool:
        assert self._connection is not None
        connection = self._connection
        if self._body is None and length <= _AT_ONCE and not connection.encrypted:
            # It was waited for as a whole, so that it needs no memory that is filled with zeros before.
            data = connection.receive(length)
            if data is None:
                return False
            count = len(data)
            if count == length:
                self._body = memoryview(data)
            elif count:
                self._room(length)[:count] = data
        else:
            body = self._room(length)
            found = connection.receive_into(body[self._received :] if self._received else body)
            if found is None:
                return False
            count = found
        if not count:
            self._cut()
            return False
        self._received += count
        if self._received == length:
            self._end_if_whole()
            return True
        connection.await_bytes(min(length - self._received, _AT_ONCE))
        return connection.encrypted

    def _room(self, length: int) -> memoryview:
        if self._body is None:
            self._body = make_room(length)
        return self._body

    def _receive_head(self) -> bool:
        assert self._connection is not None
        data = self._connection.receive(_FIRST_BYTES)
        if data is None:
            return False
        if not data:
            self._ended_early()
            return False
        if self.first_byte_at is None:
            self.first_byte_at = self.moved_at
        head, rest = self._take_head(data)
        if head is None:
            return True
        self._prepare(head)
        if not self.done and rest:
            self._take(rest)
        elif not self.done:
            self._end_if_whole()
        connection = self._connection
        if self.done or connection is None:
            return False
        if self._length is not None:
            connection.await_bytes(min(self._length - self._received, _AT_ONCE))
        return connection.encrypted or len(data) == _FIRST_BYTES

    def _take_head(self, data: bytes) -> tuple[Head | None, bytes]:
        """Return the head of the answer that counts, if it is whole, and the bytes that follow."""
        data = self._data + data if self._data else data
        while True:
            head, end, rest = data.partition(b"\r\n\r\n")
            if not end:
                if len(head) > _LONGEST_HEAD:
                    raise ValueError("its headers have no end")
                self._data = data
                return None, b""
            found = parse_head(head)
            if found.status >= OK:
                self._head, self._data = found, b""
                return found, rest
            data = rest  # It was an interim answer.

    def _prepare(self, head: Head) -> None:
        """Know how the body comes, and whether it is wanted."""
        length = 0 if self._request.length is None else head.body_length()
        good = head.status in (OK, PARTIAL)
        if head.status == PARTIAL and self._request.length is not None:
            self._range = content_range(head.headers)
        if good and (fault := find_fault(self._request, head, length, self._range)) is not None:
            self._fail(fault)
        elif "transfer-encoding" in head.headers and length is None:
            if head.headers["transfer-encoding"].lower() != "chunked":
                raise ValueError(f"its transfer encoding is {head.headers['transfer-encoding'][:100]!r}")
            self._chunks = Chunked()
        elif length is None:
            self._text = bytearray()
        elif has_too_much(self._request, head, length, self._range):
            self._finish(keep=False)  # The status says enough.
        else:
            self._length = length

    def _take(self, data: bytes) -> None:
        """Take bytes of the body; none mean that the connection has ended."""
        if self._length is not None:
            count = min(len(data), self._length - self._received)
            self._room(self._length)[self._received : self._received + count] = data[:count]
            self._received += count
            self._data = data[count:]
            self._end_if_whole()
        elif self._chunks is not None:
            if not data:
                self._cut()
                return
            self._chunks.feed(data)
            if self._chunks.ended:
                self._body, self._data = memoryview(self._chunks.content), self._chunks.rest
                self._received = self._length = len(self._body)
                self._end_if_whole()
            else:
                self._check_growth(len(self._chunks.content))
        elif self._text is not None:
            self._text += data
            if not data:
                self._body = memoryview(self._text)
                self._finish(keep=False)
            else:
                self._check_growth(len(self._text))

    def _check_growth(self, length: int) -> None:
        """Stop receiving a body whose length nobody told, if it becomes too long."""
        assert self._head is not None
        if not has_too_much(self._request, self._head, length, self._range):
            return
        if self._head.status == OK:
            self._fail(StoreError(IGNORED))
        elif self._range is not None:
            said = self._range.stop - self._range.start
            self._wrong(f"the answer has more than the {said} bytes that it says it has")
        else:
            self._finish(keep=False)

    def _end_if_whole(self) -> None:
        if self._received == self._length:
            assert self._head is not None
            # More bytes than were announced: whose are they?
            self._finish(keep=self._head.keeps and not self._data and not self._by_get)

    # ---- the end ----------------------------------------------------------------------------------------------

    def _finish(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        assert self._head is not None
        if keep:
            connection.await_bytes(1)
            self._transport.keep(connection)
        else:
            self._transport.discard(connection)
        if self._head.status in _REDIRECTIONS and "location" in self._head.headers:
            self._follow(self._head.headers["location"])
        elif self._request.length is None and not self._by_get and says_no_size(self._head):
            self._by_get = True
            self._begin(self._address)
        else:
            self.done = True

    def _follow(self, location: str) -> None:
        self._transport.redirected()
        self._redirects += 1
        try:
            address = self._address.joined(location)
        except ValueError as error:
            self._wrong(f"the server names another place, which is {error}")
            return
        if self._redirects > _REDIRECTS:
            self._fail(StoreError(f"the server names another place, {self._redirects} times in turn"))
        elif self._address.scheme == "https" and address.scheme == "http":
            self._fail(StoreError(f"the server names another place without encryption: {address.host}"))
        else:
            self._begin(address)

    def _ended_early(self) -> None:
        """The connection ended before the answer began."""
        assert self._connection is not None
        if self._connection.reused and not self._data:
            # The server closed it while nobody used it.
            self._transport.discard(self._connection)
            self._begin(self._address, fresh=True)
        else:
            raise ConnectionResetError(104, "the server closed the connection instead of answering")

    def _cut(self) -> None:
        if self._chunks is not None:
            whole, received = "more", len(self._chunks.content)
        else:
            whole, received = str(self._length), self._received
        self._fail(FailedAttemptError("cut", f"the answer ended after {received} bytes of {whole}"))

    def _broken(self, error: OSError) -> None:
        connection = self._connection
        if connection is not None and connection.reused and self._head is None and not self._data:
            self._transport.discard(connection)
            self._connection = None
            self._begin(self._address, fresh=True)
        elif isinstance(error, ssl.SSLCertVerificationError):
            self._fail(StoreError(f"the certificate of {self._address.host} is not trusted: {error.verify_message}"))
        else:
            self._fail(FailedAttemptError("broken", f"{self._address.host}: {error.strerror or error}"))

    def _wrong(self, reason: str) -> None:
        self._fail(FailedAttemptError("wrong", reason))

    def _fail(self, failure: Exception) -> None:
        self.cancel()
        self._failure = failure
        self.done = True

    def cancel(self) -> None:
        """Close the connection, if the answer has not been received to its end."""
        self._cancelled = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.discard(connection)

    def answer(self) -> Answer:
        """Return what was received.

        Raises:
            FailedAttemptError: If another attempt may help.
            FileNotFoundError: If the object is missing.
            StoreError: If no other attempt will help.
        """
        if self._failure is not None:
            raise self._failure
        head = self._head
        assert head is not None
        credentials = self._transport.credentials
        try:
            return to_answer(
                self._request,
                head,
                self._body if self._body is not None else memoryview(b""),
                self._range,
                self._transport.store,
                said=self._text is None,
                by_get=self._by_get,
            )
        except StoreError as error:
            if head.status in (401, 403) and credentials.renewable:
                raise ExpiredError(str(error), functools.partial(credentials.renew, self._credentials)) from None
            raise


@functools.lru_cache(maxsize=64)
def _usual_lines(origin: Origin) -> str:
    host = host_header(origin)
    return f"Host: {host}\r\nAccept-Encoding: identity\r\nAccept: */*\r\nUser-Agent: spdl\r\n"

"""A request on its way over HTTP, and its answer as it arrives."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spdl.store._http.chunked import Chunked
from spdl.store._http.head import OK, PARTIAL, TOO_FAR, Head, content_range, parse_head
from spdl.store._protocol.errors import StoreError, not_found
from spdl.store._reading.attempts import Answer, FailedAttemptError
from spdl.store._reading.backoff import retry_after

if TYPE_CHECKING:
    from spdl.store._http.address import Address
    from spdl.store._http.connection import Connection
    from spdl.store._http.http_transport import HTTPTransport
    from spdl.store._reading.attempts import Request

__all__ = ["HTTPExchange"]

_SEND_SECONDS = 20.0
_FIRST_BYTES = 4096
_LONGEST_HEAD = 1 << 16
_LONGEST_TEXT = 1 << 16
_MANY = 1 << 16
_REDIRECTS = 5
_WHOLE = 1 << 23
"""Bytes of an object that are taken if a part was asked for and the server sends all of it."""

_IGNORED = "the server does not send parts of objects; it ignored the header Range"
_REDIRECTIONS = (301, 302, 303, 307, 308)
_BUSY = (429, 503)
_PASSING = (408, 425, 500, 502, 504)


class HTTPExchange:
    """A request that was sent, over one connection after the other if the server names another place.

    Args:
        transport: Has the connections.
        request: What to ask.
        address: Whom to ask it.
    """

    def __init__(self, transport: HTTPTransport, request: Request, address: Address) -> None:
        self.done = False
        self.first_byte_at: float | None = None
        self.moved_at = transport.monotonic()
        self._transport = transport
        self._request = request
        self._redirects = 0
        self._failure: Exception | None = None
        self._connection: Connection | None = None
        self._begin(address)

    # ---- sending ----------------------------------------------------------------------------------------------

    def _begin(self, address: Address, *, fresh: bool = False) -> None:
        self._address = address
        self._sent = False
        self._credentials = b""
        self._data = b""
        self._head: Head | None = None
        self._body: memoryview | None = None
        self._received = 0
        self._chunks: Chunked | None = None
        self._text: bytearray | None = None
        try:
            self._connection = self._transport.pool.take(address.origin, fresh=fresh)
            if self._connection.reused:
                self._transmit()
        except OSError as error:
            self._broken(error)

    def _transmit(self) -> None:
        assert self._connection is not None
        request, address = self._request, self._address
        line = "HEAD" if request.length is None else "GET"
        if request.length is None:
            wanted = ""
        else:
            wanted = f"Range: bytes={request.start}-{request.start + request.length - 1}\r\n"
        if address.origin == self._transport.origin:  # No other server is told who asks.
            self._credentials = self._transport.credentials.lines()
        head = (
            f"{line} {address.target} HTTP/1.1\r\nHost: {address.host_header}\r\n{wanted}"
            "Accept-Encoding: identity\r\nAccept: */*\r\nUser-Agent: spdl\r\n"
        )
        self._sent = True
        self._connection.send(b"%b%b\r\n" % (head.encode(), self._credentials), _SEND_SECONDS)

    # ---- receiving --------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        assert self._connection is not None
        return self._connection.fileno()

    @property
    def interest(self) -> int:
        """What to wait for."""
        assert self._connection is not None
        return self._connection.interest

    def ready(self) -> None:
        """Go on, since what was waited for has come."""
        self.moved_at = self._transport.monotonic()
        assert self._connection is not None
        try:
            if not self._sent:
                if self._connection.advance():
                    self._transmit()
                return
            while self._receive():
                pass
        except OSError as error:
            self._broken(error)
        except ValueError as error:
            self._wrong(f"the answer is no HTTP that can be read: {error}")
        except MemoryError:
            self._fail(StoreError("the answer says that it has more bytes than there is memory"))

    def _receive(self) -> bool:
        """Return whether something arrived that was waited for."""
        if self.done or not self._sent:
            return False
        if self._head is None:
            return self._receive_head()
        if self._body is not None:
            return self._receive_into(self._body)
        assert self._connection is not None
        data = self._connection.receive(_MANY)
        if data is None:
            return False
        self._take(data)
        return True

    def _receive_into(self, body: memoryview) -> bool:
        assert self._connection is not None
        count = self._connection.receive_into(body[self._received :])
        if count is None:
            return False
        if not count:
            self._cut()
            return False
        self._received += count
        self._end_if_whole()
        return True

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
        self._data += data
        rest = b""
        while self._head is None:
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                if len(head) > _LONGEST_HEAD:
                    raise ValueError("its headers have no end")
                return True
            self._data = b""
            found = parse_head(head)
            if found.status >= OK:
                self._head = found
            else:  # An interim answer. The one that counts follows.
                self._data = rest
        self._prepare(self._head)
        if not self.done and rest:
            self._take(rest)
        elif not self.done:
            self._end_if_whole()
        return True

    def _prepare(self, head: Head) -> None:
        """Make room for the body."""
        length = 0 if self._request.length is None else head.body_length()
        good = head.status in (OK, PARTIAL)
        if good and (fault := self._fault(head, length)) is not None:
            self._fail(fault)
        elif "transfer-encoding" in head.headers and length is None:
            if head.headers["transfer-encoding"].lower() != "chunked":
                raise ValueError(f"its transfer encoding is {head.headers['transfer-encoding'][:100]!r}")
            self._chunks = Chunked()
        elif length is None:
            self._text = bytearray()
        elif self._has_too_much(head, length):
            self._finish(keep=False)  # The status says enough.
        else:
            self._body = memoryview(bytearray(length))

    def _fault(self, head: Head, length: int | None) -> Exception | None:
        """Return what is wrong with an answer that claims to be good, before its body is received."""
        request, headers = self._request, head.headers
        coding = headers.get("content-encoding", "identity").lower()
        if coding not in ("identity", "", "aws-chunked"):
            return FailedAttemptError("wrong", f"the server encoded it with {coding[:50]}, which nobody asked for")
        if request.length is None:
            return None
        if head.status == PARTIAL:
            found = content_range(headers)
            stop = request.start + request.length
            if found is None or found.start != request.start or found.stop != min(stop, found.size):
                said = headers.get("content-range", "nothing")[:100]
                return FailedAttemptError("wrong", f"bytes {request.start} to {stop} were asked for, but {said} came")
            if length is not None and length != found.stop - found.start:
                return FailedAttemptError(
                    "wrong", f"the answer has {length} bytes, but says {headers['content-range']}"
                )
        elif length is not None and self._has_too_much(head, length):
            return StoreError(_IGNORED)
        return None

    def _has_too_much(self, head: Head, length: int) -> bool:
        """Return whether a body is longer than one may be of which only a part was asked for, or none."""
        if head.status in (OK, PARTIAL):
            return head.status == OK and self._request.start > 0 and length > _WHOLE
        return length > _LONGEST_TEXT

    def _take(self, data: bytes) -> None:
        """Take bytes of the body; none mean that the connection has ended."""
        if self._body is not None:
            count = min(len(data), len(self._body) - self._received)
            self._body[self._received : self._received + count] = data[:count]
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
                self._received = len(self._body)
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
        if not self._has_too_much(self._head, length):
            return
        if self._head.status == OK:
            self._fail(StoreError(_IGNORED))
        else:
            self._finish(keep=False)

    def _end_if_whole(self) -> None:
        if self._body is not None and self._received == len(self._body):
            assert self._head is not None
            # More bytes than were announced: whose are they?
            self._finish(keep=self._head.keeps and not self._data)

    # ---- the end ----------------------------------------------------------------------------------------------

    def _finish(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        assert self._head is not None
        if keep:
            self._transport.pool.put(connection)
        else:
            connection.close()
        if self._head.status in _REDIRECTIONS and "location" in self._head.headers:
            self._follow(self._head.headers["location"])
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
            self._connection.close()
            self._begin(self._address, fresh=True)
        else:
            raise ConnectionResetError(104, "the server closed the connection instead of answering")

    def _cut(self) -> None:
        if self._chunks is not None:
            whole, received = "more", len(self._chunks.content)
        else:
            assert self._body is not None
            whole, received = str(len(self._body)), self._received
        self._fail(FailedAttemptError("cut", f"the answer ended after {received} bytes of {whole}"))

    def _broken(self, error: OSError) -> None:
        connection = self._connection
        if connection is not None and connection.reused and self._head is None and not self._data:
            connection.close()
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
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def answer(self) -> Answer:
        """Return what was received.

        Raises:
            FailedAttemptError: If another attempt may help.
            FileNotFoundError: If the object is missing.
            StoreError: If no other attempt will help.
        """
        if self._failure is not None:
            raise self._failure
        assert self._head is not None
        status, headers, _ = self._head
        body = self._body if self._body is not None else memoryview(b"")
        if status in (OK, PARTIAL):
            return self._good_answer(status, headers, body.toreadonly())
        if status == TOO_FAR and self._request.length is not None and (found := content_range(headers)) is not None:
            return Answer(memoryview(b""), found.size, headers.get("etag"))
        if status in (404, 410):
            raise not_found(self._request.path, self._transport.store)
        reason = f"the server answered {status}{_words(body)}"
        if status in _BUSY or status in _PASSING:
            pause = retry_after(headers, lambda: datetime.now(UTC))
            raise FailedAttemptError("throttled" if status in _BUSY else "broken", reason, pause)
        if status in (401, 403) and self._transport.credentials.renew(self._credentials):
            raise FailedAttemptError("wrong", reason, at_once=True)
        raise StoreError(reason)

    def _good_answer(self, status: int, headers: dict[str, str], body: memoryview) -> Answer:
        request, etag = self._request, headers.get("etag") or headers.get("last-modified")
        if request.length is None:
            text = headers.get("content-length", "")
            if not text.isdecimal():
                raise StoreError("the server does not say how many bytes it has")
            return Answer(body, int(text), etag)
        if status == PARTIAL:
            found = content_range(headers)
            assert found is not None
            if len(body) != found.stop - found.start:
                raise FailedAttemptError("wrong", f"{len(body)} bytes came, but {headers['content-range']} was said")
            return Answer(body, found.size, etag)
        if request.start:
            return Answer(body[request.start : request.start + request.length], len(body), etag)
        return Answer(body, len(body), etag)


def _words(body: memoryview) -> str:
    """Return the beginning of what a server says about an error."""
    text = " ".join(bytes(body[:1000]).decode("utf-8", "replace").split())
    return f": {text[:200]}" if text else ""

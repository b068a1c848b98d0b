"""Requests over HTTP, and what their answers mean."""

from __future__ import annotations

import re
import ssl
import time
from contextlib import suppress
from functools import partial
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from spdl.store._http.address import Address, host_header
from spdl.store._http.connections import SILENCE_SECONDS, Connections, Exchange
from spdl.store._http.meaning import (
    IGNORED,
    LONGEST_TEXT,
    NO_FOLDERS,
    OK,
    PARTIAL,
    Head,
    check_head,
    content_range,
    has_too_much,
    says_no_size,
    to_answer,
)  # fmt: skip
from spdl.store._protocol.store import StoreError
from spdl.store._reading.attempts import Answer, ExpiredError, FailedAttemptError
from spdl.store._reading.ranges import make_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.store._http.connections import Response
    from spdl.store._http.credentials import Credentials
    from spdl.store._reading.attempts import Request
    from spdl.store._reading.crew import Crew

__all__ = ["HTTPTransport"]

_REDIRECTS = 5
_REDIRECTIONS = (301, 302, 303, 307, 308)
_PIECE = 1 << 16
_USUAL = {"Accept-Encoding": "identity", "Accept": "*/*", "User-Agent": "spdl"}
# A plus would be another path where servers take it for a space, as S3 does.
_SAFE = "/~!$&'()*,;=:@"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")


class HTTPTransport:
    """Asks one server for the objects below an address.

    Args:
        store: The repr of the store, which errors name.
        address: The address that paths are relative to.
        credentials: What the server is told of who asks.
        count: Called with the name of a counter.
        learn: Called with what is secret.
    """

    def __init__(
        self,
        store: str,
        address: Address,
        credentials: Credentials,
        count: Callable[[str], None],
        learn: Callable[[object], None],
    ) -> None:
        self.store = store
        self.credentials = credentials
        self.origin = address.origin
        self.count = count
        self.connections = Connections(lambda: count("connections"), learn)
        path, mark, query = address.target.partition("?")
        # A quoted slash is one, too, for servers whose names of objects have slashes in them.
        self._folder = path if path.endswith("/") or path[-3:].upper() == "%2F" else path + "/"
        self._query = mark + query

    def prepare(self, until: float, crew: Crew) -> None:
        """Have the credentials ready."""
        self.credentials.now(until, crew)

    def attempt(self, request: Request, until: float, crew: Crew) -> HTTPAttempt:
        """Return an attempt to have a request answered. A thread of the crew looks up names."""
        path = request.path
        if not _PLAIN.fullmatch(path):
            path = quote(path, _SAFE, errors="surrogateescape")
        return HTTPAttempt(self, request, Address(self.origin, f"{self._folder}{path}{self._query}"), until, crew)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self.connections.close()

    def abandon(self) -> None:
        """Close copies of connections that another process uses."""
        self.connections.abandon()


class HTTPAttempt:
    """A request that is sent once, over one connection after the other if the server names another place.

    Attributes:
        first_byte_at: When the head of its answer was there; None before.
    """

    def __init__(self, transport: HTTPTransport, request: Request, address: Address, until: float, crew: Crew) -> None:
        self.first_byte_at: float | None = None
        self._by_slash = self._by_get = False
        self._redirects = 0
        self._transport = transport
        self._request = request
        self._address = address
        self._exchange = Exchange(until, crew)

    def abort(self) -> None:
        """Have `run` raise something soon."""
        self._exchange.cut()

    def run(self) -> Answer:
        """Send it, and return the answer; see `Attempt.run`."""
        answer = None
        while answer is None:
            own = self._address.origin == self._transport.origin  # No other server is told who asks.
            credentials = self._transport.credentials
            answer = self._send(credentials.now(self._exchange.until, self._exchange.crew) if own else {})
        return answer

    def _send(self, credentials: dict[str, str]) -> Answer | None:
        """Return the answer of one server, or None if it leads to another request."""
        response = None
        try:
            response = self._ask(credentials)
            status, headers = response.status, response.told
            head = Head(status, headers, content_range(headers) if status == PARTIAL else None)
            if status in _REDIRECTIONS and "location" in headers:
                _finish(response)
                self._follow(headers["location"])
                return None
            if self._request.length is None and not self._by_get and says_no_size(head):
                _finish(response)
                self._by_get = True
                return None
            return self._answer(response, head)
        except StoreError as error:
            if response is None or response.status not in (401, 403) or not self._transport.credentials.renewable:
                raise
            renew = partial(self._transport.credentials.renew, credentials, self._exchange.until, self._exchange.crew)
            raise ExpiredError(str(error), renew) from None
        except FileNotFoundError:
            raise
        except (OSError, HTTPException, HTTPError, ValueError) as error:
            raise _translated(error, self._exchange.place) from None
        except MemoryError:
            raise StoreError("the answer says that it has more bytes than there is memory") from None
        finally:
            if response is not None:
                response.end()

    def _ask(self, credentials: dict[str, str]) -> Response:
        seconds = min(SILENCE_SECONDS, self._exchange.until - time.monotonic())
        if seconds <= 0:
            raise FailedAttemptError("late", "there is no time for another request")
        _, start, length, _ = self._request
        headers = {"Host": host_header(self._address.origin), **_USUAL, **credentials}
        if length is not None:
            headers["Range"] = f"bytes={start}-{start + length - 1}"
        elif self._by_get:
            headers["Range"] = "bytes=0-0"
        method = "GET" if length is not None or self._by_get else "HEAD"
        response = self._transport.connections.ask(self._exchange, method, self._address, headers, seconds)
        self.first_byte_at = time.monotonic()
        return response

    def _follow(self, location: str) -> None:
        self._transport.count("redirects")
        self._redirects += 1
        try:
            address = self._address.joined(location)
        except ValueError as error:
            raise StoreError(f"the server names another place, which is {error}") from None
        if self._redirects > _REDIRECTS:
            raise StoreError(f"the server names another place, {self._redirects} times in turn")
        if self._address.origin[0] == "https" and address.origin[0] == "http":
            raise StoreError(f"the server names another place without encryption: {address.origin[1]}")
        path = self._address.target.partition("?")[0]
        self._by_slash = address.target.partition("?")[0] == f"{path}/"
        self._address = address

    def _answer(self, response: Response, head: Head) -> Answer:
        request, length = self._request, response.length
        body = memoryview(b"")
        if head.status not in (OK, PARTIAL):
            body = memoryview(_finish(response))
        else:
            check_head(request, head)
            if self._by_slash and head.headers.get("content-type", "").startswith("text/html"):
                raise StoreError(f"it is a folder, of which the server shows a page: {NO_FOLDERS}")
            if request.length is not None:
                body = _receive(response, length, lambda received: self._check_growth(head, received))
            elif not self._by_get:
                _finish(response)
        said = length is not None or response.chunked
        return to_answer(request, head, body, self._transport.store, said=said, by_get=self._by_get)

    def _check_growth(self, head: Head, received: int) -> None:
        if has_too_much(self._request, head, received):
            if head.part is None:
                raise StoreError(IGNORED)
            said = head.part.stop - head.part.start
            raise FailedAttemptError("wrong", f"the answer has more than the {said} bytes that it says it has")


def _receive(response: Response, length: int | None, check: Callable[[int], None]) -> memoryview:
    """Return the body of an answer.

    Args:
        response: The answer.
        length: How many bytes it has, if the head says that.
        check: Is told how many bytes have come, if not; it may raise an error.
    """
    content, received = bytearray(), 0
    with suppress(IncompleteRead):
        if length is None:
            while piece := response.read(_PIECE):
                content += piece
                received = len(content)
                check(received)
            return memoryview(content)
        room = make_room(length)
        while received < length and (count := response.readinto(room[received:])):
            received += count
        if received == length:
            return room
    raise FailedAttemptError(
        "cut", f"the answer ended after {received} bytes of {'more' if length is None else length}"
    )


def _finish(response: Response) -> bytes:
    """Return what follows a head that says enough, so that the connection can be used again; if it is not too much."""
    length = response.length
    return b"" if length is not None and length > LONGEST_TEXT else response.read(LONGEST_TEXT)


def _translated(error: Exception, place: str) -> StoreError:
    """Return an error of sockets, of Python's HTTP or of urllib3 as one of ours, which names the server or proxy."""
    if isinstance(error, TimeoutError):
        return FailedAttemptError("late", f"{place}: nothing was heard for too long")
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(
            f"the certificate of {place} is not trusted: {error.verify_message}. If it should be, have SSL_CERT_FILE "
            "in the environment name a file of certificates to trust"
        )
    if isinstance(error, RemoteDisconnected):
        return FailedAttemptError("broken", f"{place}: the server closed the connection instead of answering")
    if isinstance(error, IncompleteRead):
        return FailedAttemptError("cut", "the answer ended before it was whole")
    if isinstance(error, OSError):
        return FailedAttemptError("broken", f"{place}: {error.strerror or error}")
    return FailedAttemptError("wrong", f"the answer is no HTTP that can be read: {str(error)[:200]}")

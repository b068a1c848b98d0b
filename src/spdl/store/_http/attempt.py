"""Requests over HTTP, and what their answers mean."""

from __future__ import annotations

import re
import ssl
import time
from contextlib import suppress
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from spdl.store._http.address import Address, host_header
from spdl.store._http.connections import Connections, Exchange
from spdl.store._http.meaning import (
    IGNORED,
    LONGEST_TEXT,
    NO_FOLDERS,
    OK,
    PARTIAL,
    Head,
    check_head,
    content_range,
    says_no_size,
    to_answer,
)  # fmt: skip
from spdl.store._protocol.store import StoreError
from spdl.store._reading.attempts import Answer, FailedAttemptError, UnknownSizeError
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
_REFUSALS = (401, 403)
_MOST_RENEWALS = 7
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
    """A request that is sent once, and anew where the server names another place or wants other credentials.

    Attributes:
        first_byte_at: When the head of its answer was there; None before.
    """

    def __init__(self, transport: HTTPTransport, request: Request, address: Address, until: float, crew: Crew) -> None:
        self.first_byte_at: float | None = None
        self._transport = transport
        self._request = request
        self._address = address
        self._exchange = Exchange(until, crew)

    def abort(self) -> None:
        """Have `run` raise something soon."""
        self._exchange.cut()

    def run(self) -> Answer:
        """Send it, and return the answer; see `Attempt.run`."""
        request = self._request
        if request.length is None:
            return self._ask_size()
        head, body, said = self._ask("GET", f"bytes={request.start}-{request.start + request.length - 1}")
        answer = to_answer(request, head, body, self._transport.store)
        with suppress(UnknownSizeError):
            if not said and self._ask_size().size != answer.size:
                reason = "the connection ended before the answer did, whose length the server did not say"
                raise FailedAttemptError("cut", reason)
        return answer

    def _ask_size(self) -> Answer:
        self._request = self._request._replace(length=None)
        head, body, _ = self._ask("HEAD", "")
        if says_no_size(head):
            head, body, _ = self._ask("GET", "bytes=0-0")
        return to_answer(self._request, head, body, self._transport.store)

    def _ask(self, method: str, wanted: str) -> tuple[Head, memoryview, bool]:
        """Return the head and the body of the last server's answer, and whether it said how long the body is.

        Args:
            method: Such as ``"GET"``.
            wanted: The bytes; "" for all.
        """
        credentials, until, crew = self._transport.credentials, self._exchange.until, self._exchange.crew
        address, redirects, renewals, by_slash = self._address, 0, 0, False
        while True:
            own = address.origin == self._transport.origin  # No other server is told who asks.
            told = credentials.now(until, crew) if own else {}
            head, body, said = self._send(method, address, wanted, told)
            refused = own and head.status in _REFUSALS and not (method == "HEAD" and says_no_size(head))
            page = head.headers.get("content-type", "").startswith("text/html")
            if head.status in _REDIRECTIONS and "location" in head.headers:
                redirects += 1
                before, address = address, self._follow(address, head.headers["location"], redirects)
                by_slash = _path(address) == f"{_path(before)}/"
            elif refused and renewals < _MOST_RENEWALS and credentials.renew(told, until, crew):
                renewals += 1
            elif by_slash and page and head.status in (OK, PARTIAL):
                raise StoreError(f"it is a folder, of which the server shows a page: {NO_FOLDERS}")
            else:
                return head, body, said

    def _follow(self, address: Address, location: str, redirects: int) -> Address:
        self._transport.count("redirects")
        try:
            following = address.joined(location)
        except ValueError as error:
            raise StoreError(f"the server names another place, which is {error}") from None
        if redirects > _REDIRECTS:
            raise StoreError(f"the server names another place, {redirects} times in turn")
        if address.origin[0] == "https" and following.origin[0] == "http":
            raise StoreError(f"the server names another place without encryption: {following.origin[1]}")
        return following

    def _send(
        self, method: str, address: Address, wanted: str, credentials: dict[str, str]
    ) -> tuple[Head, memoryview, bool]:
        """Return what one server answers: the head, the body, and whether it said how long the body is."""
        headers = {"Host": host_header(address.origin), **_USUAL, **credentials}
        if wanted:
            headers["Range"] = wanted
        connections, response = self._transport.connections, None
        try:
            response = connections.ask(self._exchange, method, address, headers)
            self.first_byte_at = time.monotonic()
            status, length = response.status, response.length
            head = Head(status, response.told, content_range(response.told) if status == PARTIAL else None)
            return head, self._body(response, head), length is not None or response.chunked
        except StoreError:
            raise
        except (OSError, HTTPException, HTTPError, ValueError) as error:
            raise _translated(error, self._exchange.place) from None
        except MemoryError:
            raise StoreError("the answer says that it has more bytes than there is memory") from None
        finally:
            if response is not None:
                connections.end(response)

    def _body(self, response: Response, head: Head) -> memoryview:
        length = response.length
        if head.status not in (OK, PARTIAL):
            # It is read so that the connection can be used again, if it is not too much.
            return memoryview(b"" if length is not None and length > LONGEST_TEXT else response.read(LONGEST_TEXT))
        most = check_head(self._request, head)
        if self._request.length is None:
            return memoryview(response.read(min(length or 0, 1)))
        if length is None:
            return _receive_untold(response, most, is_part=head.part is not None)
        return _receive(response, length)


def _path(address: Address) -> str:
    return address.target.partition("?")[0]


def _receive(response: Response, length: int) -> memoryview:
    """Return the body of an answer whose head says how long it is."""
    room, received = make_room(length), 0
    with suppress(IncompleteRead):
        while received < length and (count := response.readinto(room[received:])):
            received += count
    if received < length:
        raise FailedAttemptError("cut", f"the answer ended after {received} bytes of {length}")
    return room


def _receive_untold(response: Response, most: float, *, is_part: bool) -> memoryview:
    """Return the body of another answer, which has no more bytes than it may."""
    content = bytearray()
    try:
        while piece := response.read(_PIECE):
            content += piece
            if len(content) > most:
                reason = f"the answer has more than the {most} bytes that it says it has"
                raise FailedAttemptError("wrong", reason) if is_part else StoreError(IGNORED)
    except IncompleteRead:
        raise FailedAttemptError("cut", f"the answer ended after {len(content)} bytes of more") from None
    return memoryview(content)


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

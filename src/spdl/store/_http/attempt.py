"""Requests over HTTP, and what their answers mean."""

from __future__ import annotations

import functools
import http.client
import re
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProxyError, ReadTimeoutError

from spdl.store._http.address import Address, host_header
from spdl.store._http.connections import SILENCE_SECONDS, Line, Pools
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
from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, ExpiredError, FailedAttemptError
from spdl.store._reading.room import make_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.store._http.connections import Answered
    from spdl.store._http.credentials import Credentials
    from spdl.store._reading.attempts import Request
    from spdl.store._reading.crew import Crew

__all__ = ["HTTPTransport"]

_REDIRECTS = 5
_REDIRECTIONS = (301, 302, 303, 307, 308)
_PIECE = 1 << 16
_AT_ONCE = 1 << 21
"""Bytes that are received into memory of the allocator: more come piece by piece into memory of the system."""
_USUAL = {"Accept-Encoding": "identity", "Accept": "*/*", "User-Agent": "spdl"}
# A plus would be another path where servers take it for a space, as S3 does.
_SAFE = "/~!$&'()*,;=:@"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")


class HTTPTransport:
    """Asks one server for the objects below an address.

    Attributes:
        store: The repr of the store, which errors name.
        credentials: What the server is told of who asks.
        origin: The server.
        pools: The connections.

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
        self.pools = Pools(lambda: count("connections"), learn)
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
        self.pools.close()

    def abandon(self) -> None:
        """Close copies of connections that another process uses."""
        self.pools.abandon()


class HTTPAttempt:
    """A request that is sent once, over one connection after the other if the server names another place.

    Attributes:
        first_byte_at: When the head of its answer was there; None before.
    """

    def __init__(self, transport: HTTPTransport, request: Request, address: Address, until: float, crew: Crew) -> None:
        self.first_byte_at: float | None = None
        self._by_slash = False
        self._transport = transport
        self._request = request
        self._address = address
        self._line = Line(transport.pools, until, crew)
        self._crew = crew

    def abort(self) -> None:
        """Have `run` raise something soon."""
        self._line.cut()

    def run(self) -> Answer:
        """Send it, and return the answer; see `Attempt.run`."""
        try:
            return self._run()
        except HTTPError as error:
            raise _translated(error, self._address.origin[1], self._line.proxy) from None
        except MemoryError:
            raise StoreError("the answer says that it has more bytes than there is memory") from None

    def _run(self) -> Answer:
        redirects, by_get = 0, False
        while True:
            own = self._address.origin == self._transport.origin  # No other server is told who asks.
            credentials = self._transport.credentials.now(self._line.until, self._crew) if own else {}
            response = self._ask(credentials, by_get=by_get)
            status, headers = response.status, response.told
            head = Head(status, headers, content_range(headers) if status == PARTIAL else None)
            if status in _REDIRECTIONS and "location" in headers:
                _finish(response)
                redirects += 1
                self._follow(headers["location"], redirects)
            elif self._request.length is None and not by_get and says_no_size(head):
                _finish(response)
                by_get = True
            else:
                break
        if self._by_slash and status in (OK, PARTIAL) and headers.get("content-type", "").startswith("text/html"):
            _finish(response)
            raise StoreError(f"it is a folder, of which the server shows a page: {NO_FOLDERS}")
        try:
            return self._answer(response, head, by_get=by_get)
        except StoreError as error:
            if status not in (401, 403) or not self._transport.credentials.renewable:
                raise
            renew = functools.partial(self._transport.credentials.renew, credentials, self._line.until, self._crew)
            raise ExpiredError(str(error), renew) from None
        finally:
            if not response.closed:
                response.close()

    def _ask(self, credentials: dict[str, str], *, by_get: bool) -> Answered:
        seconds = min(SILENCE_SECONDS, self._line.until - time.monotonic())
        if seconds <= 0:
            raise FailedAttemptError("late", "there is no time for another request")
        _, start, length, _ = self._request
        headers = {"Host": host_header(self._address.origin), **_USUAL, **credentials}
        if length is not None:
            headers["Range"] = f"bytes={start}-{start + length - 1}"
        elif by_get:
            headers["Range"] = "bytes=0-0"
        method = "GET" if length is not None or by_get else "HEAD"
        response = self._transport.pools.ask(self._line, method, self._address, headers, seconds)
        self.first_byte_at = time.monotonic()
        return response

    def _follow(self, location: str, redirects: int) -> None:
        self._transport.count("redirects")
        try:
            address = self._address.joined(location)
        except ValueError as error:
            raise StoreError(f"the server names another place, which is {error}") from None
        if redirects > _REDIRECTS:
            raise StoreError(f"the server names another place, {redirects} times in turn")
        if self._address.origin[0] == "https" and address.origin[0] == "http":
            raise StoreError(f"the server names another place without encryption: {address.origin[1]}")
        path = self._address.target.partition("?")[0]
        self._by_slash = address.target.partition("?")[0] == f"{path}/"
        self._address = address

    def _answer(self, response: Answered, head: Head, *, by_get: bool) -> Answer:
        request, length = self._request, response.length_remaining
        body = memoryview(b"")
        if head.status not in (OK, PARTIAL):
            body = memoryview(_finish(response))
        else:
            check_head(request, head)
            if request.length is not None:
                body = _receive(response, length, lambda received: self._check_growth(head, received))
            elif not by_get:
                _finish(response)
        said = length is not None or response.chunked
        return to_answer(request, head, body, self._transport.store, said=said, by_get=by_get)

    def _check_growth(self, head: Head, received: int) -> None:
        if has_too_much(self._request, head, received):
            if head.part is None:
                raise StoreError(IGNORED)
            said = head.part.stop - head.part.start
            raise FailedAttemptError("wrong", f"the answer has more than the {said} bytes that it says it has")


def _receive(response: Answered, length: int | None, check: Callable[[int], None]) -> memoryview:
    """Return the body of an answer.

    Args:
        response: The answer.
        length: How many bytes it has, if the head says that.
        check: Is told how many bytes have come, if not; it may raise an error.
    """
    content, received = bytearray(), 0
    room = memoryview(b"") if length is None or length <= _AT_ONCE else make_room(length)
    try:
        if length is not None and length <= _AT_ONCE:
            room = memoryview(response.read(length))
            received = len(room)
        while length is None or received < length:
            piece = response.read(_PIECE if length is None else min(_AT_ONCE, length - received))
            if not piece:
                break
            if length is None:
                content += piece
                check(received + len(piece))
            else:
                room[received : received + len(piece)] = piece
            received += len(piece)
    except HTTPError as error:
        if not isinstance(_innermost(error), http.client.IncompleteRead):
            raise
    else:
        if length is None:
            return memoryview(content)
        if received == length:
            return room
    whole = "more" if length is None else length
    raise FailedAttemptError("cut", f"the answer ended after {received} bytes of {whole}")


def _finish(response: Answered) -> bytes:
    """Return what follows a head that says enough, so that the connection can be used again; if it is not too much."""
    length = response.length_remaining
    content: bytes = b"" if length is not None and length > LONGEST_TEXT else response.read(LONGEST_TEXT)
    if not response.closed:
        response.close()
    return content


def _innermost(error: BaseException) -> BaseException:
    while True:
        inside = error.args[-1] if error.args and isinstance(error.args[-1], BaseException) else error.__cause__
        if inside is None:
            return error
        error = inside


def _translated(error: HTTPError, host: str, proxy: str) -> StoreError:
    """Return an error of urllib3 as one of ours, which names the host, and the proxy if one is on the way."""
    inside = _innermost(error)
    if isinstance(error, ProxyError):
        host = f"the proxy {proxy} of the environment"
    elif proxy:
        host = f"{host} by way of the proxy {proxy}"
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError) or isinstance(inside, TimeoutError):
        return FailedAttemptError("late", f"{host}: nothing was heard for too long")
    if isinstance(inside, ssl.SSLCertVerificationError):
        return StoreError(
            f"the certificate of {host} is not trusted: {inside.verify_message}. If it should be, have SSL_CERT_FILE "
            "in the environment name a file of certificates to trust"
        )
    if isinstance(inside, http.client.RemoteDisconnected):
        return FailedAttemptError("broken", f"{host}: the server closed the connection instead of answering")
    if isinstance(inside, http.client.IncompleteRead):
        return FailedAttemptError("cut", "the answer ended before it was whole")
    if isinstance(inside, OSError):
        return FailedAttemptError("broken", f"{host}: {inside.strerror or inside}")
    return FailedAttemptError("wrong", f"the answer is no HTTP that can be read: {str(inside)[:200]}")

"""Requests over HTTP, and what their answers mean."""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from spdl.store._blocks import make_room
from spdl.store._http.address import NO_FOLDERS, Address, Credentials, host_header
from spdl.store._http.connections import Connections, Exchange, Response
from spdl.store._requests import Answer, Crew, FailedAttemptError, Request, SentRequest, Transport, UnknownSizeError
from spdl.store._store import StoreError, not_found

OK = 200
PARTIAL = 206
IGNORED = "the server does not send parts of objects; it ignored the header Range"
LONGEST_TEXT = 1 << 16
"""Bytes of an answer that are read although they are not wanted."""

_TOO_FAR = 416
_WHOLE = 1 << 23
"""Bytes of an object that are taken if a part was asked for and the server sends all of it."""
_BUSY = (429, 503)
_PASSING = (408, 425, 500, 502, 504)
_NO_HEAD = (400, 403, 405, 501)
"""What servers say to HEAD that would answer GET: among them those whose signatures are of one method."""
_LONGEST_WISH = 3600.0
_NUMBER = re.compile(r"\d{1,19}$", re.ASCII)


def _said_length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not _NUMBER.match(text):
        raise FailedAttemptError("wrong", f"the answer is not valid HTTP: its length is {text[:100]!r}")
    return int(text)


def _check_head(request: Request, response: Response) -> float:
    """Return how many bytes an answer may have that claims to be good, or raise what is wrong with it already."""
    headers, found = response.told, response.part
    coding = headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "", "aws-chunked"):
        raise FailedAttemptError("wrong", f"the server encoded it with {coding[:50]}, which was not asked for")
    if request.length is None:
        return 1
    framing = headers.get("transfer-encoding")
    if framing is not None and framing.lower() != "chunked":
        raise FailedAttemptError("wrong", f"its transfer encoding is {framing[:100]!r}")
    length = None if framing else _said_length(headers)
    if response.status == PARTIAL:
        stop = request.start + request.length
        if found is None or found.start != request.start or found.stop != min(stop, found.size):
            said = headers.get("content-range", "nothing")[:100]
            raise FailedAttemptError("wrong", f"bytes {request.start} to {stop} were asked for, but {said} came")
        if length is not None and length != found.stop - found.start:
            raise FailedAttemptError("wrong", f"the answer has {length} bytes, but says {headers['content-range']}")
        return found.stop - found.start
    most = math.inf if request.or_all else _WHOLE
    if length is not None and length > most:
        raise StoreError(IGNORED)
    return most


def _says_no_size(response: Response) -> bool:
    """Return whether an answer to HEAD leaves to ask otherwise. Some servers say 0 of all objects."""
    length = response.told.get("content-length", "")
    says_nothing = not _NUMBER.match(length) or int(length) == 0
    return response.status in _NO_HEAD or (response.status == OK and says_nothing)


def _version(response: Response) -> str | None:
    # An error has headers of its own.
    return response.told.get("etag") or response.told.get("last-modified") if response.status in (OK, PARTIAL) else None


def _to_answer(request: Request, response: Response, body: memoryview, store: str) -> Answer:
    """Return the answer, or raise why it is not one. Errors name the store, by its repr."""
    status, headers, found = response.status, response.told, response.part
    etag = _version(response)
    if status in (OK, PARTIAL):
        if request.length is None:
            return Answer(body, _told_size(response), etag)
        if status == OK:
            part = body if request.or_all else body[request.start : request.start + request.length]
            return Answer(part.toreadonly(), len(body), etag)
        assert found is not None
        if len(body) != found.stop - found.start:
            raise FailedAttemptError("wrong", f"{len(body)} bytes came, but {headers['content-range']} was said")
        return Answer(body.toreadonly(), found.size, etag)
    if status == _TOO_FAR and found is not None:
        return Answer(memoryview(b""), found.size, None)
    if status in (404, 410):
        raise not_found(request.path, store)
    reason = f"the server answered {status}{_words(body)}"
    if status in _BUSY or status in _PASSING:
        pause = retry_after(headers, lambda: datetime.now(UTC))
        raise FailedAttemptError("throttled" if status in _BUSY else "broken", reason, pause)
    raise StoreError(reason)


def _told_size(response: Response) -> int:
    """Return how many bytes an object has. At most its first byte was asked for."""
    found = response.part
    if response.status == PARTIAL:
        if found is None or (found.start, found.stop) != (0, 1):
            said = response.told.get("content-range", "nothing")[:100]
            raise FailedAttemptError("wrong", f"the first byte was asked for, but {said} came")
        return found.size
    length = _said_length(response.told)
    if length is None:
        raise UnknownSizeError("the server does not say how many bytes it has")
    return length


def _words(body: memoryview) -> str:
    text = " ".join(bytes(body[:1000]).decode("utf-8", "replace").split())
    # Binary content, such as an object's, would only garble the message.
    return f": {text[:200]}" if text[:200].isprintable() and text and "\ufffd" not in text[:200] else ""


def retry_after(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Return the seconds that the header ``Retry-After`` asks to wait, an hour at most; None if none can be read."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers name a date.

        try:
            seconds = (parsedate_to_datetime(text) - now()).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, seconds), _LONGEST_WISH) if math.isfinite(seconds) else None


_REDIRECTS = 5
_REDIRECTIONS = (301, 302, 303, 307, 308)
_REFUSALS = (401, 403)
_MOST_RENEWALS = 7
_PIECE = 1 << 16
_USUAL = {"Accept-Encoding": "identity", "Accept": "*/*", "User-Agent": "spdl"}
# A plus would be another path where servers take it for a space, as S3 does.
_SAFE = "/~!$&'()*,;=:@"
_PLAIN = re.compile(r"[A-Za-z0-9_./~-]*")


class HTTPTransport(Transport):
    """Asks one server for the objects below an address. Errors name the store, by its repr."""

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
        self.credentials.now(until, crew)

    def attempt(self, request: Request, until: float, crew: Crew) -> HTTPAttempt:
        """Return an attempt to have a request answered. A thread of the crew looks up names."""
        path = request.path
        if not _PLAIN.fullmatch(path):
            path = quote(path, _SAFE, errors="surrogateescape")
        return HTTPAttempt(self, request, Address(self.origin, f"{self._folder}{path}{self._query}"), until, crew)

    def close(self) -> None:
        self.connections.close()

    def abandon(self) -> None:
        self.connections.abandon()


class HTTPAttempt(SentRequest):
    """A request that is sent once, and again if the server redirects it or wants other credentials."""

    def __init__(self, transport: HTTPTransport, request: Request, address: Address, until: float, crew: Crew) -> None:
        self._transport = transport
        self._request = request
        self._address = address
        self._exchange = Exchange(until, crew)

    def abort(self) -> None:
        self._exchange.cut()

    def run(self) -> Answer:
        request = self._request
        if request.length is None:
            return self._ask_size()
        response, body = self._ask("GET", f"bytes={request.start}-{request.start + request.length - 1}")
        answer = _to_answer(request, response, body, self._transport.store)
        if response.status == _TOO_FAR:
            return answer._replace(etag=_version(self._ask_head()[0]))
        with suppress(UnknownSizeError):
            if not response.has_end and self._ask_size().size != answer.size:
                reason = "the connection ended before the answer did, whose length the server did not say"
                raise FailedAttemptError("cut", reason)
        return answer

    def _ask_size(self) -> Answer:
        head, body = self._ask_head()
        response = head
        if _says_no_size(head):
            response, body = self._ask("GET", "bytes=0-0")
        answer = _to_answer(self._request, response, body, self._transport.store)
        return answer._replace(etag=_version(head)) if response.status == _TOO_FAR else answer

    def _ask_head(self) -> tuple[Response, memoryview]:
        self._request = self._request._replace(length=None)
        return self._ask("HEAD", "")

    def _ask(self, method: str, wanted: str) -> tuple[Response, memoryview]:
        """Return the answer of the last server, and its body. `wanted` are the bytes; "" for all."""
        credentials, until, crew = self._transport.credentials, self._exchange.until, self._exchange.crew
        address, redirects, renewals, by_slash = self._address, 0, 0, False
        while True:
            own = address.origin == self._transport.origin  # No other server gets the credentials.
            told = credentials.now(until, crew) if own else {}
            response, body = self._send(method, address, wanted, told)
            status, headers = response.status, response.told
            refused = own and status in _REFUSALS and not (method == "HEAD" and _says_no_size(response))
            page = headers.get("content-type", "").startswith("text/html")
            if status in _REDIRECTIONS and "location" in headers:
                redirects += 1
                before, address = address, self._follow(address, headers["location"], redirects)
                by_slash = _path(address) == f"{_path(before)}/"
            elif refused and renewals < _MOST_RENEWALS and credentials.renew(told, until, crew):
                renewals += 1
            elif by_slash and page and status in (OK, PARTIAL):
                raise StoreError(f"it is a folder, for which the server sends a page: {NO_FOLDERS}")
            else:
                return response, body

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
    ) -> tuple[Response, memoryview]:
        headers = {"Host": host_header(address.origin), **_USUAL, **credentials}
        if wanted:
            headers["Range"] = wanted
        connections, response = self._transport.connections, None
        try:
            response = connections.ask(self._exchange, method, address, headers)
            self.first_byte_at = time.monotonic()
            return response, self._body(response)
        except StoreError:
            raise
        except (OSError, HTTPException, HTTPError, ValueError) as error:
            raise _translated(error, self._exchange.place) from None
        except MemoryError:
            raise StoreError("the answer says that it has more bytes than there is memory") from None
        finally:
            if response is not None:
                connections.end(response)

    def _body(self, response: Response) -> memoryview:
        length = response.length
        if response.status not in (OK, PARTIAL):
            # It is read so that the connection can be used again, if it is not too much.
            return memoryview(b"" if length is not None and length > LONGEST_TEXT else response.read(LONGEST_TEXT))
        most = _check_head(self._request, response)
        if self._request.length is None:
            return memoryview(response.read(min(length or 0, 1)))
        if length is None:
            return _receive_untold(response, most, is_part=response.status == PARTIAL)
        return _receive(response, length)


def _path(address: Address) -> str:
    return address.target.partition("?")[0]


def _receive(response: Response, length: int) -> memoryview:
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
    """Return an error of sockets, of Python's HTTP or of urllib3 as a `StoreError`, which names the server or proxy."""
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
    return FailedAttemptError("wrong", f"the answer cannot be read as HTTP: {str(error)[:200]}")

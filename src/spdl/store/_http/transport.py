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
from typing import NamedTuple
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from spdl.store._http.address import NO_FOLDERS, Address, Credentials, host_header
from spdl.store._http.connections import Connections, Exchange, Response
from spdl.store._ranges import make_room
from spdl.store._requests import Answer, Crew, FailedAttemptError, Request, UnknownSizeError
from spdl.store._store import StoreError, not_found

OK = 200
PARTIAL = 206
IGNORED = "the server does not send parts of objects; it ignored the header Range"
LONGEST_TEXT = 1 << 16
"""Bytes of an answer that are read though nobody wants them."""

_TOO_FAR = 416
_WHOLE = 1 << 23
"""Bytes of an object that are taken if a part was asked for and the server sends all of it."""
_BUSY = (429, 503)
_PASSING = (408, 425, 500, 502, 504)
_NO_HEAD = (400, 403, 405, 501)
"""What servers say to HEAD that would answer GET: among them those whose signatures are of one method."""
_LONGEST_WISH = 3600.0
_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}) *$", re.ASCII)
_NUMBER = re.compile(r"\d{1,19}$", re.ASCII)


class ContentRange(NamedTuple):
    """What an answer says of the bytes that it has.

    Attributes:
        start: The first.
        stop: The one after the last.
        size: The bytes of the whole object.
    """

    start: int
    stop: int
    size: int


class Head(NamedTuple):
    """What an answer says before its body.

    Attributes:
        status: Such as 200.
        headers: By their names in lower case.
        part: Which part of the object it has, if it says that and is a part.
    """

    status: int
    headers: Mapping[str, str]
    part: ContentRange | None


def content_range(headers: Mapping[str, str]) -> ContentRange | None:
    """Return what the header ``Content-Range`` says, or None if it is missing or wrong in itself."""
    found = _RANGE.match(headers.get("content-range", ""))
    if found is None:
        return None
    first, final, whole = found.groups()
    size = int(whole)
    if first is None:
        return ContentRange(0, 0, size)
    start, last = int(first), int(final)
    return ContentRange(start, last + 1, size) if start <= last < size else None


def _said_length(headers: Mapping[str, str]) -> int | None:
    """Return what the header ``Content-Length`` says; None if it is missing."""
    text = headers.get("content-length")
    if text is None:
        return None
    if not _NUMBER.match(text):
        raise FailedAttemptError("wrong", f"the answer is no HTTP that can be read: its length is {text[:100]!r}")
    return int(text)


def check_head(request: Request, head: Head) -> float:
    """Return how many bytes an answer may have that claims to be good, or raise what is wrong with it already."""
    status, headers, found = head
    coding = headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "", "aws-chunked"):
        raise FailedAttemptError("wrong", f"the server encoded it with {coding[:50]}, which nobody asked for")
    if request.length is None:
        return 1
    framing = headers.get("transfer-encoding")
    if framing is not None and framing.lower() != "chunked":
        raise FailedAttemptError("wrong", f"its transfer encoding is {framing[:100]!r}")
    length = None if framing else _said_length(headers)
    if status == PARTIAL:
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


def says_no_size(head: Head) -> bool:
    """Return whether an answer to HEAD leaves to ask otherwise."""
    status, headers, _ = head
    return status in _NO_HEAD or (status == OK and not _NUMBER.match(headers.get("content-length", "")))


def to_answer(request: Request, head: Head, body: memoryview, store: str) -> Answer:
    """Return what was received as an answer, or raise why it is none.

    Args:
        request: What was asked.
        head: The head.
        body: The body.
        store: The repr of the store, which errors name.
    """
    status, headers, found = head
    etag = headers.get("etag") or headers.get("last-modified")
    if status in (OK, PARTIAL):
        if request.length is None:
            return Answer(body, _told_size(status, headers, found), etag)
        if status == OK:
            part = body if request.or_all else body[request.start : request.start + request.length]
            return Answer(part.toreadonly(), len(body), etag)
        assert found is not None
        if len(body) != found.stop - found.start:
            raise FailedAttemptError("wrong", f"{len(body)} bytes came, but {headers['content-range']} was said")
        return Answer(body.toreadonly(), found.size, etag)
    if status == _TOO_FAR and (found := content_range(headers)) is not None:
        return Answer(memoryview(b""), found.size, etag)
    if status in (404, 410):
        raise not_found(request.path, store)
    reason = f"the server answered {status}{_words(body)}"
    if status in _BUSY or status in _PASSING:
        pause = retry_after(headers, lambda: datetime.now(UTC))
        raise FailedAttemptError("throttled" if status in _BUSY else "broken", reason, pause)
    raise StoreError(reason)


def _told_size(status: int, headers: Mapping[str, str], found: ContentRange | None) -> int:
    """Return how many bytes an object has, of which at most the first was asked for."""
    if status == PARTIAL:
        if found is None or (found.start, found.stop) != (0, 1):
            said = headers.get("content-range", "nothing")[:100]
            raise FailedAttemptError("wrong", f"the first byte was asked for, but {said} came")
        return found.size
    length = _said_length(headers)
    if length is None:
        raise UnknownSizeError("the server does not say how many bytes it has")
    return length


def _words(body: memoryview) -> str:
    """Return the beginning of what a server says about an error."""
    text = " ".join(bytes(body[:1000]).decode("utf-8", "replace").split())
    # What is no text, such as the content of an object, would only garble the message.
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

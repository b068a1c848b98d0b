"""What an answer means: whether it is what was asked for, and which error it is otherwise."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from spdl.store._protocol.store import StoreError, not_found
from spdl.store._reading.attempts import Answer, FailedAttemptError, UnknownSizeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spdl.store._reading.attempts import Request

__all__ = [
    "IGNORED", "LONGEST_TEXT", "NO_FOLDERS", "OK", "PARTIAL", "ContentRange", "Head", "check_head", "content_range",
    "retry_after", "says_no_size", "to_answer",
]  # fmt: skip

OK = 200
PARTIAL = 206
IGNORED = "the server does not send parts of objects; it ignored the header Range"
NO_FOLDERS = (
    "web servers list no folders. Name the files by their URLs, in a list or by a pattern, keep a list of them beside "
    "them and read that, or have them in an object store, such as s3://"
)
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

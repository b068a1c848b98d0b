"""What an answer means: whether it is what was asked for, and which error it is otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spdl.store._http.head import OK, PARTIAL, TOO_FAR, ContentRange, Head, content_range
from spdl.store._protocol.errors import StoreError, not_found
from spdl.store._reading.attempts import Answer, FailedAttemptError, UnknownSizeError
from spdl.store._reading.backoff import retry_after

if TYPE_CHECKING:
    from spdl.store._reading.attempts import Request

__all__ = ["IGNORED", "find_fault", "has_too_much", "says_no_size", "to_answer"]

IGNORED = "the server does not send parts of objects; it ignored the header Range"

_LONGEST_TEXT = 1 << 16
_WHOLE = 1 << 23
"""Bytes of an object that are taken if a part was asked for and the server sends all of it."""
_BUSY = (429, 503)
_PASSING = (408, 425, 500, 502, 504)
_NO_HEAD = (400, 403, 405, 501)
"""What servers say to HEAD that would answer GET: among them those whose signatures are of one method."""


def find_fault(request: Request, head: Head, length: int | None, found: ContentRange | None) -> Exception | None:
    """Return what is wrong with an answer that claims to be good, before its body is received.

    Args:
        request: What was asked.
        head: The head of the answer.
        length: The bytes of its body, if the head says that.
        found: Which part of the object it has, if it says that.
    """
    headers = head.headers
    coding = headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "", "aws-chunked"):
        return FailedAttemptError("wrong", f"the server encoded it with {coding[:50]}, which nobody asked for")
    if request.length is None:
        return None
    if head.status == PARTIAL:
        stop = request.start + request.length
        if found is None or found.start != request.start or found.stop != min(stop, found.size):
            said = headers.get("content-range", "nothing")[:100]
            return FailedAttemptError("wrong", f"bytes {request.start} to {stop} were asked for, but {said} came")
        if length is not None and length != found.stop - found.start:
            return FailedAttemptError("wrong", f"the answer has {length} bytes, but says {headers['content-range']}")
    elif length is not None and has_too_much(request, head, length, found):
        return StoreError(IGNORED)
    return None


def has_too_much(request: Request, head: Head, length: int, found: ContentRange | None) -> bool:
    """Return whether a body is longer than one may be of which only a part was asked for, or none."""
    if head.status == PARTIAL:
        return found is not None and length > found.stop - found.start
    if head.status == OK:
        return not request.or_all and length > _WHOLE
    return length > _LONGEST_TEXT


def says_no_size(head: Head) -> bool:
    """Return whether an answer to HEAD leaves to ask otherwise."""
    try:
        return head.status in _NO_HEAD or (head.status == OK and head.said_length() is None)
    except ValueError:
        return True


def to_answer(
    request: Request, head: Head, body: memoryview, found: ContentRange | None, store: str, *, said: bool, by_get: bool
) -> Answer:
    """Return what was received as an answer.

    Args:
        request: What was asked.
        head: The head.
        body: The body.
        found: Which part of the object it has, if it says that.
        store: The repr of the store, which errors name.
        said: Whether the server said how long the body is.
        by_get: Whether only the size is wanted, and the first byte was asked for.

    Raises:
        FailedAttemptError: If another attempt may help.
        FileNotFoundError: If the object is missing.
        StoreError: If no other attempt will help.
    """
    status, headers, _ = head
    if status in (OK, PARTIAL):
        return _good_answer(request, head, body.toreadonly(), found, said=said)
    asked = request.length is not None or by_get
    if status == TOO_FAR and asked and (found := content_range(headers)) is not None:
        return Answer(memoryview(b""), found.size, _version(headers))
    if status in (404, 410):
        raise not_found(request.path, store)
    reason = f"the server answered {status}{_words(body)}"
    if status in _BUSY or status in _PASSING:
        pause = retry_after(headers, lambda: datetime.now(UTC))
        raise FailedAttemptError("throttled" if status in _BUSY else "broken", reason, pause)
    raise StoreError(reason)


def _good_answer(request: Request, head: Head, body: memoryview, found: ContentRange | None, *, said: bool) -> Answer:
    etag = _version(head.headers)
    if request.length is None:
        return Answer(body, _told_size(head), etag)
    if head.status == PARTIAL:
        assert found is not None
        if len(body) != found.stop - found.start:
            raise FailedAttemptError("wrong", f"{len(body)} bytes came, but {head.headers['content-range']} was said")
        return Answer(body, found.size, etag)
    if not request.or_all:
        return Answer(body[request.start : request.start + request.length], len(body), etag, said)
    return Answer(body, len(body), etag, said)


def _version(headers: dict[str, str]) -> str | None:
    return headers.get("etag") or headers.get("last-modified")


def _told_size(head: Head) -> int:
    """Return how many bytes an object has, of which at most the first was asked for."""
    if head.status == PARTIAL:
        found = content_range(head.headers)
        if found is None or (found.start, found.stop) != (0, 1):
            said = head.headers.get("content-range", "nothing")[:100]
            raise FailedAttemptError("wrong", f"the first byte was asked for, but {said} came")
        return found.size
    try:
        length = head.said_length()
    except ValueError as error:
        raise FailedAttemptError("wrong", f"the answer is no HTTP that can be read: {error}") from None
    if length is None:
        raise UnknownSizeError("the server does not say how many bytes it has")
    return length


def _words(body: memoryview) -> str:
    """Return the beginning of what a server says about an error."""
    text = " ".join(bytes(body[:1000]).decode("utf-8", "replace").split())
    # What is no text, such as the content of an object, would only garble the message.
    return f": {text[:200]}" if text[:200].isprintable() and text and "\ufffd" not in text[:200] else ""

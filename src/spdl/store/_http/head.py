"""The head of an answer: its status and headers."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["OK", "PARTIAL", "TOO_FAR", "ContentRange", "Head", "content_range", "parse_head"]

_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: |\r|$)")
_LINE = re.compile(r"\r\n([^\s:]+):([^\r\n]*)(?=\r\n|\Z)")
_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19})$")
_NUMBER = re.compile(r"\d{1,19}$", re.ASCII)


OK = 200
PARTIAL = 206
TOO_FAR = 416


class Head(NamedTuple):
    """The head of an answer.

    Attributes:
        status: Such as 200.
        headers: By their names in lower case.
        keeps: Whether the connection may be used again.
    """

    status: int
    headers: dict[str, str]
    keeps: bool

    def body_length(self) -> int | None:
        """Return how many bytes the body has; None if only its end will tell.

        Raises:
            ValueError: If there is no telling.
        """
        if self.status in (204, 304) or self.status < OK:
            return 0
        if "transfer-encoding" in self.headers:
            return None
        return self.said_length()

    def said_length(self) -> int | None:
        """Return what the header ``Content-Length`` says; None if it is missing.

        Raises:
            ValueError: If that is no number.
        """
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not _NUMBER.match(text):
            raise ValueError(f"its length is {text[:100]!r}")
        return int(text)


def parse_head(data: bytes) -> Head:
    """Return what the lines before the first empty line say.

    Raises:
        ValueError: If this is no HTTP.
    """
    text = data.decode("latin-1")
    status = _STATUS.match(text)
    if status is None:
        first = data.partition(b"\r\n")[0]
        raise ValueError(f"it begins with {first[:100]!r}, which is no HTTP/1.1")
    lines = _LINE.findall(text)
    headers = {name.lower(): value.strip() for name, value in lines}
    if not len(headers) == len(lines) == text.count("\r\n"):
        headers = _unusual_headers(text)
    connection = headers.get("connection", "").lower()
    keeps = "close" not in connection and (status[1] == "1" or "keep-alive" in connection)
    return Head(int(status[2]), headers, keeps)


def _unusual_headers(text: str) -> dict[str, str]:
    """Return headers, of which some may be there twice; say so if a line is none."""
    headers: dict[str, str] = {}
    for line in text.split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError(f"it has the header line {line[:100].encode('latin-1')!r}")
        name, value = name.lower(), value.strip()
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise ValueError(f"its length is both {headers[name][:20]} and {value[:20]}")
            if name != "content-length":
                value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


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


def content_range(headers: dict[str, str]) -> ContentRange | None:
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

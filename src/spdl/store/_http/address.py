"""The address of an object on the web, and the headers that authenticate a request."""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from spdl._check import refuse, shown
from spdl.store._requests import Crew
from spdl.store._store import StoreError

Origin = tuple[str, str, int]
"""A server: scheme, host and port. The host is a name or a number."""

NO_FOLDERS = (
    "web servers list no folders. Name the files by their URLs, in a list or by a pattern, keep a list of them beside "
    "them and read that, or have them in an object store, such as s3://"
)
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?=.{1,254}$)(?:[a-z0-9_-]{1,63}(?:\.|$))+", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NETLOC = re.compile(r"(?:.*@)?(?:\[[^\[\]]*\]|[^\[\]:]*)(?::\d*)?")
_UNQUOTED = re.compile(r"[^!-~]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AS_WRITTEN = "".join(map(chr, range(ord("!"), 127)))


class Address(NamedTuple):
    """A server, by ``"http"`` or ``"https"``, and what to ask it for."""

    origin: Origin
    target: str
    """The path, and the query if there is one, in the form in which they are sent."""

    def joined(self, location: str) -> Address:
        """Return the address that a redirection names, in which spaces and letters need not be quoted.

        ValueError if it is invalid.
        """
        # Headers come as Latin-1, byte by byte.
        quoted = quote(location.encode("latin-1"), _AS_WRITTEN)
        try:
            # Python would take a URL without a host for a part of this one.
            whole = _SCHEME.match(quoted) or _CONTROL.search(location)
            url = quoted if whole else urljoin(f"{self.origin[0]}://{host_header(self.origin)}{self.target}", quoted)
        except ValueError:
            url = ""
        return parse_address(url, location)


def parse_address(url: str, named: str = "") -> Address:
    """Return the address of a URL. ValueError if it is not a URL of HTTP.

    The message has the URL, or how it was named, and not Python's text: that may have a password.
    """
    called = repr(shown(named or url)[:200])
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host = host if host.isascii() else host.encode("idna").decode()
        if ":" in host:
            ipaddress.IPv6Address(host)
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    known = parts.scheme in _PORTS and _NETLOC.fullmatch(parts.netloc) and port != 0
    if not (known and (":" in host or _NAME.fullmatch(host))):
        raise ValueError(f"not an HTTP URL: {called}")
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    # Python drops some characters without a word.
    if _UNQUOTED.search(target) or _CONTROL.search(url) or url[0] == " ":
        raise ValueError(f"a URL with characters that have to be quoted: {called}")
    return Address((parts.scheme, host, port or _PORTS[parts.scheme]), target)


def host_header(origin: Origin) -> str:
    scheme, host, port = origin
    name = f"[{host}]" if ":" in host else host
    return name if _PORTS[scheme] == port else f"{name}:{port}"


Headers = Mapping[str, str] | Callable[[], Mapping[str, str]] | None


class Credentials:
    """The headers that are sent to the store's own server, and renewed when it refuses them. Threads share it.

    A function of the user is called by another thread, since it cannot be ended: each caller waits until its own
    deadline. There is one call of it at a time, for all. `learn` is given what it returns, which is secret.
    """

    def __init__(self, headers: Headers, learn: Callable[[object], None]) -> None:
        if not (headers is None or callable(headers) or isinstance(headers, Mapping)):
            refuse(TypeError, "headers", "a mapping of names to values, or a function that returns one", type(headers))
        self._headers = headers
        self._learn = learn
        self._lock = threading.Lock()
        self._now: dict[str, str] | None = None if callable(headers) else _checked(headers or {})
        self._asking: Future[dict[str, str]] | None = None

    def now(self, until: float, crew: Crew) -> dict[str, str]:
        """Return the headers. StoreError if the function does not return until a time; its own exceptions pass."""
        if (now := self._now) is not None:
            return now
        with self._lock:
            if self._now is not None:
                return self._now
            if self._asking is None:
                asking: Future[dict[str, str]] = Future()
                crew.fulfil(asking, self._ask)
                self._asking = asking
            asking = self._asking
        try:
            return asking.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            if asking.done():  # It is the function's own.
                return asking.result()
            raise StoreError("no answer in time: the function for `headers` has not returned") from None

    def renew(self, refused: dict[str, str], until: float, crew: Crew) -> bool:
        """Return whether there are other headers than those that were refused. Raises what `now` does."""
        if not callable(self._headers):
            return False
        with self._lock:
            if self._now == refused:
                self._now = None
        return self.now(until, crew) != refused

    def _ask(self) -> dict[str, str]:
        found = None
        try:
            assert callable(self._headers)
            told = self._headers()
            self._learn(told)
            if not isinstance(told, Mapping):
                refuse(TypeError, "headers", "a function that returns a mapping of names to values", type(told))
            found = _checked(told)
            return found
        finally:
            with self._lock:
                self._now, self._asking = found, None


def _checked(headers: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            refuse(TypeError, "headers", "names and values that are str", (type(name), type(value)))
        line = f"{name}: {value}"
        if not name or not line.isprintable() or not line.isascii() or ":" in name or " " in name:
            refuse(ValueError, "headers", "names and values of one line of ASCII each", "another one")
    return {**headers}

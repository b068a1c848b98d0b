"""Where an object is on the web."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from spdl._shown import shown

__all__ = ["Address", "Origin", "host_header", "parse_address"]

Origin = tuple[str, str, int]
"""A server: scheme, host and port. The host is a name or a number."""

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A server and what to ask it for.

    Attributes:
        origin: The server. Its scheme is ``"http"`` or ``"https"``.
        target: The path, and the query if there is one, as they are sent.
    """

    origin: Origin
    target: str

    @property
    def scheme(self) -> str:
        """The scheme."""
        return self.origin[0]

    @property
    def host(self) -> str:
        """The name or number of the server."""
        return self.origin[1]

    def joined(self, location: str) -> Address:
        """Return the address that a redirection names.

        Raises:
            ValueError: If it is none.
        """
        # Headers come as Latin-1; a URL outside of ASCII is UTF-8.
        location = location.encode("latin-1").decode("utf-8", "replace")
        return parse_address(urljoin(f"{self.scheme}://{host_header(self.origin)}{self.target}", location))


def parse_address(url: str) -> Address:
    """Return the address of a URL.

    Raises:
        ValueError: If it is no URL of HTTP.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"no URL of HTTP: {shown(url)[:200]!r}")
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    if not target.isascii() or any(each <= " " or each == "\x7f" for each in target):
        raise ValueError(f"a URL with characters that have to be quoted: {shown(url)[:200]!r}")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    return Address((parts.scheme, host, parts.port or _PORTS[parts.scheme]), target)


def host_header(origin: Origin) -> str:
    """Return the server as requests name it."""
    scheme, host, port = origin
    name = f"[{host}]" if ":" in host else host
    return name if _PORTS[scheme] == port else f"{name}:{port}"

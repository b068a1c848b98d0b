"""Where an object is on the web."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

__all__ = ["Address", "parse_address"]

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """A server and what to ask it for.

    Attributes:
        scheme: ``"http"`` or ``"https"``.
        host: Its name or number.
        port: Its port.
        target: The path, and the query if there is one, as they are sent.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """The server."""
        return self[:3]

    @property
    def host_header(self) -> str:
        """The server as requests name it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if _PORTS[self.scheme] == self.port else f"{name}:{self.port}"

    def joined(self, location: str) -> Address:
        """Return the address that a redirection names.

        Raises:
            ValueError: If it is none.
        """
        # Headers come as Latin-1; a URL outside of ASCII is UTF-8.
        location = location.encode("latin-1").decode("utf-8", "replace")
        return parse_address(urljoin(f"{self.scheme}://{self.host_header}{self.target}", location))


def parse_address(url: str) -> Address:
    """Return the address of a URL.

    Raises:
        ValueError: If it is no URL of HTTP.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"no URL of HTTP: {url[:200]!r}")
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    if not target.isascii() or any(each <= " " or each == "\x7f" for each in target):
        raise ValueError(f"a URL with characters that have to be quoted: {url[:200]!r}")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    return Address(parts.scheme, host, parts.port or _PORTS[parts.scheme], target)

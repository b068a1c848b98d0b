"""Where an object is on the web."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from spdl._shown import shown

__all__ = ["Address", "Origin", "host_header", "parse_address"]

Origin = tuple[str, str, int]
"""A server: scheme, host and port. The host is a name or a number."""

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?=.{1,254}$)(?:[a-z0-9_-]{1,63}(?:\.|$))+", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NETLOC = re.compile(r"(?:.*@)?(?:\[[^\[\]]*\]|[^\[\]:]*)(?::\d*)?")
_UNQUOTED = re.compile(r"[^!-~]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AS_WRITTEN = "".join(map(chr, range(ord("!"), 127)))


class Address(NamedTuple):
    """A server and what to ask it for.

    Attributes:
        origin: The server. Its scheme is ``"http"`` or ``"https"``.
        target: The path, and the query if there is one, as they are sent.
    """

    origin: Origin
    target: str

    def joined(self, location: str) -> Address:
        """Return the address that a redirection names, in which spaces and letters need not be quoted.

        Raises:
            ValueError: If it is none.
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
    """Return the address of a URL.

    Raises:
        ValueError: If it is no URL of HTTP. The message has the URL, or how it was named, and not what Python says of
            it: that may have a password.
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
        raise ValueError(f"no URL of HTTP: {called}")
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    # Python drops some characters without a word.
    if _UNQUOTED.search(target) or _CONTROL.search(url) or url[0] == " ":
        raise ValueError(f"a URL with characters that have to be quoted: {called}")
    return Address((parts.scheme, host, port or _PORTS[parts.scheme]), target)


def host_header(origin: Origin) -> str:
    """Return the server as requests name it."""
    scheme, host, port = origin
    name = f"[{host}]" if ":" in host else host
    return name if _PORTS[scheme] == port else f"{name}:{port}"

"""Headers that say who asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from spdl._check import refuse

__all__ = ["Credentials", "Headers"]

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]] | None


class Credentials:
    """The headers that are sent to the store's own server, and renewed when it refuses them. Threads share it.

    Args:
        headers: The headers, or a function that returns them and is called again when they have expired.
    """

    def __init__(self, headers: Headers) -> None:
        if not (headers is None or callable(headers) or isinstance(headers, Mapping)):
            refuse(TypeError, "headers", "a mapping of names to values, or a function that returns one", type(headers))
        self._headers = headers
        self._lock = threading.Lock()
        self._lines: bytes | None = None if callable(headers) else _lines(headers or {})

    def lines(self) -> bytes:
        """Return the headers as they are sent. What the user's function raises is raised."""
        if (lines := self._lines) is not None:
            return lines
        with self._lock:
            if self._lines is None:
                self._lines = self._ask()
            return self._lines

    @property
    def renewable(self) -> bool:
        """Whether there may be others than those that were sent."""
        return callable(self._headers)

    def renew(self, refused: bytes) -> bool:
        """Return whether there are other headers than those that were refused; ask for some once."""
        with self._lock:
            if self._lines == refused:
                self._lines = self._ask()
            return self._lines != refused

    def _ask(self) -> bytes:
        assert callable(self._headers)
        found = self._headers()
        if not isinstance(found, Mapping):
            refuse(TypeError, "headers", "a function that returns a mapping of names to values", type(found))
        return _lines(found)


def _lines(headers: Mapping[Any, Any]) -> bytes:
    lines = []
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            refuse(TypeError, "headers", "names and values that are str", (type(name), type(value)))
        line = f"{name}: {value}"
        if not name or not line.isprintable() or not line.isascii() or ":" in name or " " in name:
            refuse(ValueError, "headers", "names and values of one line of ASCII each", "another one")
        lines.append(line + "\r\n")
    return "".join(lines).encode()

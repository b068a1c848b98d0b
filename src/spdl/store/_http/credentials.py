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
        self._now: dict[str, str] | None = None if callable(headers) else _checked(headers or {})

    def now(self) -> dict[str, str]:
        """Return the headers. What the user's function raises is raised."""
        if (now := self._now) is not None:
            return now
        with self._lock:
            if self._now is None:
                self._now = self._ask()
            return self._now

    @property
    def renewable(self) -> bool:
        """Whether there may be others than those that were sent."""
        return callable(self._headers)

    def renew(self, refused: dict[str, str]) -> bool:
        """Return whether there are other headers than those that were refused; ask for some once."""
        with self._lock:
            if self._now == refused:
                self._now = self._ask()
            return self._now != refused

    def _ask(self) -> dict[str, str]:
        assert callable(self._headers)
        found = self._headers()
        if not isinstance(found, Mapping):
            refuse(TypeError, "headers", "a function that returns a mapping of names to values", type(found))
        return _checked(found)


def _checked(headers: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            refuse(TypeError, "headers", "names and values that are str", (type(name), type(value)))
        line = f"{name}: {value}"
        if not name or not line.isprintable() or not line.isascii() or ":" in name or " " in name:
            refuse(ValueError, "headers", "names and values of one line of ASCII each", "another one")
    return {**headers}

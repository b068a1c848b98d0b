"""Headers that say who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from spdl._check import refuse
from spdl.store._protocol.store import StoreError

if TYPE_CHECKING:
    from spdl.store._reading.crew import Crew

__all__ = ["Credentials", "Headers"]

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]] | None


class Credentials:
    """The headers that are sent to the store's own server, and renewed when it refuses them. Threads share it.

    A function of the user is called by another thread, since nobody can end it: whoever waits does so for as long as
    its own call may take. There is one call of it at a time, for all.

    Args:
        headers: The headers, or a function that returns them and is called again when they have expired.
        learn: Is given what the function returns, which is secret.
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
        """Return the headers. What the user's function raises is raised.

        Raises:
            StoreError: If it does not return until a time, by the monotonic clock.
        """
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

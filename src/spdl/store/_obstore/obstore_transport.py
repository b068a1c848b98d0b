"""Carries requests by obstore."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from spdl.store._protocol.store import StoreError, not_found
from spdl.store._reading.attempts import Answer, FailedAttemptError

if TYPE_CHECKING:
    from spdl.store._reading.attempts import Request
    from spdl.store._reading.crew import Crew

__all__ = ["ObstoreTransport", "note_use", "translated"]

_SILENCE_SECONDS = 20.0
_BUSY = re.compile(r"\b(429|503)\b|SlowDown|Too Many Requests|ServiceUnavailable")
_REFUSED = re.compile(r"\bstatus(?: code)?:? 4\d\d\b")
# What obstore says of a request that it does not send.
_UNBUILT = "builder error"
_PLAIN = "{'client_options': {'allow_http': True}}"
_FINAL = (
    "PermissionDeniedError",
    "UnauthenticatedError",
    "InvalidPathError",
    "NotSupportedError",
    "UnknownConfigurationKeyError",
)


_process = {"used": False, "unusable": False}
"""Whether obstore has threads, and whether this process was forked from one where it had: here they do not exist."""

os.register_at_fork(after_in_child=lambda: _process.update(unusable=_process["used"]))


def note_use() -> None:
    """Note that obstore is going to be used in this process; StoreError if it would wait for ever."""
    if _process["unusable"]:
        raise StoreError(
            "obstore was used before this process was forked, and its threads do not exist here. Start processes by "
            "'spawn' or 'forkserver', or read in the new process only"
        )
    _process["used"] = True


class ObstoreAttempt:
    """A request that obstore carries, in another thread: nobody can end its calls, but nobody has to wait for them.

    Attributes:
        first_byte_at: When its answer began; None before.
    """

    def __init__(self, transport: ObstoreTransport, request: Request, crew: Crew) -> None:
        self.first_byte_at: float | None = None
        self._transport = transport
        self._request = request
        self._crew = crew
        self._answer: Future[Answer] = Future()

    def abort(self) -> None:
        """Have `run` raise something."""
        self._answer.cancel()

    def run(self) -> Answer:
        """Send it, and return the answer; see `Attempt.run`."""
        self._crew.fulfil(self._answer, self._ask)
        while not self._answer.done():
            silent = self.first_byte_at is None
            wait([self._answer], _SILENCE_SECONDS)
            if silent and self.first_byte_at is None and not self._answer.done():
                raise FailedAttemptError("late", f"nothing was heard for {_SILENCE_SECONDS:g} s")
        try:
            return self._answer.result()
        except Exception as error:
            raise translated(error, self._request.path, self._transport.store) from error

    def _ask(self) -> Answer:
        import obstore  # noqa: PLC0415 - an extra.

        path, start, length, _ = self._request
        store = self._transport.source
        if length is None:
            return _of_meta(obstore.head(store, path))
        try:
            result = obstore.get(store, path, options={"range": (start, start + length)})
            self.first_byte_at = time.monotonic()
            meta = result.meta
            content = memoryview(result.bytes())
        except FileNotFoundError:
            raise
        except Exception as error:
            if type(error).__name__ != "GenericError":
                raise
            # What lies beyond the end, and all of an object without bytes, is an error like any other.
            if (answer := _of_meta(obstore.head(store, path))).size > start:
                raise
            return answer
        expected = min(length, meta["size"] - start)
        if len(content) != expected:
            raise FailedAttemptError("cut", f"{len(content)} bytes came instead of {expected}")
        return Answer(content, meta["size"], meta["e_tag"])


def _of_meta(meta: Any) -> Answer:
    return Answer(memoryview(b""), meta["size"], meta["e_tag"])


class ObstoreTransport:
    """Has obstore ask. Threads share it.

    Attributes:
        store: The repr of the store, which errors name.
        source: obstore's own object.
    """

    def __init__(self, store: str, source: Any) -> None:
        self.store = store
        self.source = source

    def prepare(self, *_: object) -> None:
        """Note that obstore is used."""
        note_use()

    def attempt(self, request: Request, _: float, crew: Crew) -> ObstoreAttempt:
        """Return an attempt to have a request answered, by a thread of a crew. Whoever knows the time aborts it."""
        return ObstoreAttempt(self, request, crew)

    def close(self) -> None:
        """Do nothing: obstore keeps connections as it likes."""

    def abandon(self) -> None:
        """Do nothing: obstore is of no use in a forked process."""


def translated(error: Exception, path: str, store: str) -> Exception:
    """Return an error of obstore as one of ours."""
    if isinstance(error, FileNotFoundError):
        return not_found(path, store)
    if isinstance(error, StoreError):
        return error
    text = " ".join(str(error).partition("Debug source")[0].split())[:500]
    if type(error).__name__ in _FINAL or isinstance(error, PermissionError):
        return StoreError(text)
    if _UNBUILT in text:
        return StoreError(f"{text}. If the endpoint is http://, config={_PLAIN} allows it")
    if _BUSY.search(text):
        return FailedAttemptError("throttled", text)
    return StoreError(text) if _REFUSED.search(text) else FailedAttemptError("broken", text)

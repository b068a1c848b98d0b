"""Carries requests by obstore."""

from __future__ import annotations

import os
import re
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from spdl.store._obstore.event_loop import EventLoop
from spdl.store._protocol.errors import StoreError, not_found
from spdl.store._reading.attempts import Answer, FailedAttemptError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from spdl.store._reading.attempts import Exchange, Request

__all__ = ["ObstoreTransport", "translated"]

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


class _Fork:
    """Whether this process was forked from one that had used obstore, whose threads do not exist here."""

    used = False
    unusable = False

    @classmethod
    def note_use(cls) -> None:
        """Note that obstore has threads here."""
        cls.used = True

    @classmethod
    def note_fork(cls) -> None:
        """Note that this is another process."""
        cls.unusable = cls.used


os.register_at_fork(after_in_child=_Fork.note_fork)


class ObstoreExchange:
    """A request that obstore carries."""

    def __init__(self, transport: ObstoreTransport, request: Request) -> None:
        self.done = False
        self.first_byte_at: float | None = None
        self.moved_at = time.monotonic()
        self._transport = transport
        self._request = request
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def started(self, task: asyncio.Task[None]) -> None:
        """Learn which task carries it, in the loop's thread."""
        self._task = task
        if self._cancelled:
            task.cancel()

    async def carry(self) -> None:
        """Ask, and keep what is answered."""
        try:
            self._answer = await self._ask()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
            self._error = error
        self.done = True
        self._transport.note(self)

    async def _ask(self) -> Answer:
        import obstore  # noqa: PLC0415 - an extra.

        path, start, length, _ = self._request
        store = self._transport.source
        if length is None:
            return _of_meta(await obstore.head_async(store, path))
        try:
            result = await obstore.get_async(store, path, options={"range": (start, start + length)})
            self.first_byte_at = self.moved_at = time.monotonic()
            meta = result.meta
            content = memoryview(await result.bytes_async())
        except FileNotFoundError:
            raise
        except Exception as error:
            if type(error).__name__ != "GenericError":
                raise
            # What lies beyond the end, and all of an object without bytes, is an error like any other.
            if (answer := _of_meta(await obstore.head_async(store, path))).size > start:
                raise
            return answer
        expected = min(length, meta["size"] - start)
        if len(content) != expected:
            raise FailedAttemptError("cut", f"{len(content)} bytes came instead of {expected}")
        return Answer(content, meta["size"], meta["e_tag"])

    def look(self) -> None:
        """Take it that bytes arrive, once the answer has begun: obstore does not say before all are there."""
        if self.first_byte_at is not None:
            self.moved_at = time.monotonic()

    def answer(self) -> Answer:
        """Return what was received, or raise what `Exchange.answer` says."""
        if self._error is not None:
            raise translated(self._error, self._request.path, self._transport.store) from self._error
        assert self._answer is not None
        return self._answer

    def cancel(self) -> None:
        """Stop it, if it is not done."""
        self._cancelled = True
        if not self.done:
            self._transport.cancel(self)

    def cancel_task(self) -> None:
        """Stop it, in the loop's thread."""
        if self._task is not None:
            self._task.cancel()


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
        self._loop = EventLoop()
        self._news: SimpleQueue[ObstoreExchange | None] = SimpleQueue()

    def prepare(self) -> None:
        """Raise StoreError in a process in which obstore would wait for ever."""
        if _Fork.unusable:
            raise StoreError(
                "obstore was used before this process was forked, and its threads do not exist here. Start processes "
                "by 'spawn' or 'forkserver', or read in the new process only"
            )
        _Fork.note_use()

    def begin(self) -> None:
        """Do nothing: the event loop starts with the first request."""

    def send(self, request: Request) -> ObstoreExchange:
        """Send a request."""
        exchange = ObstoreExchange(self, request)
        self._loop.start(exchange.carry(), exchange.started)
        return exchange

    def note(self, exchange: ObstoreExchange) -> None:
        """Note that an exchange is done, in the loop's thread."""
        self._news.put(exchange)

    def cancel(self, exchange: ObstoreExchange) -> None:
        """Stop a request."""
        self._loop.call(exchange.cancel_task)

    def wait(self, seconds: float | None) -> Sequence[Exchange]:
        """Return exchanges that are done, as soon as there are some; none after so many seconds, or `wake`."""
        done: list[Exchange] = []
        try:
            found = self._news.get(timeout=seconds)
            while True:
                if found is not None:
                    done.append(found)
                found = self._news.get_nowait()
        except Empty:
            return done

    def wake(self) -> None:
        """Have `wait` return, now or when it is called next."""
        self._news.put(None)

    def rest(self) -> None:
        """End the event loop's thread."""
        self._loop.stop()

    def abandon(self) -> None:
        """Do nothing: obstore is of no use in a forked process."""


def translated(error: BaseException, path: str, store: str) -> BaseException:
    """Return an error of obstore as one of ours."""
    if isinstance(error, FileNotFoundError):
        return not_found(path, store)
    if isinstance(error, StoreError) or not isinstance(error, Exception):
        return error
    text = " ".join(str(error).partition("Debug source")[0].split())[:500]
    if type(error).__name__ in _FINAL or isinstance(error, PermissionError):
        return StoreError(text)
    if _UNBUILT in text:
        return StoreError(f"{text}. If the endpoint is http://, config={_PLAIN} allows it")
    if _BUSY.search(text):
        return FailedAttemptError("throttled", text)
    return StoreError(text) if _REFUSED.search(text) else FailedAttemptError("broken", text)

"""A channel between a pipeline and a worker in threads of the same process: nothing is copied or pickled.

Its ends have the methods of those in `channel`, and keep their rules, so whoever runs workers need not know where they
are. What is sent is what is received: the same objects.
"""

from __future__ import annotations

import os
from collections import deque
from threading import Condition
from typing import TYPE_CHECKING, Any

from .counter import Counter
from .signals import ChannelClosed, PeerGone

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ThreadEnd", "make_thread_channel"]

# Messages that wait at most on each way. A worker need not wait for each to be read, and not be far ahead either.
_CAPACITY = 4


class _Way:
    """Messages from one end to the other."""

    def __init__(self) -> None:
        self.messages: deque[list[Any]] = deque()
        # Opened at each change.
        self.changed = Condition()
        # The sender has closed its end, or the receiver has.
        self.no_more = self.unwanted = False

    def end(self) -> None:
        """Note that nothing more will be sent. Called with ``changed`` held, as all here."""
        self.no_more = True
        self.changed.notify_all()

    def refuse(self) -> list[list[Any]]:
        """Note that nothing more is wanted. Return what was sent and not received."""
        self.unwanted = True
        self.changed.notify_all()
        refused = list(self.messages)
        self.messages.clear()
        return refused


class ThreadEnd:
    """One end of the channel.

    Args:
        out: What this end sends.
        into: What it receives.
        wakes: Becomes readable when ``out`` changes, for the other end; None if that waits for one channel only.
        woken: The same for this end.
    """

    def __init__(self, out: _Way, into: _Way, wakes: Counter | None, woken: Counter | None) -> None:
        self._out = out
        self._into = into
        self._wakes = wakes
        self._woken = woken
        self._owner = os.getpid()

    def send(self, items: Sequence[object], timeout: float | None = None) -> None:
        """Send a batch of items.

        Raises:
            TimeoutError: If there was no room in time. Nothing was sent.
            PeerGone: If the other end is closed.
            ChannelClosed: If this end is closed.
        """
        out = self._out
        with out.changed:
            roomy = out.changed.wait_for(
                lambda: len(out.messages) < _CAPACITY or out.no_more or out.unwanted, timeout=timeout
            )
            if out.no_more:
                raise ChannelClosed
            if out.unwanted:
                raise PeerGone
            if not roomy:
                raise TimeoutError
            out.messages.append(list(items))
            out.changed.notify_all()
            self._wake()

    def receive(self, timeout: float | None = None) -> list[Any]:
        """Receive the next batch.

        Raises:
            TimeoutError: If there was none in time.
            PeerGone: If there will be none, since the other end is closed.
            ChannelClosed: If this end is closed.
        """
        into = self._into
        with into.changed:
            if not into.messages and timeout != 0:
                into.changed.wait_for(lambda: into.messages or into.no_more or into.unwanted, timeout=timeout)
            if into.unwanted:
                raise ChannelClosed
            if into.messages:
                into.changed.notify_all()
                return into.messages.popleft()
            if into.no_more:
                raise PeerGone
            if self._woken is not None:
                self._woken.take()
            raise TimeoutError

    def has_room(self) -> bool:
        """Return whether a batch, or two, can be sent without waiting. Whoever asks is the one who sends."""
        out = self._out
        return len(out.messages) + 2 <= _CAPACITY and not (out.no_more or out.unwanted)

    def await_end(self, seconds: float | None = None) -> bool:
        """Wait until either end is closed. Return whether one is."""
        into = self._into
        with into.changed:
            return into.changed.wait_for(lambda: into.no_more or into.unwanted, timeout=seconds)

    def descriptors(self) -> list[int]:
        """Return descriptors one of which is readable when there is something to receive, or the other side is gone.

        When one is, call ``receive(0)`` until it raises TimeoutError.
        """
        return [] if self._woken is None else [self._woken.reader]

    def close(self) -> None:
        """Close the end. The other one receives what was sent, and then raises `PeerGone`. May be repeated."""
        if os.getpid() != self._owner:
            # The other end is not in this process.
            return
        with self._into.changed:
            dropped = self._into.refuse()
            woken, self._woken = self._woken, None
        with self._out.changed:
            self._out.end()
            self._wake()
            wakes, self._wakes = self._wakes, None
        for counter in (woken, wakes):
            if counter is not None:
                counter.close()
        # Without a lock, since that may run code of the user's.
        del dropped

    def _wake(self) -> None:
        if self._wakes is not None:
            self._wakes.add(1)


def make_thread_channel() -> tuple[ThreadEnd, ThreadEnd]:
    """Make a channel, and return the pipeline's end and the worker's.

    Raises:
        OSError: If the system has not enough descriptors.
    """
    there, back = _Way(), _Way()
    woken = Counter()
    try:
        wakes = woken.copy()
    except BaseException:
        woken.close()
        raise
    return ThreadEnd(there, back, None, woken), ThreadEnd(back, there, wakes, None)

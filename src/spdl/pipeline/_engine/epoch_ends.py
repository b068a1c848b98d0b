"""The ends of epochs on their way from the sink to the consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._world import get_ident

if TYPE_CHECKING:
    from types import TracebackType

    from .sink import Sink

__all__ = ["EpochEnds"]


class EpochEnds:
    """Counts the ends of epochs that consumers have read. Needs no lock.

    A reader takes an end from the sink, and the end counts as read in the last step before the exception that tells the
    consumer leaves the read: when a ``with`` block ends that has this object as its context manager. A Ctrl-C may come
    between. Then the end stays with the reader's thread, and is the first that the thread's next read finds. Else that
    read would get items of the next epoch.

    Attributes:
        read: How many ends have reached their consumers.
    """

    __slots__ = ("_expected", "_in_hand", "read")

    def __init__(self) -> None:
        self.read = 0
        # How many that will be when the sink is empty.
        self._expected = 0
        # By the identity of each thread that has taken an end: whether the consumer does not know of it yet.
        self._in_hand: dict[int, bool] = {}

    def begin_at(self, read: int) -> None:
        """Count on from another number. Called before the start."""
        self.read = self._expected = read

    def passes(self) -> None:
        """Note that an end went into the sink. Called with the engine's lock held."""
        self._expected += 1

    def take(self) -> None:
        """Note that this thread has taken an end from the sink."""
        self._in_hand[get_ident()] = True

    def take_if_lost(self, sink: Sink) -> None:
        """Note that this thread has taken an end, if one is missing: it took something, and does not know what.

        Called with the engine's lock held.
        """
        waiting = len(sink.entries) - sink.items()
        if self.read + sum(self._in_hand.copy().values()) + waiting < self._expected:
            self.take()

    def in_hand(self) -> bool:
        """Return whether this thread has taken an end of which its consumer does not know yet."""
        return bool(self._in_hand) and self._in_hand.get(get_ident(), False)

    def __enter__(self) -> None:
        """Begin to tell the consumer: the block does nothing but raise what tells it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Count the end that this thread has taken, if any, unless something else was raised."""
        thread = get_ident()
        if isinstance(error, (StopIteration, EOFError)) and self._in_hand.get(thread, False):
            # One statement without a call in it: no signal handler runs in between.
            self.read, self._in_hand[thread] = self.read + 1, False

    def count(self) -> None:
        """Note that an end was read by somebody whom no signal interrupts."""
        self.read += 1

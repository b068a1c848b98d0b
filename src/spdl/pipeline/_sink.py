"""The buffer between the engine and the consumer."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from threading import Lock

    from ._node import Entry

__all__ = ["Sink"]


class Sink:
    """What is finished and not yet read.

    Workers append under the engine's lock. The consumer pops without it: a deque's operations are atomic, and only
    when it finds nothing, or the engine is held up by a full sink, does it need the lock.
    """

    __slots__ = ("entries", "fill", "full", "readers", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: deque[Entry] = deque()
        # Set by whoever found no room; whoever pops an entry and sees it tells the engine.
        self.full = False
        # How many entries lay here at each put, added up.
        self.fill = 0
        # The gates of consumers that found nothing.
        self.readers: list[Lock] = []

    def put(self, entry: Entry) -> None:
        """Append an entry. Called with the engine's lock held."""
        self.fill += len(self.entries)
        self.entries.append(entry)
        if self.readers:
            self.wake_reader()

    def wake_reader(self) -> None:
        """Let one waiting consumer look again. Needs no lock."""
        while True:
            try:
                gate = self.readers.pop()
            except IndexError:
                return
            try:
                gate.release()
            except RuntimeError:
                # It was interrupted this very moment, so it takes nothing.
                continue
            return

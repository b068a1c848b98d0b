"""What stores on other machines have in common."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from spdl._check import check_seconds
from spdl._counted import show_counters
from spdl._forks import renew_in_children
from spdl.store._protocol.base import CheckedVersionedStore, Ranges
from spdl.store._reading.books import Books
from spdl.store._reading.reader import Reader
from spdl.store._reading.sender import Sender

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from spdl.store._protocol.address import SecretAddress
    from spdl.store._protocol.store import Entry
    from spdl.store._reading.attempts import Transport
    from spdl.store._reading.books import StoreStatistics

__all__ = ["RemoteStore"]


class RemoteStore(CheckedVersionedStore):
    """A store that is read by requests: planned, counted, limited, repeated, and sent twice where they are late.

    Args:
        place: Where it is.
        timeout: Seconds that a request may take from when it is asked for, with all repetitions.
    """

    def __init__(self, place: SecretAddress, timeout: float) -> None:
        self._place = place
        self._timeout = check_seconds("timeout", timeout, above_zero=True)
        self._begin()
        renew_in_children(self)
        show_counters(self, repr(self))

    def _begin(self) -> None:
        books = self._books = Books()
        self._transport = self._make_transport(books)
        self._sender = Sender(self._transport, books, self._timeout)
        # Nothing that the store has leads back to it, so that it goes when nobody uses it.
        self._reader = Reader(repr(self), self._place, self._sender)
        self._closing = weakref.finalize(self, self._sender.close_soon)

    def _renew(self) -> None:
        self._closing.detach()
        self._transport.abandon()
        self._begin()

    def _make_transport(self, books: Books) -> Transport:
        raise NotImplementedError

    def _size(self, path: str) -> int:
        return self._reader.look(path).size

    def _read(self, path: str, ranges: Ranges | None) -> tuple[Entry, list[Buffer]]:
        return self._reader.read(path, ranges)

    def close(self) -> None:
        """Close the connections, and end the threads of the store, as soon as all calls have returned.

        It need not be called: it happens when the store is not used anymore. The next call opens them again.
        """
        self._sender.close()

    def statistics(self) -> StoreStatistics:
        """Return what was counted so far. The counts go on meanwhile, and begin anew in a forked process.

        The statistics of pipelines have what was counted since their start.
        """
        return self._books.statistics()

    def _counters(self) -> dict[str, float]:
        return self._books.counters()

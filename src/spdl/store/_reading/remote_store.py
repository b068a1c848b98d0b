"""What stores on other machines have in common."""

from __future__ import annotations

import random
import time
import weakref
from typing import TYPE_CHECKING

from spdl._check import check_seconds
from spdl._counted import show_counters
from spdl._forks import renew_in_children
from spdl.store._protocol.checks import check_object_path, check_ranges
from spdl.store._protocol.entry import Entry
from spdl.store._reading.books import Books
from spdl.store._reading.reader import Reader
from spdl.store._reading.sender import Sender, Surroundings

if TYPE_CHECKING:
    import builtins
    import threading
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.address import SecretAddress
    from spdl.store._reading.attempts import Transport
    from spdl.store._reading.counts import StoreStatistics

__all__ = ["RemoteStore"]


class RemoteStore:
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
        self._sender = Sender(
            Surroundings(self._transport, books, self._timeout, time.monotonic, _sleep, random.random)
        )
        # Nothing that the store has leads back to it, so that it goes when nobody uses it.
        self._reader = Reader(repr(self), self._place, self._sender, books)
        self._closing = weakref.finalize(self, self._sender.close_soon)

    def _renew(self) -> None:
        self._closing.detach()
        self._transport.abandon()
        self._begin()

    def _make_transport(self, books: Books) -> Transport:
        raise NotImplementedError

    def size(self, path: str) -> int:
        """Return the number of bytes of an object.

        Args:
            path: Which object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the server does not say, or cannot be reached.
        """
        return self._reader.look(check_object_path(path)).size

    def get(self, path: str) -> Buffer:
        """Return the content of an object, which is of one version.

        If it is large, its parts are requested several at a time.

        Args:
            path: Which object.

        Returns:
            A read-only view of memory of its own.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If it cannot be read: the message says after how many attempts, and why the last one failed.
        """
        return self._reader.read(check_object_path(path))[1]

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        """Return parts of an object, all of one version, in the order they were asked for.

        Neighbours are requested at once: if fewer bytes lie between them than would arrive while one waits for another
        answer. Large parts are requested in several pieces. Several requests are under way at a time.

        Args:
            path: Which object.
            starts: Where each part begins, in bytes. In any order; parts may overlap.
            lengths: How many bytes each part has.

        Returns:
            A read-only view for each part. Some are views of the same memory, unless they are small in it.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it ends before one of the parts does, or cannot be read.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        check_object_path(path)
        return [*self._reader.read_ranges(path, *check_ranges(starts, lengths))[1]]

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, builtins.list[Buffer]]:
        """Return the version that was read, and its content, whole or in parts; see `get` and `get_ranges`.

        `CachedStore` knows by this that what it keeps is of the version that it is kept under.

        Args:
            path: Which object.
            ranges: Where each part begins, and how many bytes each has. None for the whole content, as one part.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it cannot be read, or ends before one of the parts does.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        check_object_path(path)
        parts: builtins.list[Buffer]
        if ranges is None:
            version, content = self._reader.read(path)
            parts = [content]
        else:
            version, found = self._reader.read_ranges(path, *check_ranges(*ranges))
            parts = [*found]
        return Entry(path, version.size, version.etag), parts

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


def _sleep(seconds: float, woken: threading.Event) -> None:
    woken.wait(seconds)

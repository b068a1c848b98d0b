"""The worker's end of the connection: takes orders, and sends items no faster than the parent takes them."""

from __future__ import annotations

import os
from array import array
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any

from spdl.pipeline._transport.item_pickler import ItemPickler

from .allocator import Allocator
from .wire import HEADER, INLINE, Kind, Order, inline_limit, items_per_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .shared_file import SharedFile

__all__ = ["Dismissed", "Outbox"]


class Dismissed(Exception):  # noqa: N818 - not an error: the worker is no longer needed.
    """Raised when the parent has asked the worker to end, or is gone."""


class Outbox:
    """Sends the items of one pass after the other.

    Args:
        orders: The descriptor that the parent's orders come from.
        messages: The descriptor that messages go to.
        file: The shared file that long content goes to.
        buffer_size: How many items may be under way.
    """

    def __init__(self, orders: int, messages: int, file: SharedFile, buffer_size: int) -> None:
        self._orders = orders
        self._messages = messages
        self._file = file
        self._buffer_size = buffer_size
        self._items_per_report = items_per_report(buffer_size)
        self._inline_limit = inline_limit(buffer_size)
        self._allocator = Allocator(file)
        self._pickler = ItemPickler()
        self._poll = poll()
        self._poll.register(orders, POLLIN)
        # How many passes were begun, and how many requested. The number of a pass tells its messages from older ones.
        self._number = 0
        self._requested = 0
        # True while the parent still iterates the latest pass that it requested.
        self._wanted = False
        self._credits = 0

    def await_pass(self) -> None:
        """Wait until the parent requests a pass, and begin it.

        Raises:
            Dismissed: If the parent wants no more passes.
        """
        while self._requested == self._number:
            self._take_orders()
        self._number = self._requested
        self._credits = self._buffer_size
        self._allocator.reset()

    def is_wanted(self) -> bool:
        """Return whether the parent still wants the pass that is under way.

        Raises:
            Dismissed: If the parent wants no more passes.
        """
        while self._poll.poll(0):
            self._take_orders()
        return self._is_current()

    def _is_current(self) -> bool:
        return self._wanted and self._requested == self._number

    def send_item(self, item: object) -> bool:
        """Send an item of the pass once the parent has taken enough. Return whether it was sent.

        It is not sent if the parent has left the pass.

        Raises:
            Dismissed: If the parent wants no more passes.
            Exception: If pickling raises. In that case nothing was sent.
        """
        while not self._credits:
            if not self._is_current():
                return False
            self._take_orders()
        try:
            self._pickler.pickle(item)
            self._post(Kind.ITEM, self._pickler.pieces, self._pickler.buffers)
        finally:
            self._pickler.clear()
        self._credits -= 1
        return True

    def send(self, kind: Kind, content: object = None) -> None:
        """Send a message other than an item. The content must be picklable."""
        self._pickler.pickle(content)
        self._post(kind, self._pickler.pieces, self._pickler.buffers)

    def _post(self, kind: Kind, pieces: Sequence[Any], buffers: Sequence[memoryview]) -> None:
        pickled = sum(map(len, pieces))
        if not buffers and pickled <= self._inline_limit:
            self._allocator.allocate_nothing()
            self._write(b"".join((HEADER.pack(kind, self._number, INLINE, pickled, 0), *pieces)))
            return
        # First the lengths of the buffers, then the pickle, then the buffers.
        lengths = array("Q", map(len, buffers))
        parts = (lengths.tobytes(), *pieces, *buffers)
        size = sum(map(len, parts))
        begin = self._allocator.allocate(size)
        with self._file.view(begin, begin + size) as view:
            position = 0
            for part in parts:
                end = position + len(part)
                view[position:end] = part
                position = end
        self._write(HEADER.pack(kind, self._number, begin, pickled, len(buffers)))

    def _write(self, message: bytes) -> None:
        try:
            os.write(self._messages, message)
        except BrokenPipeError as error:
            raise Dismissed from error

    def _take_orders(self) -> None:
        """Wait for orders and carry them out."""
        orders = os.read(self._orders, 4096)
        if not orders or Order.QUIT in orders:
            raise Dismissed
        for order in orders:
            if order == Order.ITERATE[0]:
                self._requested += 1
                self._wanted = True
            elif order == Order.STOP[0]:
                self._wanted = False
            elif self._requested == self._number:
                self._credits += self._items_per_report
                self._allocator.free(self._items_per_report)

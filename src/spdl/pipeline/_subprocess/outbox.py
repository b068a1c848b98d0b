"""The worker's end of the connection: takes orders, and sends items no faster than the parent takes them."""

from __future__ import annotations

import os
from select import POLLIN, poll
from typing import TYPE_CHECKING

from spdl.pipeline._transport.array_views import reducers_from_interpreter
from spdl.pipeline._transport.lane_writer import LaneWriter
from spdl.pipeline._transport.reducers import reducers as general_reducers
from spdl.pipeline._transport.signals import ItemNotSent
from spdl.pipeline._transport.storage import serve_storage

from .wire import Kind, Order, items_per_report, number_of

if TYPE_CHECKING:
    from spdl.pipeline._transport.arena import Arena
    from spdl.pipeline._transport.lane import Ends

__all__ = ["Dismissed", "Outbox"]


class Dismissed(Exception):  # noqa: N818 - not an error: the worker is no longer needed.
    """Raised when the parent has asked the worker to end, or is gone."""


class _Left(Exception):  # noqa: N818 - not an error: the parent has left the pass.
    """Raised to end the sending of an item that nobody wants any more."""


class Outbox:
    """Sends the items of one pass after the other.

    Args:
        orders: The descriptor that the parent's orders come from.
        lane: Where messages go.
        buffer_size: How many items may be under way.
        arena: Where large content goes, if there is one.
        in_interpreter: Whether the worker is another interpreter of the parent's process.
    """

    def __init__(
        self, orders: int, lane: Ends, buffer_size: int, arena: Arena | None, *, in_interpreter: bool = False
    ) -> None:
        self._orders = orders
        self._writer = LaneWriter(
            lane,
            [orders],
            self._take_orders_meanwhile,
            None if arena is None else arena.open_writer(),
            reducers=reducers_from_interpreter if in_interpreter else general_reducers,
        )
        serve_storage(self._writer)
        self._buffer_size = buffer_size
        self._items_per_report = items_per_report(buffer_size)
        self._poll = poll()
        self._poll.register(orders, POLLIN)
        # How many passes were begun, and how many requested. The number of a pass tells its messages from older ones.
        self._number = 0
        self._requested = 0
        # True while the parent still iterates the latest pass that it requested.
        self._wanted = False
        self._sends_item = False
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
        self._writer.trim()

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
        self._sends_item = True
        try:
            self._post(Kind.ITEM, item)
        except _Left:
            return False
        finally:
            self._sends_item = False
        self._credits -= 1
        return True

    def send(self, kind: Kind, content: object = None) -> None:
        """Send a message other than an item. The content must be picklable."""
        self._post(kind, content)

    def close(self) -> None:
        """Close the lane."""
        self._writer.close()

    def _post(self, kind: Kind, content: object) -> None:
        try:
            self._writer.send(number_of(self._number, kind), (content,))
        except ItemNotSent as not_sent:
            raise not_sent.error from None

    def _take_orders_meanwhile(self) -> None:
        self._take_orders()
        if self._sends_item and not self._is_current():
            raise _Left

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

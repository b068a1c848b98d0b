"""The parent's end of the connection: receives the messages of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._transport.lane_reader import LaneReader
from spdl.pipeline._transport.signals import NotReadable

if TYPE_CHECKING:
    from spdl.pipeline._transport.lane_reader import Message

__all__ = ["Inbox"]


class Inbox(LaneReader):
    """Receives the messages of a worker, each of which has one item."""

    def load_item(self, message: Message) -> Any:
        """Unpickle and return the content of the message just received. This may run code of the user."""
        (item,) = self.load(message)
        if isinstance(item, NotReadable):
            raise item.error
        return item

"""What the two ends of a channel raise, and what stands for an item that could not be read."""

from __future__ import annotations

__all__ = ["ChannelClosed", "ItemNotSent", "NotReadable", "PeerGone"]


class PeerGone(Exception):  # noqa: N818 - not an error by itself: whoever waits decides what it means.
    """Raised when the other process has ended or closed its end, and everything that it sent has been received."""


class ChannelClosed(Exception):  # noqa: N818 - likewise.
    """Raised when this end was closed, also in a thread that waits for something at that moment."""


class ItemNotSent(Exception):  # noqa: N818 - the cause is the error.
    """Raised if an item of a batch cannot be pickled. Nothing of the batch was sent. The cause says why.

    Args:
        index: Which item of the batch it is.
        error: What pickling it raised.
    """

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class NotReadable:
    """Stands in a received batch for an item that could not be unpickled here.

    Args:
        error: What unpickling it raised.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error

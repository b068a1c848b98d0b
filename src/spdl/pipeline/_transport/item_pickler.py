"""Pickles items with their buffers kept separate, so that large data is copied only into the shared file."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from .reducers import reducers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pickle import PickleBuffer

__all__ = ["ItemPickler"]

# A separate buffer costs more than copying less than this into the pickle and out of it.
_LEAST_APART = 2048

_PROTOCOL = 5


class ItemPickler:
    """Pickles one item at a time.

    It pickles as multiprocessing does, which can share sockets. The pickle is a list of pieces: bytes and strings of
    64 KiB or more are pieces of their own, which pickle passes on without copying them.
    """

    def __init__(self) -> None:
        # The pieces of the pickle, and the buffers that follow them: the content of arrays.
        self.pieces: list[Any] = []
        self.buffers: list[memoryview] = []
        # A pickler needs nothing of a file but `write`.
        self._pickler = ForkingPickler(_Pieces(self.pieces.append), _PROTOCOL, True, self._set_apart)  # noqa: FBT003
        self._pickler.dispatch_table = reducers(self._pickler.dispatch_table)

    def pickle(self, item: object) -> None:
        """Fill ``pieces`` and ``buffers``. They refer to the item's memory, so use and clear them at once."""
        self.clear()
        self._pickler.clear_memo()
        self._pickler.dump(item)

    def clear(self) -> None:
        """Drop the references to the item."""
        self.pieces.clear()
        self.buffers.clear()

    def _set_apart(self, buffer: PickleBuffer) -> bool:
        """Keep a buffer separate, or return True to have it put into the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # It is not contiguous.
            return True
        if raw.nbytes < _LEAST_APART:
            return True
        self.buffers.append(raw)
        return False


class _Pieces:
    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write

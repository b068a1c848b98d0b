"""Items as pickles whose buffers lie apart, so that nothing large is copied on the way to the shared file."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from .reducers import reducers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pickle import PickleBuffer

__all__ = ["ItemPickler"]

# Copying less into the pickle, and out of it, costs less than one buffer more.
_LEAST_APART = 2048

_PROTOCOL = 5


class ItemPickler:
    """Pickles one item at a time.

    It pickles as multiprocessing does, which knows how to share sockets. What it writes is a list of pieces: bytes and
    strings of 64 KiB and more are pieces by themselves, which pickle hands over without copying them.
    """

    def __init__(self) -> None:
        # The pieces of the pickle, and what comes behind them: the content of arrays.
        self.pieces: list[Any] = []
        self.buffers: list[memoryview] = []
        # Its method `write` is all that a pickler needs of a file.
        self._pickler = ForkingPickler(_Pieces(self.pieces.append), _PROTOCOL, True, self._set_apart)  # noqa: FBT003
        self._pickler.dispatch_table = reducers(self._pickler.dispatch_table)

    def pickle(self, item: object) -> None:
        """Fill ``pieces`` and ``buffers``, which refer to the item's memory: use and clear them at once."""
        self.clear()
        self._pickler.clear_memo()
        self._pickler.dump(item)

    def clear(self) -> None:
        """Let go of the item."""
        self.pieces.clear()
        self.buffers.clear()

    def _set_apart(self, buffer: PickleBuffer) -> bool:
        """Take a buffer, or return True to have it in the pickle."""
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

"""Buffers in memory, the last used ones."""

from __future__ import annotations

import threading
from collections import OrderedDict

__all__ = ["MemoryCache"]


class MemoryCache:
    """Buffers by their keys, as many as fit in a number of bytes. Threads share it.

    Args:
        most: The bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._buffers: OrderedDict[str, memoryview] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How many bytes it has now."""
        return self._bytes

    def get(self, key: str) -> memoryview | None:
        """Return a buffer, which is now the one used last; None if it is not here."""
        with self._lock:
            found = self._buffers.get(key)
            if found is not None:
                self._buffers.move_to_end(key)
            return found

    def put(self, key: str, buffer: memoryview) -> None:
        """Keep a buffer, unless it is too large, and let those go that were not used for longest."""
        gone = []  # Memory is given back without the lock.
        with self._lock:
            if buffer.nbytes > self._most or key in self._buffers:
                return
            self._buffers[key] = buffer
            self._bytes += buffer.nbytes
            while self._bytes > self._most:
                _, old = self._buffers.popitem(last=False)
                self._bytes -= old.nbytes
                gone.append(old)

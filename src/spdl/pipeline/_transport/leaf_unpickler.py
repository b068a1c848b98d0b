"""Unpickles items whose bytes travelled as buffers."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LeafUnpickler"]

_COPIES = {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}


class LeafUnpickler(pickle.Unpickler):
    """Unpickles one item.

    Args:
        pickled: The pickle.
        buffers: The buffers that go with it.
        views: Whether bytes become views of the buffers rather than what they were, except those that an object is
            pickled as.
    """

    def __init__(self, pickled: memoryview, buffers: Sequence[Any], *, views: bool) -> None:
        super().__init__(io.BytesIO(pickled), buffers=buffers)
        self._buffers = buffers
        self._views = views

    def persistent_load(self, pid: Any) -> Any:
        """Return the bytes of a number: it counts from the end."""
        kind, number, is_plain = pid
        buffer = self._buffers[-number]
        return memoryview(buffer) if self._views and is_plain else _COPIES[kind](buffer)

"""What a store lists."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Entry"]


class Entry(NamedTuple):
    """An object of a store.

    Example:
        >>> Entry("train/00000.tar", 1048576, '"9b2cf5"').path
        'train/00000.tar'
    """

    path: str
    """The path below the store, with ``/`` between its parts. All methods of the store take it."""
    size: int
    """The number of bytes."""
    etag: str | None
    """A text that changes whenever the content does, or None if the store has none."""

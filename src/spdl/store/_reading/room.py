"""Memory for what is read."""

from __future__ import annotations

import mmap
from contextlib import suppress

__all__ = ["make_room"]

_LARGE = 1 << 21
"""From here on, memory comes from the system and goes back to it: it is the size of its large pages."""
_WORTH = 8
"""The last page is a large one too, if that adds no more than one in so many bytes: they come much faster."""
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)


def make_room(length: int) -> memoryview:
    """Return memory of so many bytes, to be written to; all are 0 at first.

    Where several threads read, the allocator keeps much of the large blocks that they have let go, for each thread some
    of its own. So large ones do not come from it.

    Raises:
        MemoryError: If there is not so much memory.
    """
    if length < _LARGE or _HUGE is None:
        return memoryview(bytearray(length))
    pages = -(-length // _LARGE) * _LARGE
    try:
        # Private: a forked process must not see what is written later.
        room = mmap.mmap(
            -1, pages if _WORTH * (pages - length) <= length else length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError from error
    with suppress(OSError):  # The kernel was built without large pages.
        room.madvise(_HUGE)
    return memoryview(room)[:length]

"""Memory between pages that cannot be read: touching a byte before or after it ends the process."""

import ctypes
import mmap

_LIBC = ctypes.CDLL(None, use_errno=True)
_NONE = 0


class Guarded:
    """Up to `size` bytes, of which the last, or the first, borders on a page that cannot be read."""

    def __init__(self, size: int) -> None:
        usable = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, usable + 2 * mmap.PAGESIZE)
        self._view = memoryview(self._memory)[mmap.PAGESIZE : mmap.PAGESIZE + usable]
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for page in (start, start + mmap.PAGESIZE + usable):
            if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), _NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    def at_the_end(self, data: bytes) -> memoryview:
        """Put the data there, and return where it lies."""
        place = self._view[len(self._view) - len(data) :]
        place[:] = data
        return place

    def at_the_start(self, data: bytes) -> memoryview:
        """Likewise, at the other end."""
        place = self._view[: len(data)]
        place[:] = data
        return place

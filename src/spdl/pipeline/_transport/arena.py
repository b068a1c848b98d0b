"""Shared memory of a given size for what a worker process sends: as a ring of bytes, or as segments."""

from __future__ import annotations

import contextlib
import os
from multiprocessing import reduction
from typing import Any

from spdl._check import check_int, check_seconds

from .anonymous_memory import AnonymousMemory
from .arena_ends import ARENA_BEGIN, GIVEN_BACK, PUT, SHUT_DOWN, ArenaReader, ArenaWriter, read_number, write_number
from .counter import Counter
from .slab import block_size

__all__ = ["Arena", "SharedMemoryRingBuffer", "SharedMemorySegmentPool"]


class Arena:
    """What both kinds of arenas have in common."""

    _zero_copy = False

    def __init__(self, size: int, segment: int | None, acquire_timeout: float) -> None:
        self._timeout = check_seconds("acquire_timeout", acquire_timeout, above_zero=False)
        self._segment = segment
        self._closed = self._taken = False
        with contextlib.ExitStack() as undo:
            self._memory = AnonymousMemory(ARENA_BEGIN + size)
            undo.callback(self._memory.close)
            self._memory.back(0, self._memory.size)
            self._shut_down = Counter()
            undo.callback(self._shut_down.close)
            self._returns = os.pipe()
            undo.pop_all()

    def __getstate__(self) -> Any:
        self._check()
        returns = [reduction.DupFd(fd) for fd in self._returns]
        return self._timeout, self._segment, self._memory, self._shut_down, returns

    def __setstate__(self, state: Any) -> None:
        self._timeout, self._segment, self._memory, self._shut_down, returns = state
        reader, writer = (each.detach() for each in returns)
        self._returns = reader, writer
        self._closed = False
        self._taken = True

    def take_over(self) -> None:
        """Make the arena serve one worker process, and refuse any other.

        Raises:
            ValueError: If it serves one already, or is closed.
        """
        self._check()
        if self._taken:
            raise ValueError(f"This {type(self).__name__} serves a worker process already. Make another for another.")
        self._taken = True

    def open_writer(self) -> ArenaWriter:
        """Return the end that puts content into the memory. There is one, in the worker process, which opens it."""
        self._check()
        return ArenaWriter(self._memory, self._segment, self._returns[0], self._shut_down, self._timeout)

    def open_reader(self) -> ArenaReader:
        """Return the end that reads. There is one, in the process that iterates, which opens it."""
        self._check()
        return ArenaReader(self._memory, self._segment, os.dup(self._returns[1]), zero_copy=self._zero_copy)

    def shutdown_arena(self) -> None:
        """Make the worker raise a BufferError instead of waiting for room, at once if it waits now."""
        self._check()
        write_number(self._memory, SHUT_DOWN, 1)
        self._shut_down.add(1)

    def close(self) -> None:
        """Let go of the memory. What was received stays as long as anything refers to it. May be repeated."""
        if not self._closed:
            self._closed = True
            self._memory.close()
            self._shut_down.close()
            for fd in self._returns:
                os.close(fd)

    def unlink(self) -> None:
        """Do the same as `close`: the memory has no name that could be left behind."""
        self.close()

    def descriptors(self) -> list[int]:
        """Return the descriptors."""
        return [self._memory.fd, *self._shut_down.descriptors(), *self._returns]

    def _number(self, where: int) -> int:
        self._check()
        return read_number(self._memory, where)

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"This {type(self).__name__} is closed. An arena serves one worker process: make another.")


class SharedMemoryRingBuffer(Arena):
    """Shared memory of so many bytes for what a worker process sends. What you receive are copies.

    Give it to `iterate_in_subprocess` or `run_pipeline_in_subprocess`, which then owns it. Without an arena, items take
    as much shared memory as they need, and nothing is copied here. An arena bounds that memory: the worker waits while
    it is full. Arrays, tensors, buffers and bytes of 4096 bytes or more travel through it. An item that is larger than
    the whole arena is sent without it, with a warning that counts such items.

    The memory has no name and is independent of ``/dev/shm``. All of it is taken at once.

    Args:
        capacity: Bytes.
        acquire_timeout: Seconds that the worker waits for room before it raises a BufferError.

    Raises:
        ValueError: If ``capacity`` is not positive, or ``acquire_timeout`` is negative.
        OSError: If the system does not have that much memory.

    Example:
        >>> from spdl.pipeline import SharedMemoryRingBuffer, iterate_in_subprocess
        >>> arena = SharedMemoryRingBuffer(1 << 20)
        >>> items = iterate_in_subprocess(lambda: [bytes(10_000)] * 200, arena=arena, mp_context="fork")
        >>> sum(map(len, items))
        2000000
        >>> items.close()
    """

    def __init__(self, capacity: int, *, acquire_timeout: float = 60.0) -> None:
        self._capacity = check_int("capacity", capacity, least=1)
        super().__init__(block_size(self._capacity), None, acquire_timeout)

    def __getstate__(self) -> Any:
        return self._capacity, super().__getstate__()

    def __setstate__(self, state: Any) -> None:
        self._capacity, rest = state
        super().__setstate__(rest)

    @property
    def capacity(self) -> int:
        """Bytes of the memory."""
        return self._capacity

    @property
    def name(self) -> str:
        """A name for messages. No file has it."""
        return f"memfd:spdl-{self._memory.fd}"

    @property
    def head(self) -> int:
        """How many bytes the worker has put in, ever."""
        return self._number(PUT)

    @property
    def tail(self) -> int:
        """How many bytes were taken out, ever."""
        return self._number(GIVEN_BACK)


class SharedMemorySegmentPool(Arena):
    """Shared memory in segments for what a worker process sends. What you receive are views, not copies.

    Give it to `iterate_in_subprocess` or `run_pipeline_in_subprocess`, which then owns it. Without an arena, items take
    as much shared memory as they need. An arena bounds that memory: the worker waits while all segments are in use. An
    item takes one segment, or several neighbours if it is larger than one. They are used again when nothing refers to
    the item any more. Arrays and tensors arrive as themselves; bytes, a bytearray or a memoryview arrive as a
    memoryview, in lists, tuples, dicts and dataclasses. Other objects arrive as themselves: if their pickle has bytes,
    these are copied. All of that is yours to change, and stays valid for as long as you keep it, whatever ends.
    Leaves of less than 4096 bytes are copied, and keep their type. An item that is larger than all segments is sent
    without the arena, with a warning that counts such items.

    The memory has no name and is independent of ``/dev/shm``. All of it is taken at once.

    Args:
        segment_size: Bytes of a segment.
        count: How many segments there are: one for each item that may be under way or kept by you.
        acquire_timeout: Seconds that the worker waits for a segment before it raises a BufferError.

    Raises:
        ValueError: If ``segment_size`` or ``count`` is not positive, or ``acquire_timeout`` is negative.
        OSError: If the system does not have that much memory.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess
        >>> arena = SharedMemorySegmentPool(1 << 16, 8)
        >>> items = iterate_in_subprocess(lambda: [np.ones(8000)] * 20, arena=arena, mp_context="fork")
        >>> sum(each.sum() for each in items)
        np.float64(160000.0)
        >>> items.close()
    """

    _zero_copy = True

    def __init__(self, segment_size: int, count: int, *, acquire_timeout: float = 60.0) -> None:
        self._segment_size = check_int("segment_size", segment_size, least=1)
        self._count = check_int("count", count, least=1)
        # Segments begin at multiples of what arrays like.
        rounded = -(-self._segment_size // 64) * 64
        super().__init__(rounded * self._count, rounded, acquire_timeout)

    def __getstate__(self) -> Any:
        return self._segment_size, self._count, super().__getstate__()

    def __setstate__(self, state: Any) -> None:
        self._segment_size, self._count, rest = state
        super().__setstate__(rest)

    @property
    def segment_size(self) -> int:
        """Bytes of a segment."""
        return self._segment_size

    @property
    def count(self) -> int:
        """How many segments there are."""
        return self._count

    @property
    def published(self) -> int:
        """How many segments the worker has filled, ever."""
        return self._number(PUT)

    @property
    def reclaimed(self) -> int:
        """How many segments were given back, ever."""
        return self._number(GIVEN_BACK)

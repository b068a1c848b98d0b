"""Shared memory of a given size for what a worker process sends: as a ring of bytes, or as segments."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import ceil
from multiprocessing import reduction
from select import POLLIN, poll
from struct import Struct
from threading import RLock
from time import monotonic
from typing import Any

from spdl._check import check_int, check_seconds
from spdl.pipeline._elsewhere.memory import AnonymousMemory, Counter, Returns, Slab, block_size, lend

# The memory's first page: how much was put in, how much was given back, and whether the arena is shut down. Each number
# is written by one process.
ARENA_BEGIN = 4096
PUT, GIVEN_BACK, SHUT_DOWN = 0, 64, 128
_NUMBER = Struct("<Q")
_READ_AT_ONCE = 1 << 16
# Milliseconds. The system takes a C int.
_LONGEST_POLL = 2**31 - 1


class ArenaWriter:
    """Takes blocks of an arena, and waits for them.

    Args:
        memory: The arena's memory.
        segment: The unit of which blocks are multiples; None for any size.
        returns: The reading end of the pipe that blocks come back by.
        shut_down: The counter that is added to when the arena is shut down.
        timeout: Seconds to wait for a block.
    """

    def __init__(
        self, memory: AnonymousMemory, segment: int | None, returns: int, shut_down: Counter, timeout: float
    ) -> None:
        self.view = memoryview(memory.map())
        self._slab = Slab(memory, ARENA_BEGIN, memory.size, segment, keeps=True)
        self._segment = segment
        self._returns = returns
        self._shut_down = shut_down
        self._timeout = timeout
        self._put = 0
        os.set_blocking(returns, False)

    def fits(self, size: int) -> bool:
        """Return whether that many bytes fit into the arena when it is empty."""
        return self._slab.fits(size)

    def acquire(self, size: int, signs: Sequence[int] = (), on_sign: Callable[[], object] | None = None) -> int:
        """Take a block.

        Args:
            size: Its bytes.
            signs: Descriptors to watch while waiting.
            on_sign: Called when one of them is readable. It raises to end the waiting.

        Raises:
            BufferError: If there is none in time, or if the arena was shut down.
        """
        begin = self._try(size)
        if begin is not None:
            return begin
        deadline = monotonic() + self._timeout
        waiting = poll()
        for fd in (self._returns, self._shut_down.reader, *signs):
            waiting.register(fd, POLLIN)
        while True:
            left = max(0.0, deadline - monotonic())
            ready = dict(waiting.poll(min(ceil(left * 1000), _LONGEST_POLL)))
            begin = self._try(size)
            if begin is not None:
                return begin
            if not left:
                raise BufferError(
                    f"The arena had no room for {size:,} bytes within {self._timeout:g} seconds: what was received "
                    "before is still in use. Drop what you need no more, or make the arena larger."
                )
            if on_sign is not None and any(sign in ready for sign in signs):
                on_sign()

    def release(self, blocks: Iterable[int]) -> None:
        """Take blocks back that were not sent."""
        self._slab.free(blocks)

    def publish(self, size: int) -> None:
        """Count a block that was sent: its bytes, or its segments."""
        self._put += _amount(size, self._segment)
        _NUMBER.pack_into(self.view, PUT, self._put)

    def close(self) -> None:
        """Let go of the memory."""
        self.view.release()

    def _try(self, size: int) -> int | None:
        if _NUMBER.unpack_from(self.view, SHUT_DOWN)[0]:
            raise BufferError("The arena was shut down.")
        if not self._slab.has_free(size):
            try:
                while content := os.read(self._returns, _READ_AT_ONCE):
                    self._slab.free(array("Q", content))
            except BlockingIOError:
                pass
        return self._slab.allocate(size)


class ArenaReader:
    """Reads blocks of an arena, and gives them back.

    Args:
        memory: The arena's memory.
        segment: The unit of which blocks are multiples; None for any size.
        returns: The writing end of the pipe that blocks go back by. The reader closes it.
        zero_copy: Whether to return views of the memory, rather than copies.
    """

    def __init__(self, memory: AnonymousMemory, segment: int | None, returns: int, *, zero_copy: bool) -> None:
        self.zero_copy = zero_copy
        self._map = memory.map()
        self._segment = segment
        self._returns = Returns(returns)
        self._owner = os.getpid()
        self._given_back = 0
        self._sizes: dict[int, int] = {}
        # A finalizer may interrupt any code, this one included.
        self._lock = RLock()

    def borrow(self, begin: int, lengths: Sequence[int], alignment: int) -> list[Any]:
        """Return the buffers of a block, one after the other, each beginning at a multiple of ``alignment``.

        If they are views, the block is given back with the last one, and otherwise at once.
        """
        sizes = [-(-length // alignment) * alignment for length in lengths]
        size = sum(sizes)
        with self._lock:
            self._sizes[begin] = size
        block = block_size(size) if self._segment is None else -(-size // self._segment) * self._segment
        view = lend(self._map, begin, size, block, self._give_back)
        positions = accumulate(sizes, initial=0)
        parts = [view[position : position + length] for position, length in zip(positions, lengths, strict=False)]
        return parts if self.zero_copy else [bytearray(part) for part in parts]

    def close(self) -> None:
        """Close the pipe. Views of the memory stay."""
        self._returns.close()

    def _give_back(self, begin: int) -> None:
        if os.getpid() != self._owner:
            # A fork has copied the views, and the lock as another thread may have held it.
            return
        with self._lock:
            self._given_back += _amount(self._sizes.pop(begin, 0), self._segment)
            _NUMBER.pack_into(self._map, GIVEN_BACK, self._given_back)
        self._returns.give_back(begin)


def _amount(size: int, segment: int | None) -> int:
    return size if segment is None else max(1, -(-size // segment))


def read_number(memory: AnonymousMemory, where: int) -> int:
    """Return a number of an arena's first page."""
    number: int = _NUMBER.unpack_from(memory.map(), where)[0]
    return number


def write_number(memory: AnonymousMemory, where: int, number: int) -> None:
    """Set a number of an arena's first page."""
    _NUMBER.pack_into(memory.map(), where, number)


class Arena:
    """The common part of both kinds of arenas."""

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
        """Let go of the memory. Received items stay as long as anything refers to it. May be repeated."""
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
    """Shared memory of that many bytes for what a worker process sends. You receive copies.

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
    """Shared memory in segments for what a worker process sends. You receive views, not copies.

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

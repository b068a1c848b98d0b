"""Bounds of the shared memory that the arrays of a worker process take: in bytes, or in segments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from threading import RLock
from typing import NamedTuple

from spdl._check import check_int, check_seconds
from spdl.pipeline._elsewhere.memory import Returns, block_size

# Comes in place of a block that is given back when the arena is shut down.
SHUT_DOWN = (1 << 64) - 1


class ArenaBound(NamedTuple):
    """How many bytes of arrays may be sent and not given back. Each item takes a multiple of a segment.

    The worker waits ``timeout`` seconds for room.
    """

    size: int
    segment: int
    timeout: float

    def amount(self, size: int) -> int:
        return max(1, -(-size // self.segment)) * self.segment

    def fits(self, size: int) -> bool:
        """Return whether an item of that many bytes fits when there is no other."""
        return self.amount(size) <= self.size


class Room:
    """The room that is left within a bound, in the worker. The lane's lock guards it."""

    def __init__(self, bound: ArenaBound) -> None:
        self.bound = bound
        self._left = bound.size
        self._taken: dict[int, int] = {}
        self._is_shut_down = False

    def has(self, size: int) -> bool:
        """Return whether there is room for that many bytes. Raises a BufferError if nobody waits for it any more."""
        if self.bound.amount(size) <= self._left:
            return True
        if self._is_shut_down:
            raise BufferError("The arena was shut down.")
        return False

    def take(self, block: int, size: int) -> None:
        self._taken[block] = amount = self.bound.amount(size)
        self._left -= amount

    def give_back(self, blocks: Iterable[int]) -> Iterator[int]:
        """Note what blocks have left, and yield these."""
        for block in blocks:
            if block == SHUT_DOWN:
                self._is_shut_down = True
                continue
            self._left += self._taken.pop(block, 0)
            yield block

    def error(self, size: int) -> BufferError:
        return BufferError(
            f"The arena had no room for {size:,} bytes within {self.bound.timeout:g} seconds: what was received "
            "before is still in use. Drop what you need no more, or make the arena larger."
        )


class Ledger:
    """Counts what has come and what was given back, in the parent. It may say that what arrives is copied."""

    def __init__(self, bound: ArenaBound, *, copies: bool) -> None:
        self.bound = bound
        self.copies = copies
        self.received = self.given_back = 0
        # A finalizer may interrupt any code, this one included.
        self._lock = RLock()
        self._owner = os.getpid()
        self._returns: Returns | None = None
        self._is_shut_down = False

    def serve(self, returns: Returns) -> None:
        self._returns = returns
        if self._is_shut_down:
            returns.give_back(SHUT_DOWN)

    def receive(self, size: int, give_back: Callable[[int], object]) -> Callable[[int], None]:
        """Count an item of that many bytes. Return what gives its block back and counts that."""
        amount = self.bound.amount(size)

        def count_and_give_back(block: int) -> None:
            # After a fork, another thread of the parent may have held the lock.
            if os.getpid() == self._owner:
                with self._lock:
                    self.given_back += amount
            give_back(block)

        with self._lock:
            self.received += amount
        return count_and_give_back

    def shut_down(self) -> None:
        """Have the worker wait no more."""
        self._is_shut_down = True
        if self._returns is not None:
            self._returns.give_back(SHUT_DOWN)


class Arena:
    """The common part of both kinds of arenas."""

    def __init__(self, size: int, segment: int, acquire_timeout: float, *, copies: bool) -> None:
        timeout = check_seconds("acquire_timeout", acquire_timeout, above_zero=False)
        self._ledger = Ledger(ArenaBound(size, segment, timeout), copies=copies)
        self._closed = self._taken = False

    def take_over(self) -> Ledger:
        """Make the arena serve one worker process, and refuse any other. Return what bounds the worker.

        Raises:
            ValueError: If it serves one already, or is closed.
        """
        ledger = self._open_ledger()
        if self._taken:
            raise ValueError(f"This {type(self).__name__} already serves a worker process. Make one for each process.")
        self._taken = True
        return ledger

    def shutdown_arena(self) -> None:
        """Make the worker raise a BufferError instead of waiting for room, at once if it waits now."""
        self._open_ledger().shut_down()

    def close(self) -> None:
        """Refuse any further use. Received items stay as long as anything refers to them. May be repeated."""
        self._closed = True

    def unlink(self) -> None:
        """Do the same as `close`: the memory has no name that could outlive it."""
        self.close()

    def _open_ledger(self) -> Ledger:
        if self._closed:
            raise ValueError(f"This {type(self).__name__} is closed. An arena serves one worker process: make another.")
        return self._ledger


class SharedMemoryRingBuffer(Arena):
    """A bound in bytes of the shared memory for arrays that a worker process sends. You receive copies.

    Give it to `iterate_in_subprocess` or `run_pipeline_in_subprocess`, which then owns it. Without an arena, items take
    as much shared memory as they need, and nothing is copied here. With this one, the worker waits while arrays and
    tensors of that many bytes are on their way. As you receive copies, what you keep does not count. An item whose
    arrays are larger than the whole arena is still sent, with a warning that counts such items. Objects without
    arrays do not count.

    The memory has no name and is independent of ``/dev/shm``.

    Args:
        capacity: Bytes.
        acquire_timeout: Seconds that the worker waits for room before it raises a BufferError.

    Raises:
        ValueError: If ``capacity`` is not positive, or ``acquire_timeout`` is negative.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline import SharedMemoryRingBuffer, iterate_in_subprocess
        >>> arena = SharedMemoryRingBuffer(1 << 20)
        >>> items = iterate_in_subprocess(lambda: [np.ones(8000)] * 20, arena=arena, mp_context="fork")
        >>> sum(each.sum() for each in items)
        np.float64(160000.0)
        >>> items.close()
    """

    def __init__(self, capacity: int, *, acquire_timeout: float = 60.0) -> None:
        self._capacity = check_int("capacity", capacity, least=1)
        super().__init__(block_size(self._capacity), 1, acquire_timeout, copies=True)

    @property
    def capacity(self) -> int:
        """Bytes of the bound."""
        return self._capacity

    @property
    def name(self) -> str:
        """A name for messages. No file has it."""
        return f"spdl-{id(self):x}"

    @property
    def head(self) -> int:
        """How many bytes of arrays have come, ever."""
        return self._open_ledger().received

    @property
    def tail(self) -> int:
        """How many bytes were taken out, ever."""
        return self._open_ledger().given_back


class SharedMemorySegmentPool(Arena):
    """A bound in segments of the shared memory for arrays that a worker process sends. You receive views, not copies.

    Give it to `iterate_in_subprocess` or `run_pipeline_in_subprocess`, which then owns it. Without an arena, items take
    as much shared memory as they need. With this one, the worker waits while all segments are in use. The arrays and
    tensors of an item count as one segment, or as several if they are larger than one, until nothing refers to them any
    more. They are yours to change, and stay valid for as long as you keep them, whatever ends. An item whose arrays are
    larger than all segments is still sent, with a warning that counts such items. Objects without arrays do not
    count.

    The memory has no name and is independent of ``/dev/shm``.

    Args:
        segment_size: Bytes of a segment.
        count: How many segments there are: one for each item that may be under way or kept by you.
        acquire_timeout: Seconds that the worker waits for a segment before it raises a BufferError.

    Raises:
        ValueError: If ``segment_size`` or ``count`` is not positive, or ``acquire_timeout`` is negative.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess
        >>> arena = SharedMemorySegmentPool(1 << 16, 8)
        >>> items = iterate_in_subprocess(lambda: [np.ones(8000)] * 20, arena=arena, mp_context="fork")
        >>> sum(each.sum() for each in items)
        np.float64(160000.0)
        >>> items.close()
    """

    def __init__(self, segment_size: int, count: int, *, acquire_timeout: float = 60.0) -> None:
        self._segment_size = check_int("segment_size", segment_size, least=1)
        self._count = check_int("count", count, least=1)
        super().__init__(self._segment_size * self._count, self._segment_size, acquire_timeout, copies=False)

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
        """How many segments have come, ever."""
        return self._open_ledger().received // self._segment_size

    @property
    def reclaimed(self) -> int:
        """How many segments were given back, ever."""
        return self._open_ledger().given_back // self._segment_size

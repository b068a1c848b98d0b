"""The writing end of a lane, and the memory in it for arrays that will leave this process."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from select import POLLIN, poll
from struct import Struct
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._check import check_int
from spdl.pipeline._elsewhere.item_pickling import ItemPickler, are_plain, general_reducers
from spdl.pipeline._elsewhere.lane import (
    APART,
    COUNT_SHIFT,
    GROUPED,
    HEADER,
    LONGEST_POLL,
    PLACED,
    ItemNotSent,
    LaneEnds,
    aligned,
)
from spdl.pipeline._elsewhere.memory import Slab, block_size, lend

if TYPE_CHECKING:
    import mmap

    from spdl.pipeline._elsewhere.arena import Room
    from spdl.pipeline._elsewhere.item_pickling import Reducers


class BufferPlace(NamedTuple):
    """The place of a buffer: in which block, and how far from its beginning."""

    begin: int
    offset: int


class LentBlocks:
    """Knows which blocks this process's code has, and how often each was sent. A block is free when both are over."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        # The size of each block that was lent, and how many there are who have it.
        self._sizes: dict[int, int] = {}
        self._users: dict[int, int] = {}
        # Blocks that this process has dropped. A finalizer, which may interrupt any code, puts them here.
        self._dropped: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def lend(self, begin: int, size: int) -> memoryview:
        self._sizes[begin] = size
        self._users[begin] = 1
        return lend(self._map, begin, size, block_size(size), self._dropped.append)

    def find(self, buffer: memoryview) -> BufferPlace | None:
        """Return the place of a buffer that lies in a lent block, or None."""
        if buffer.readonly:
            return None
        position = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) - self._base
        for begin, size in self._sizes.items():
            if begin <= position and position + buffer.nbytes <= begin + size:
                return BufferPlace(begin, position - begin)
        return None

    def send(self, begin: int) -> None:
        self._users[begin] += 1

    def leave(self, blocks: Iterable[int]) -> Iterator[int]:
        """Note that blocks were given back, and yield those that are free now."""
        for begin in blocks:
            users = self._users.get(begin)
            if users is None:
                yield begin
            elif users > 1:
                self._users[begin] = users - 1
            else:
                del self._users[begin], self._sizes[begin]
                yield begin

    def take_dropped(self) -> Iterator[int]:
        """Yield the blocks that this process has dropped since the last call."""
        while self._dropped:
            yield self._dropped.popleft()


# A long copy keeps the GIL, so it is done in parts, between which other threads get it. Parts of less than 4 MiB take a
# third longer: the C library then goes through the processor's cache.
_COPY_AT_ONCE = 1 << 23
_READ_AT_ONCE = 1 << 16

# The header of a message with one item that has no buffers, and the most that its pickle has.
_SMALL_HEADER = Struct("<IIIIQ")
_SMALL = 4096
# With fewer items, looking what they are gains nothing.
_LEAST_GROUPED = 3


class LaneWriter:
    """Writes batches of items.

    While it waits, it watches ``signs``. When one of them is readable, the reader is gone, or the wait is interrupted,
    it calls ``on_sign``, which raises to end the waiting.
    """

    def __init__(
        self,
        ends: LaneEnds,
        signs: Iterable[int],
        on_sign: Callable[[], object],
        arena: Room | None = None,
        *,
        reducers: Reducers = general_reducers,
    ) -> None:
        self._arena = arena
        self._ends = ends
        self._on_sign = on_sign
        self._signs = list(signs)
        self._view = memoryview(ends.memory.map())
        # With a bound, memory is not given back to the system and taken again.
        self._slab = Slab(ends.memory, ends.ring, ends.memory.size, 0 if arena is None else arena.bound.size)
        self._pickler = ItemPickler(reducers)
        # The slab and the lent blocks, which any thread may ask for.
        self._lock = Lock()
        self._lent: LentBlocks | None = None
        os.set_blocking(ends.returns, False)
        self._position = 0
        self._ring = self._room = ends.ring
        self._interrupted = False

    def send(self, number: int, items: Sequence[object]) -> None:
        """Send items in one message, with a number below 2**31. If it raises, nothing was sent.

        Raises:
            ItemNotSent: If an item cannot be pickled.
            OSError: If the system does not have enough memory.
        """
        blocks: list[int] = []
        words = array("Q")
        pieces: list[Any] = []
        pickler = self._pickler
        # The first item often says what the others are, and is of another kind.
        grouped = len(items) > _LEAST_GROUPED and are_plain(items[1:])
        try:
            for index, item in enumerate(items[:1] if grouped else items):
                try:
                    pickler.pickle(item)
                except Exception as error:
                    raise ItemNotSent(index, error) from error
                if len(items) == len(pickler.pieces) == 1 and not pickler.buffers:
                    (pickled,) = pickler.pieces
                    if len(pickled) <= _SMALL:
                        # As quickly as possible.
                        size = len(pickled)
                        self._put(_SMALL_HEADER.pack(_SMALL_HEADER.size + size, number, 1, 1, size) + pickled)
                        return
                self._gather(words, pieces, blocks)
            if grouped:
                pickler.pickle(list(items[1:]))
                pieces += pickler.pieces
                words.append(sum(map(len, pickler.pieces)) | GROUPED)
            table = words.tobytes()
            length = HEADER.size + len(table) + sum(map(len, pieces))
            if length > self._ring // 4:
                number |= APART
                length, pieces = self._put_apart(length - HEADER.size, (table, *pieces), blocks)
                table = b""
            header = HEADER.pack(length, number, 2 if grouped else len(items), len(words))
            self._put(b"".join((header, table, *pieces)))
        except BaseException:
            self._free(blocks)
            raise
        finally:
            # It refers to the memory of an item.
            pickler.clear()

    def has_room(self) -> bool:
        """Return whether two messages of any size fit into the ring now."""
        if 2 * self._room <= self._ring:
            self._room += self._ends.taken.take()
        return 2 * self._room > self._ring

    def trim(self) -> None:
        with self._lock:
            self._take_returns()
            self._slab.trim()

    def lend(self, size: int) -> memoryview:
        """Return memory for content that will be sent, or raise an OSError. Any thread may call this."""
        with self._lock:
            begin = self._allocate_locked(size)
            if self._lent is None:
                self._lent = LentBlocks(self._ends.memory.map())
            return self._lent.lend(begin, size)

    def interrupt(self) -> None:
        """Have who waits in `send` for room call ``on_sign``. Any thread may call this, before `close`."""
        self._interrupted = True
        self._ends.taken.add(1)

    def close(self) -> None:
        self._view.release()
        self._ends.close()

    def _gather(self, words: array[int], pieces: list[Any], blocks: list[int]) -> None:
        """Add the words and pieces of the item just pickled, and copy its buffers into a block."""
        buffers = self._pickler.buffers
        words.append(sum(map(len, self._pickler.pieces)) | len(buffers) << COUNT_SHIFT)
        pieces += self._pickler.pieces
        if not buffers:
            return
        if self._lent and self._place(words, blocks):
            return
        lengths = [len(each) for each in buffers]
        size = sum(map(aligned, lengths))
        bounded = self._arena is not None and self._arena.bound.fits(size)
        if bounded:
            self._await_arena(size)
        begin = self._allocate(size, bounded=bounded)
        blocks.append(begin)
        words.append(begin)
        for buffer in buffers:
            _copy(self._view, begin, buffer)
            begin += aligned(len(buffer))
        words.extend(lengths)

    def _place(self, words: array[int], blocks: list[int]) -> bool:
        """Add the words of an item with buffers in lent blocks, if it has any. Its other buffers get blocks each."""
        lent = self._lent
        assert lent is not None
        with self._lock:
            places = [lent.find(buffer) for buffer in self._pickler.buffers]
            if not any(places):
                return False
            for begin in {place.begin for place in places if place}:
                lent.send(begin)
                blocks.append(begin)
        words[-1] |= PLACED
        for place, buffer in zip(places, self._pickler.buffers, strict=True):
            if place is None:
                begin, offset = self._allocate(len(buffer)), 0
                blocks.append(begin)
                _copy(self._view, begin, buffer)
            else:
                begin, offset = place
            words.extend((begin, offset, len(buffer)))
        return True

    def _free(self, blocks: Iterable[int]) -> None:
        with self._lock:
            self._leave(blocks)

    def _leave(self, blocks: Iterable[int]) -> None:
        """Free blocks that are not lent. Called with the lock held, as all that follow here."""
        free = blocks if self._arena is None else self._arena.give_back(blocks)
        self._slab.free(free if self._lent is None else self._lent.leave(free))

    def _allocate_locked(self, size: int) -> int:
        if not self._slab.has_free(size):
            self._take_returns()
        begin = self._slab.allocate(size)
        if begin is None:
            raise MemoryError(
                f"The memory that two processes share has no room for {size:,} more bytes: it has "
                f"{self._ends.memory.size:,} in all. Send less at once."
            )
        return begin

    def _allocate(self, size: int, *, bounded: bool = False) -> int:
        with self._lock:
            begin = self._allocate_locked(size)
            if bounded:
                assert self._arena is not None
                self._arena.take(begin, size)
        return begin

    def _await_arena(self, size: int) -> None:
        """Wait until the arena has room for that many bytes, or raise a BufferError."""
        arena = self._arena
        assert arena is not None
        if arena.has(size):
            return
        deadline = monotonic() + arena.bound.timeout
        waiting = poll()
        for fd in (self._ends.returns, *self._signs):
            waiting.register(fd, POLLIN)
        while True:
            with self._lock:
                self._take_returns()
                if arena.has(size):
                    return
            if (left := deadline - monotonic()) <= 0:
                raise arena.error(size)
            ready = dict(waiting.poll(min(ceil(left * 1000), LONGEST_POLL)))
            if any(sign in ready for sign in self._signs):
                self._on_sign()

    def _take_returns(self) -> None:
        if self._lent is not None:
            self._leave(self._lent.take_dropped())
        try:
            while content := os.read(self._ends.returns, _READ_AT_ONCE):
                self._leave(array("Q", content))
        except BlockingIOError:
            pass

    def _put_apart(self, length: int, parts: Iterable[Any], blocks: list[int]) -> tuple[int, list[bytes]]:
        """Put what is too long for the ring into a block, which the reader gives back at once."""
        begin = self._allocate(length)
        blocks.append(begin)
        where = array("Q", (begin, length)).tobytes()
        for part in parts:
            _copy(self._view, begin, part)
            begin += len(part)
        return HEADER.size + len(where), [where]

    def _put(self, message: bytes) -> None:
        length = len(message)
        needed = -(-length // HEADER.size) * HEADER.size
        if self._room < needed:
            self._await_room(needed)
        begin, end = self._position, self._position + length
        if end <= self._ring:
            self._view[begin:end] = message
        else:
            self._view[begin : self._ring] = message[: self._ring - begin]
            self._view[: end - self._ring] = message[self._ring - begin :]
        self._position = (begin + needed) % self._ring
        self._room -= needed
        self._ends.sent.add(needed)

    def _await_room(self, needed: int) -> None:
        self._room += self._ends.taken.take()
        if self._room >= needed:
            return
        signs = poll()
        for fd in (self._ends.taken.fd, *self._signs):
            signs.register(fd, POLLIN)
        # If the reader has closed the other end of the pipe, that is reported although nothing is asked for.
        signs.register(self._ends.returns, 0)
        while self._room < needed:
            # Looked at after the counter was taken, which wakes this thread only once.
            if self._interrupted:
                self._on_sign()
            signs.poll()
            taken = self._ends.taken.take()
            self._room += taken
            if not taken:
                self._on_sign()


def _copy(view: memoryview, begin: int, content: Any) -> None:
    length = len(content)
    if length <= _COPY_AT_ONCE:
        view[begin : begin + length] = content
        return
    with memoryview(content) as source:
        for position in range(0, length, _COPY_AT_ONCE):
            part = source[position : position + _COPY_AT_ONCE]
            view[begin + position : begin + position + len(part)] = part


class _Here:
    """The lane for the items of this process, if it is a worker."""

    writer: LaneWriter | None = None


def serve_storage(writer: LaneWriter) -> None:
    """Let `shared_storage` take memory from the lane that carries items out of this process."""
    _Here.writer = writer


def _forget() -> None:
    # Nothing leaves a forked process by that lane, and the worker would not know about memory that it takes there.
    _Here.writer = None


os.register_at_fork(after_in_child=_forget)


def shared_storage(size: int) -> memoryview:
    """Return memory for an item that will leave this process, if there is a process for it to leave.

    In a worker process, the memory is shared with the process that receives the items. An array that lies in it, as a
    whole or in part, crosses without being copied. So give it as ``storage`` to `spdl.io.load_image_batch` and its
    relatives, which then decode into shared memory, or make arrays in it, as by ``numpy.frombuffer``. In any other
    process, the memory is ordinary. So a stage works the same wherever it runs.

    An item that was sent belongs to its receiver: do not write to it any more. The memory is used again when nothing
    refers to it, here and there.

    Args:
        size: Bytes.

    Returns:
        Writable memory, not initialised.

    Raises:
        TypeError, ValueError: If ``size`` is not a positive int.
        OSError: If the system does not have that much memory.

    Example:
        >>> import numpy as np
        >>> from spdl.pipeline import iterate_in_subprocess, shared_storage
        >>> def make():
        ...     for number in range(3):
        ...         array = np.frombuffer(shared_storage(8000), np.float64)
        ...         array[:] = number
        ...         yield array
        >>> items = iterate_in_subprocess(lambda: make(), mp_context="fork")
        >>> [float(array.sum()) for array in items]
        [0.0, 1000.0, 2000.0]
        >>> items.close()
    """
    size = check_int("size", size, least=1)
    writer = _Here.writer
    return memoryview(bytearray(size)) if writer is None else writer.lend(size)

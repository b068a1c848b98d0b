"""A lane: items from one process to another. What both of its ends agree on, the writing and the reading end.

A lane is a memory that both map, two counters, and a pipe. At the beginning of the memory is a ring of messages; the
rest is a slab of blocks for what is large. The writer copies a message into the ring and adds its size to `Ends.sent`,
which wakes the reader. The reader adds what it is done with to `Ends.taken`, and writes the blocks that nobody refers
to any more to the pipe. So each number has one process that adds and one that takes, and the ring has no state of its
own.

If a process may map only a limited amount, both map the ring and a part of the slab. An item that finds no room there,
be it because items that the reader's side keeps take it, is written to the rest of the memory, and the reader copies it
out at once. So no thread has to wait for a block, and what one side keeps never stops the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from errno import EFBIG
from math import ceil
from multiprocessing import reduction
from select import POLLIN, poll
from struct import Struct
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._elsewhere.memory import (
    AnonymousMemory,
    Counter,
    Returns,
    Slab,
    block_size,
    largest_mapped,
    largest_size,
    lend,
)
from spdl.pipeline._elsewhere.pickling import ItemPickler, are_plain, general_reducers

if TYPE_CHECKING:
    import mmap

    from spdl.pipeline._elsewhere.arena import Ledger, Room
    from spdl.pipeline._elsewhere.pickling import Reducers

# Bytes of the ring, unless more is needed. A message has no more than a quarter of them. The reader reports in
# quarters too, so there is room for any message when all others were read.
RING = 1 << 18
# Messages begin at multiples of the header's size, so that none is cut by the ring's end.
ALIGNMENT = 64

# A message: its length, a number of the writer's choice, how many pickles it has, and how many words follow. Each
# pickle has a word with its length and, shifted, how many buffers it has. If it has some, the beginning of their
# block follows, and their lengths. After the words come the pickles. If all of that is too long for the ring, APART is
# added to the number, and two words follow the header: where it is in the slab, and its length.
HEADER = Struct("<IIII")
COUNT_SHIFT = 40
# Added to the word of an item whose buffers lie in blocks that were lent to the code that made them. Three words follow
# for each buffer: the beginning of its block, how far from there it is, and its length.
PLACED = 1 << 63
# Added to the word of a pickle that is a list, whose elements are items. It has no buffers.
GROUPED = 1 << 62
APART = 1 << 31


def aligned(size: int) -> int:
    """Return the size, rounded up to the alignment of buffers in a block."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class Ends:
    """One process's handles of a lane. They can be sent to a child process, as an argument of the process.

    Attributes:
        ring: Bytes of the ring.
        memory: The ring and the slab.
        sent: Bytes of messages that were put into the ring and not read yet.
        taken: Bytes of the ring that the reader is done with.
        returns: The reading end of the pipe for blocks, or its writing end.
    """

    ring: int
    memory: AnonymousMemory
    sent: Counter
    taken: Counter
    returns: int

    def __getstate__(self) -> Any:
        return self.ring, self.memory, self.sent, self.taken, reduction.DupFd(self.returns)

    def __setstate__(self, state: Any) -> None:
        self.ring, self.memory, self.sent, self.taken, duplicate = state
        self.returns = duplicate.detach()

    def numbers(self) -> tuple[int, ...]:
        """Return what `copy_of` takes: numbers, which another interpreter of this process can be given."""
        sent, taken = self.sent.descriptors(), self.taken.descriptors()
        memory = self.memory
        sizes = (self.ring, memory.size, memory.mapped)
        return *sizes, memory.fd, sent[0], sent[-1], taken[0], taken[-1], self.returns

    @classmethod
    def copy_of(cls, numbers: Sequence[int]) -> Ends:
        """Return handles with their own descriptors, of a lane whose numbers another interpreter has given."""
        ring, size, mapped, memory, *counters, returns = numbers
        return cls(
            ring,
            AnonymousMemory.copy_of(size, mapped, memory),
            Counter.copy_of(*counters[:2]),
            Counter.copy_of(*counters[2:]),
            os.dup(returns),
        )

    def descriptors(self) -> list[int]:
        """Return the descriptors."""
        return [self.memory.fd, *self.sent.descriptors(), *self.taken.descriptors(), self.returns]

    def take_returns(self) -> int:
        """Return the end of the pipe. The caller closes it."""
        returns, self.returns = self.returns, -1
        return returns

    def close(self) -> None:
        """Close the handles."""
        self.memory.close()
        self.sent.close()
        self.taken.close()
        returns = self.take_returns()
        if returns >= 0:
            os.close(returns)


def make_lane(ring: int = RING) -> tuple[Ends, Ends]:
    """Make a lane, and return the handles of its writer and of its reader.

    Args:
        ring: Bytes of the ring, a power of two.

    Raises:
        OSError: If the system has not enough memory or descriptors.
    """
    with contextlib.ExitStack() as undo:
        memory = _make_memory()
        undo.callback(memory.close)
        memory.back(0, ring)
        copied = memory.copy()
        undo.callback(copied.close)
        # One by one: the system may have no descriptor left for the next.
        sent = Counter()
        undo.callback(sent.close)
        taken = Counter()
        undo.callback(taken.close)
        copied_sent = sent.copy()
        undo.callback(copied_sent.close)
        copied_taken = taken.copy()
        undo.callback(copied_taken.close)
        reader, writer = os.pipe()
        undo.pop_all()
        return Ends(ring, memory, sent, taken, reader), Ends(ring, copied, copied_sent, copied_taken, writer)


def _make_memory() -> AnonymousMemory:
    size, mapped = largest_size(), largest_mapped()
    while True:
        try:
            return AnonymousMemory(size, mapped)
        except (OSError, ValueError, OverflowError) as error:
            # A limit of the process on its addresses or on the length of files.
            if mapped <= 1 << 26:
                raise
            if isinstance(error, OSError) and error.errno == EFBIG:
                size //= 2
                mapped = min(mapped, size)
            else:
                mapped //= 2


class PeerGone(Exception):  # noqa: N818 - not an error by itself: whoever waits decides what it means.
    """Raised when the other process has ended or closed its end, and everything that it sent has been received."""


class ChannelClosed(Exception):  # noqa: N818 - likewise.
    """Raised when this end was closed, also in a thread that waits for something at that moment."""


class ItemNotSent(Exception):  # noqa: N818 - the cause is the error.
    """Raised if an item of a batch cannot be pickled. Nothing of the batch was sent. The cause says why.

    Args:
        index: Which item of the batch it is.
        error: The exception that pickling it raised.
    """

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class NotReadable:
    """Stands in a received batch for an item that could not be unpickled here.

    Args:
        error: The exception that unpickling it raised.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error


class BufferPlace(NamedTuple):
    """The place of a buffer: in which block, and how far from its beginning."""

    begin: int
    offset: int


class LentBlocks:
    """Knows which blocks this process's code has, and how often each was sent. A block is free when both are over.

    Args:
        mapped: The mapping of the memory.
    """

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
        """Return a view of a block."""
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
        """Note that the receiver has the block, too."""
        self._users[begin] += 1

    def leave(self, blocks: Iterable[int]) -> Iterator[int]:
        """Note that the receiver, or whoever, has given blocks back, and yield those that are free now."""
        for begin in blocks:
            users = self._users.get(begin)
            if users is None:
                yield begin
            elif users > 1:
                self._users[begin] = users - 1
            else:
                del self._users[begin], self._sizes[begin]
                yield begin

    def take_dropped(self) -> list[int]:
        """Return the blocks that this process has dropped since the last call."""
        dropped = []
        while self._dropped:
            dropped.append(self._dropped.popleft())
        return dropped


# A long copy keeps the GIL, so it is done in parts, between which other threads get it. Parts of less than 4 MiB take a
# third longer: the C library then goes through the processor's cache.
_COPY_AT_ONCE = 1 << 23
_READ_AT_ONCE = 1 << 16

# The header of a message with one item that has no buffers, and the most that its pickle has.
_SMALL_HEADER = Struct("<IIIIQ")
_SMALL = 4096
# With fewer items, looking what they are gains nothing.
_LEAST_GROUPED = 3
# Milliseconds. The system takes a C int.
_LONGEST_POLL = 2**31 - 1


class LaneWriter:
    """Writes batches of items.

    Args:
        ends: The writer's handles.
        signs: Descriptors to watch while the writer waits.
        on_sign: Called when one of them is readable, the reader is gone, or the wait is interrupted. It raises to
            end the waiting.
        arena: The room for buffers, if it is bounded.
        reducers: Makes the table of how objects are pickled.
    """

    def __init__(
        self,
        ends: Ends,
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
        self._mapped = ends.memory.mapped
        self._slab = Slab(ends.memory, ends.ring, self._mapped)
        # For what finds no room there, if this process may map only so much.
        self._beyond = Slab(ends.memory, self._mapped, ends.memory.size) if self._mapped < ends.memory.size else None
        self._pickler = ItemPickler(reducers)
        # The slab and the lent blocks, which any thread may ask for.
        self._lock = Lock()
        self._lent: LentBlocks | None = None
        os.set_blocking(ends.returns, False)
        self._position = 0
        self._ring = self._room = ends.ring
        self._interrupted = False

    def send(self, number: int, items: Sequence[object], timeout: float | None = None) -> None:
        """Send items in one message.

        Args:
            number: Arrives with them; less than 2**31.
            items: The items.
            timeout: Seconds to wait for room.

        Raises:
            ItemNotSent: If an item cannot be pickled.
            TimeoutError: If there was no room in time.
            OSError: If the system does not have enough memory.

        If it raises, nothing was sent.
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
                        self._put(_SMALL_HEADER.pack(_SMALL_HEADER.size + size, number, 1, 1, size) + pickled, timeout)
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
            self._put(b"".join((header, table, *pieces)), timeout)
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
        """Give unused memory back to the system."""
        with self._lock:
            self._take_returns()
            self._slab.trim()
            if self._beyond is not None:
                self._beyond.trim()

    def lend(self, size: int) -> memoryview:
        """Return memory for content that will be sent. Any thread may call this.

        Raises:
            OSError: If the system does not have that much memory.
        """
        with self._lock:
            begin = self._allocate_mapped(size)
            if begin is not None:
                if self._lent is None:
                    self._lent = LentBlocks(self._ends.memory.map())
                return self._lent.lend(begin, size)
        if self._beyond is None:
            raise self._no_room(size)
        # It is copied when it is sent.
        return memoryview(bytearray(size))

    def interrupt(self) -> None:
        """Have who waits in `send` for room call ``on_sign``. Any thread may call this, before `close`."""
        self._interrupted = True
        self._ends.taken.add(1)

    def close(self) -> None:
        """Close the handles."""
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
            self._write(begin, buffer)
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
                self._write(begin, buffer)
            else:
                begin, offset = place
            words.extend((begin, offset, len(buffer)))
        return True

    def _write(self, begin: int, content: Any) -> None:
        if begin < self._mapped:
            _copy(self._view, begin, content)
        else:
            self._ends.memory.write(begin, content)

    def _free(self, blocks: Iterable[int]) -> None:
        with self._lock:
            self._leave(blocks)

    def _leave(self, blocks: Iterable[int]) -> None:
        """Free blocks that are not lent. Called with the lock held, as all that follow here."""
        free = blocks if self._arena is None else self._arena.give_back(blocks)
        free = free if self._lent is None else self._lent.leave(free)
        if self._beyond is None:
            self._slab.free(free)
            return
        for begin in free:
            (self._slab if begin < self._mapped else self._beyond).free((begin,))

    def _allocate_mapped(self, size: int) -> int | None:
        if not self._slab.has_free(size):
            self._take_returns()
        return self._slab.allocate(size)

    def _allocate(self, size: int, *, bounded: bool = False) -> int:
        with self._lock:
            begin = self._allocate_mapped(size)
            if begin is None and self._beyond is not None:
                begin = self._beyond.allocate(size)
            if bounded and begin is not None:
                assert self._arena is not None
                self._arena.take(begin, size)
        if begin is None:
            raise self._no_room(size)
        return begin

    def _await_arena(self, size: int) -> None:
        """Wait until the arena has room for that many bytes.

        Raises:
            BufferError: If it has none in time, or was shut down.
        """
        arena = self._arena
        assert arena is not None
        if arena.has(size):
            return
        deadline = arena.deadline()
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
            ready = dict(waiting.poll(min(ceil(left * 1000), _LONGEST_POLL)))
            if any(sign in ready for sign in self._signs):
                self._on_sign()

    def _no_room(self, size: int) -> MemoryError:
        return MemoryError(
            f"The memory that two processes share has no room for {size:,} more bytes: it has "
            f"{self._ends.memory.size:,} in all. Send less at once."
        )

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
            self._write(begin, part)
            begin += len(part)
        return HEADER.size + len(where), [where]

    def _put(self, message: bytes, timeout: float | None) -> None:
        length = len(message)
        needed = -(-length // HEADER.size) * HEADER.size
        if self._room < needed:
            self._await_room(needed, timeout)
        begin, end = self._position, self._position + length
        if end <= self._ring:
            self._view[begin:end] = message
        else:
            self._view[begin : self._ring] = message[: self._ring - begin]
            self._view[: end - self._ring] = message[self._ring - begin :]
        self._position = (begin + needed) % self._ring
        self._room -= needed
        self._ends.sent.add(needed)

    def _await_room(self, needed: int, timeout: float | None) -> None:
        self._room += self._ends.taken.take()
        if self._room >= needed:
            return
        deadline = None if timeout is None else monotonic() + timeout
        signs = poll()
        for fd in (self._ends.taken.reader, *self._signs):
            signs.register(fd, POLLIN)
        # If the reader has closed the other end of the pipe, that is reported although nothing is asked for.
        signs.register(self._ends.returns, 0)
        while self._room < needed:
            # Looked at after the counter was taken, which wakes this thread only once.
            if self._interrupted:
                self._on_sign()
            left = None if deadline is None else min(ceil(max(0.0, deadline - monotonic()) * 1000), _LONGEST_POLL)
            ready = signs.poll(left)
            taken = self._ends.taken.take()
            self._room += taken
            if not ready:
                raise TimeoutError
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


_WORD = array("Q").itemsize
_LENGTH_MASK = (1 << COUNT_SHIFT) - 1
# Milliseconds. The system takes a C int.
# How long a wait may last while blocks wait for room in the pipe.
_UNTIL_FLUSH = 20


class Message(NamedTuple):
    """A message that was received: the writer's number, and how to make its items."""

    number: int
    pickles: int
    position: int
    length: int
    words: int
    apart: bool


class LaneReader:
    """Reads batches of items.

    Args:
        ends: The reader's handles.
        signs: Descriptors that become readable when the writer's process ends.
        ledger: Counts the buffers, if they are bounded.
    """

    def __init__(self, ends: Ends, signs: Iterable[int], ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        # How many items were larger than the bound, and when that is said again.
        self._without_arena = 0
        self._until_warning = 1
        self._ends = ends
        self._ring = ends.ring
        self._mapped = ends.memory.mapped
        self._map = ends.memory.map()
        self._view = memoryview(self._map)
        returns = ends.take_returns()
        self._returns = Returns(returns)
        if ledger is not None:
            ledger.serve(self._returns)
        self._poll = poll()
        for fd in (ends.sent.reader, *signs):
            self._poll.register(fd, POLLIN)
        # If the writer has closed the other end of the pipe, that is reported although nothing is asked for.
        self._poll.register(returns, 0)
        self._position = 0
        # Bytes of messages that are in the ring, and of those that were read and not reported.
        self._unread = 0
        self._unreported = 0

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for the next message. Its items must be loaded, or be skipped, before the next one is received.

        Raises:
            PeerGone: If there will be no more.
            TimeoutError: If there was none in time.
        """
        if not self._unread:
            self._await_message(timeout)
        length, number, count, words = HEADER.unpack_from(self._map, self._position)
        return Message(number & ~APART, count, self._position, length, words, bool(number & APART))

    def load(self, message: Message) -> list[Any]:
        """Return the items of a message just received. Unpickling may run any code."""
        _, count, begin, length, words, apart = message
        end = begin + length
        begin += HEADER.size
        if apart or end > self._ring:
            return self._load_moved(message)
        try:
            if words == count == 1:
                # Small items that come one by one, as quickly as possible.
                try:
                    return [pickle.loads(self._view[begin + _WORD : end])]  # noqa: S301 - from our own process.
                except Exception as error:  # noqa: BLE001 - unpickling may run any code.
                    return [NotReadable(error)]
            return self._load_items(count, words, self._view[begin:end])
        finally:
            self._took(message)

    def skip(self, message: Message) -> None:
        """Drop the items of a message just received."""
        content, block = self._find(message)
        table = _table(content, message.words)
        word = 0
        for _ in range(message.pickles):
            number = (table[word] & ~(PLACED | GROUPED)) >> COUNT_SHIFT
            if table[word] & PLACED:
                self._borrow_placed(table[word + 1 : word + 1 + 3 * number])
                word += 3 * number
            elif number:
                self._borrow(table[word + 1], table[word + 2 : word + 2 + number])
                word += 1 + number
            word += 1
        if block is not None:
            self._returns.give_back(block)
        self._took(message)

    def close(self) -> None:
        """Close the handles. Views of the memory stay."""
        self._view.release()
        self._returns.close()
        self._ends.close()

    def _find(self, message: Message) -> tuple[memoryview, int | None]:
        """Return the words and pickles of a message, and the block that they are in, if any."""
        begin, end = message.position + HEADER.size, message.position + message.length
        if end <= self._ring:
            content = self._view[begin:end]
        else:
            content = memoryview(self._view[begin : self._ring].tobytes() + self._view[: end - self._ring].tobytes())
        if not message.apart:
            return content, None
        block, length = array("Q", content.tobytes())
        if block >= self._mapped:
            return memoryview(self._ends.memory.read(block, length)), block
        return self._view[block : block + length], block

    def _load_moved(self, message: Message) -> list[Any]:
        content, block = self._find(message)
        try:
            return self._load_items(message.pickles, message.words, content)
        finally:
            if block is not None:
                self._returns.give_back(block)
            self._took(message)

    def _load_items(self, count: int, words: int, content: memoryview) -> list[Any]:
        loads = pickle.loads
        items = []
        table = _table(content, words)
        position = words * _WORD
        word = 0
        for _ in range(count):
            length = table[word]
            word += 1
            if length & GROUPED:
                length &= ~GROUPED
                items += loads(content[position : position + length])
                position += length
                continue
            buffers: Any = ()
            if length & PLACED:
                number, length = (length & ~PLACED) >> COUNT_SHIFT, length & _LENGTH_MASK
                buffers = self._borrow_placed(table[word : word + 3 * number])
                word += 3 * number
            elif length > _LENGTH_MASK:
                number, length = length >> COUNT_SHIFT, length & _LENGTH_MASK
                buffers = self._borrow(table[word], table[word + 1 : word + 1 + number])
                word += 1 + number
            try:
                items.append(loads(content[position : position + length], buffers=buffers))
            except Exception as error:  # noqa: BLE001 - unpickling may run any code.
                items.append(NotReadable(error))
            position += length
        return items

    def _borrow(self, begin: int, lengths: Sequence[int]) -> list[Any]:
        size = sum(map(aligned, lengths))
        ledger = self._ledger
        give_back: Callable[[int], object] = self._returns.give_back
        if ledger is not None:
            if ledger.bound.fits(size):
                give_back = ledger.receive(size, give_back)
            else:
                self._warn(sum(lengths))
        view = self._keep(begin, size, give_back)
        buffers: list[Any] = []
        position = 0
        for length in lengths:
            buffers.append(view[position : position + length])
            position += aligned(length)
        return list(map(bytearray, buffers)) if ledger is not None and ledger.copies else buffers

    def _borrow_placed(self, words: Sequence[int]) -> list[memoryview]:
        """Return the buffers of an item that lie in blocks of several, each with its place and length."""
        triples = [words[first : first + 3] for first in range(0, len(words), 3)]
        ends: dict[int, int] = {}
        for begin, offset, length in triples:
            ends[begin] = max(ends.get(begin, 0), offset + length)
        views = {begin: self._keep(begin, end, self._returns.give_back) for begin, end in ends.items()}
        return [views[begin][offset : offset + length] for begin, offset, length in triples]

    def _keep(self, begin: int, size: int, give_back: Callable[[int], object]) -> memoryview:
        """Return what a block has, for as long as anything refers to it."""
        if begin < self._mapped:
            return lend(self._map, begin, size, block_size(size), give_back)
        try:
            return memoryview(self._ends.memory.read(begin, size))
        finally:
            give_back(begin)

    def _warn(self, size: int) -> None:
        self._without_arena += 1
        if self._without_arena == self._until_warning:
            self._until_warning *= 10
            warnings.warn(
                f"{self._without_arena} item(s) so far were larger than the arena, and came all the same; this one has "
                f"{size:,} bytes. Make the arena larger, or leave it out.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _took(self, message: Message) -> None:
        taken = -(-message.length // HEADER.size) * HEADER.size
        self._position = (message.position + taken) % self._ring
        self._unread -= taken
        self._unreported += taken
        if self._unreported >= self._ring // 4:
            self._ends.taken.add(self._unreported)
            self._unreported = 0

    def _await_message(self, timeout: float | None) -> None:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = None if deadline is None else min(ceil(max(0.0, deadline - monotonic()) * 1000), _LONGEST_POLL)
            if self._returns.waiting:
                self._returns.flush()
                left = _UNTIL_FLUSH if left is None else min(left, _UNTIL_FLUSH)
            ready = self._poll.poll(left)
            self._unread += self._ends.sent.take()
            if self._unread:
                return
            if ready:
                raise PeerGone
            if deadline is not None and monotonic() >= deadline:
                raise TimeoutError


def _table(content: memoryview, words: int) -> array[int]:
    return array("Q", content[: words * _WORD].tobytes())

"""A lane: items from one process to another. Its layout, and its reading end; the other one is `lane_writer`.

A lane is a memory that both map, two counters, and a pipe. At the beginning of the memory is a ring of messages; the
rest is a slab of blocks for what is large. The writer copies a message into the ring and adds its size to
`LaneEnds.sent`, which wakes the reader. The reader adds what it is done with to `LaneEnds.taken`, and writes the blocks
that nothing refers to any more to the pipe. So each number has one process that adds and one that takes, and the ring
has no other state. The memory is as large as the machine's, so no thread has to wait for a block.
"""

from __future__ import annotations

import os
import pickle
import warnings
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from multiprocessing import reduction
from select import POLLIN, poll
from struct import Struct
from time import monotonic
from typing import Any, NamedTuple

from spdl.pipeline._elsewhere.arena import Ledger
from spdl.pipeline._elsewhere.memory import AnonymousMemory, Counter, Returns, block_size, lend, make_large_memory

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

# The longest wait in milliseconds. The system takes a C int.
LONGEST_POLL = 2**31 - 1


def aligned(size: int) -> int:
    """Return the size, rounded up to the alignment of buffers in a block."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class LaneEnds:
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
        return self.ring, self.memory.size, *self.descriptors()

    @classmethod
    def copy_of(cls, numbers: Sequence[int]) -> LaneEnds:
        """Return handles with their own descriptors, of a lane whose numbers another interpreter has given."""
        ring, size, *descriptors = numbers
        copies: list[int] = []
        try:
            for descriptor in descriptors:
                copies.append(os.dup(descriptor))  # noqa: PERF401 - those made so far are closed if one fails.
        except OSError:
            for copied in copies:
                os.close(copied)
            raise
        memory, sent, taken, returns = copies
        return cls(ring, AnonymousMemory(size, memory), Counter(sent), Counter(taken), returns)

    def descriptors(self) -> tuple[int, int, int, int]:
        return self.memory.fd, self.sent.fd, self.taken.fd, self.returns

    def take_returns(self) -> int:
        returns, self.returns = self.returns, -1
        return returns

    def close(self) -> None:
        self.memory.close()
        self.sent.close()
        self.taken.close()
        returns = self.take_returns()
        if returns >= 0:
            os.close(returns)


def make_lane(ring: int = RING) -> tuple[LaneEnds, LaneEnds]:
    """Make a lane with a ring of 2**n bytes, and return the handles of its writer and of its reader."""
    with ExitStack() as undo:
        memory = make_large_memory()
        undo.callback(memory.close)
        memory.back(0, ring)
        sent = Counter()
        undo.callback(sent.close)
        taken = Counter()
        undo.callback(taken.close)
        reader, writer = os.pipe()
        undo.callback(os.close, reader)
        try:
            other = LaneEnds.copy_of((ring, memory.size, memory.fd, sent.fd, taken.fd, writer))
        finally:
            os.close(writer)
        undo.pop_all()
    return LaneEnds(ring, memory, sent, taken, reader), other


class PeerGone(Exception):  # noqa: N818 - not an error by itself: the waiting code decides what it means.
    """Raised when the other process has ended or closed its end, and everything that it sent has been received."""


class ChannelClosed(Exception):  # noqa: N818 - as above.
    """Raised when this end was closed, also in a thread that waits for something at that moment."""


class ItemNotSent(Exception):  # noqa: N818 - the cause is the error.
    """Raised if an item of a batch cannot be pickled. Nothing of the batch was sent. The cause says why."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class NotReadable:
    """Stands in a received batch for an item that could not be unpickled here."""

    def __init__(self, error: Exception) -> None:
        self.error = error


_WORD = array("Q").itemsize
_LENGTH_MASK = (1 << COUNT_SHIFT) - 1
# Milliseconds: how long a wait may last while blocks wait for room in the pipe.
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
    """Reads batches of items. One of ``signs`` becomes readable when the writer's process ends."""

    def __init__(self, ends: LaneEnds, signs: Iterable[int], ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        # How many items were larger than the bound, and when that is said again.
        self._without_arena = 0
        self._until_warning = 1
        self._ends = ends
        self._ring = ends.ring
        self._map = ends.memory.map()
        self._view = memoryview(self._map)
        returns = ends.take_returns()
        self._returns = Returns(returns)
        if ledger is not None:
            ledger.serve(self._returns)
        self._poll = poll()
        for fd in (ends.sent.fd, *signs):
            self._poll.register(fd, POLLIN)
        # If the writer has closed the other end of the pipe, that is reported although nothing is asked for.
        self._poll.register(returns, 0)
        self._position = 0
        # Bytes of messages that are in the ring, and of those that were read and not reported.
        self._unread = 0
        self._unreported = 0

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for the next message, or raise TimeoutError or PeerGone. Load its items before receiving another one."""
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

    def close(self) -> None:
        self._view.release()
        self._returns.close()
        self._ends.close()

    def _load_moved(self, message: Message) -> list[Any]:
        """Load a message that goes on at the ring's beginning, or lies in a block."""
        begin, end = message.position + HEADER.size, message.position + message.length
        if end <= self._ring:
            content = self._view[begin:end]
        else:
            content = memoryview(self._view[begin : self._ring].tobytes() + self._view[: end - self._ring].tobytes())
        block = None
        if message.apart:
            block, length = array("Q", content.tobytes())
            content = self._view[block : block + length]
        try:
            return self._load_items(message.pickles, message.words, content)
        finally:
            if block is not None:
                self._returns.give_back(block)
            self._took(message)

    def _load_items(self, count: int, words: int, content: memoryview) -> list[Any]:
        loads = pickle.loads
        items = []
        table = array("Q", content[: words * _WORD].tobytes())
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
        view = lend(self._map, begin, size, block_size(size), give_back)
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
        give_back = self._returns.give_back
        views = {begin: lend(self._map, begin, end, block_size(end), give_back) for begin, end in ends.items()}
        return [views[begin][offset : offset + length] for begin, offset, length in triples]

    def _warn(self, size: int) -> None:
        self._without_arena += 1
        if self._without_arena == self._until_warning:
            self._until_warning *= 10
            warnings.warn(
                f"{self._without_arena} item(s) so far were larger than the arena, and were sent anyway; this one has "
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
            left = None if deadline is None else min(ceil(max(0.0, deadline - monotonic()) * 1000), LONGEST_POLL)
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

"""A lane: items from one process to another, and the layout that its ends `lane_writer` and `lane_reader` share.

A lane is a memory that both map, two counters, and a pipe. At the beginning of the memory is a ring of messages; the
rest is a slab of blocks for what is large. The writer copies a message into the ring and adds its size to
`LaneEnds.sent`, which wakes the reader. The reader adds what it is done with to `LaneEnds.taken`, and writes the blocks
that nothing refers to any more to the pipe. So each number has one process that adds and one that takes, and the ring
has no other state. The memory is as large as the machine's, so no thread has to wait for a block.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import reduction
from struct import Struct
from typing import Any

from spdl.pipeline._elsewhere.memory import AnonymousMemory, Counter, make_large_memory

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

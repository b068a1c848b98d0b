"""The reading end of a lane."""

from __future__ import annotations

import pickle
import warnings
from array import array
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from select import POLLIN, poll
from time import monotonic
from typing import Any, NamedTuple

from spdl.pipeline._elsewhere.arena import Ledger
from spdl.pipeline._elsewhere.lane import (
    APART,
    COUNT_SHIFT,
    GROUPED,
    HEADER,
    LONGEST_POLL,
    PLACED,
    LaneEnds,
    NotReadable,
    PeerGone,
    aligned,
)
from spdl.pipeline._elsewhere.memory import Returns, block_size, lend

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
        views = {begin: self._lend(begin, end) for begin, end in ends.items()}
        return [views[begin][offset : offset + length] for begin, offset, length in triples]

    def _lend(self, begin: int, size: int) -> memoryview:
        return lend(self._map, begin, size, block_size(size), self._returns.give_back)

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


def _table(content: memoryview, words: int) -> array[int]:
    return array("Q", content[: words * _WORD].tobytes())

"""Which ranges to ask for: neighbours in one request, and large ones in several; and memory for what comes."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer


_WORTH_KEEPING = 4
"""A part of less than one in this many bytes of its block is copied, so that it does not keep the block in memory."""
_LARGE = 1 << 21
"""From here on, memory comes from the system and goes back to it: it is the size of its large pages."""
_WORTH = 8
"""The last page is a large one too, if that adds no more than one in this many bytes: they come much faster."""
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
_AT_ONCE = 1 << 30
"""Linux reads less than 2 GiB in one call."""


class Block(NamedTuple):
    """Bytes that are read in one go, since several ranges lie in them."""

    start: int
    length: int
    ranges: tuple[int, ...]
    """The indices of these ranges."""


def merge_ranges(starts: Sequence[int], lengths: Sequence[int], *, gap: int, most: int) -> list[Block]:
    """Return blocks, in the order of the object, so that each range of more than 0 bytes lies in one of them.

    Up to `gap` bytes between ranges are rather read than skipped. A block has at most `most` bytes, unless a single
    range has more.
    """
    blocks: list[Block] = []
    members: list[int] = []
    start = stop = 0
    for index in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: (starts[i], lengths[i])):
        begin, end = starts[index], starts[index] + lengths[index]
        if members and begin - stop <= gap and max(stop, end) - start <= most:
            stop = max(stop, end)
        else:
            if members:
                blocks.append(Block(start, stop - start, tuple(members)))
            start, stop, members = begin, end, []
        members.append(index)
    if members:
        blocks.append(Block(start, stop - start, tuple(members)))
    return blocks


def split_evenly(length: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets and lengths of as few parts as possible of at most `most` bytes, all of about one length."""
    count = max(1, -(-length // most))
    for i in range(count):
        start = length * i // count
        yield start, length * (i + 1) // count - start


def cut_out(
    blocks: Iterable[Block], contents: Iterable[Buffer], starts: Sequence[int], lengths: Sequence[int]
) -> list[Buffer]:
    """Return the ranges that lie in blocks: views of the blocks' contents, or copies if they are small in them."""
    parts: list[Buffer] = [b""] * len(starts)
    for block, content in zip(blocks, contents, strict=True):
        for index in block.ranges:
            offset, length = starts[index] - block.start, lengths[index]
            part = memoryview(content)[offset : offset + length]
            parts[index] = part if _WORTH_KEEPING * length >= block.length else bytes(part)
    return parts


def make_room(length: int) -> memoryview:
    """Return writable memory of `length` bytes, which are 0 at first. MemoryError if there is not so much.

    If several threads read, the allocator keeps much of the large blocks that each of them has freed. So large blocks
    do not come from it.
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


def read_part(descriptor: int, start: int, length: int) -> bytes | memoryview:
    """Return bytes of a file, read-only; fewer if it ends before."""
    content = b"" if length >= _LARGE else os.pread(descriptor, length, start)
    if len(content) == length:
        return content
    room, done = make_room(length), len(content)
    room[:done] = content
    while done < length and (count := os.preadv(descriptor, [room[done : done + _AT_ONCE]], start + done)):
        done += count
    return room[:done].toreadonly()

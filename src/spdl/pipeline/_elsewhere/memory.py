"""Memory that processes share: how it is made, divided into blocks, lent, and given back; and shared counters."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from errno import ENOMEM
from functools import cache
from math import inf
from multiprocessing import reduction
from pathlib import Path
from threading import RLock
from typing import Any

from spdl._cores import ControlGroup, find_groups, read_file

# The root of the file system. Tests put another one here.
_ROOT = "/"


def available_memory() -> int:
    """Return how many bytes the machine and the process's control groups have left, or a number too large.

    Both versions of control groups are read. The limit of a group bounds all groups in it.
    """
    left = sys.maxsize
    with suppress(OSError, ValueError, IndexError, StopIteration):
        left = _named(read_file(f"{_ROOT}proc/meminfo"), "MemAvailable: ") * 1024
    for group in find_groups(_ROOT, "memory"):
        # The outermost group of version 2 has no such files, and a group without a limit says "max".
        with suppress(OSError, ValueError):
            left = min(left, _left_in(group))
    return max(0, left)


def _left_in(group: ControlGroup) -> int:
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if group.is_version_1 else ("memory.max", "memory.current")
    )
    limit, used = (int(read_file(f"{group.folder}/{name}")) for name in names)
    # Files that the system drops when memory is short.
    reclaimable = 0
    with suppress(OSError, ValueError, IndexError, StopIteration):
        name = "total_inactive_file " if group.is_version_1 else "inactive_file "
        reclaimable = _named(read_file(f"{group.folder}/memory.stat"), name)
    return limit - used + reclaimable


def _named(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name))


# A process with the descriptor can neither cut the file off, which would kill readers, nor change these rules.
_SEALS = [getattr(fcntl, f"F_SEAL_{name}", 0) for name in ("SHRINK", "GROW", "SEAL")]


# Looking how much is left takes longer than taking less than this.
_LEAST_CHECKED = 1 << 24
# If a process may map only so much (`ulimit -v`), one memory takes a part of what is left that leaves room for others,
# and for all else that the process needs. It is of use only from some size on.
_ADDRESSES = 16
_LEAST_SIZE = 1 << 26


class AnonymousMemory:
    """Memory that can be sent to a child process, as an argument of the process. Its size never changes.

    It takes only what `back` has asked for. The system frees it with the last process that has it. No limit of
    ``/dev/shm`` applies. Views of the mapping keep the mapping, also after `close`. A given descriptor is taken over.
    """

    def __init__(self, size: int, fd: int | None = None) -> None:
        self.size = size
        self.fd = _make_file(size) if fd is None else fd
        self._map: mmap.mmap | None = None

    # For children that are not forked: multiprocessing pickles their arguments.
    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (AnonymousMemory, self.size, reduction.DupFd(self.fd))

    def map(self) -> mmap.mmap:
        if self._map is None:
            self._map = mmap.mmap(self.fd, self.size)
        return self._map

    def back(self, begin: int, end: int) -> None:
        """Take memory for these bytes, or raise an OSError. Otherwise writing there could kill the process."""
        size = end - begin
        # The system would end processes, this one perhaps, before it refused.
        if size > _LEAST_CHECKED and size > available_memory():
            raise OSError(ENOMEM, f"Less than {size:,} bytes of memory are left here or in this process's group")
        os.posix_fallocate(self.fd, begin, size)

    def give_up(self, begin: int, end: int) -> None:
        """Give the memory of whole pages between ``begin`` and ``end`` back to the system. Back it before using it."""
        begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        if begin < end:
            # If the file system does not know how, the memory stays.
            with suppress(OSError):
                self.map().madvise(mmap.MADV_REMOVE, begin, end - begin)

    def close(self) -> None:
        """Let go of it. Memory that views refer to stays for as long as they live."""
        mapped, self._map = self._map, None
        if mapped is not None:
            with suppress(BufferError):
                mapped.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def make_large_memory() -> AnonymousMemory:
    """Return memory as large as this machine's, which is a power of two. Where addresses are scarce it is smaller."""
    size = 1 << max(32, min(40, (os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE).bit_length()))
    left = _addresses_left()
    while size > _LEAST_SIZE and size * _ADDRESSES > left:
        size //= 2
    while True:
        try:
            return AnonymousMemory(size)
        except (OSError, ValueError, OverflowError):
            # A limit of the process on its addresses or on the length of files.
            if size <= _LEAST_SIZE:
                raise
            size //= 2


def _addresses_left() -> float:
    """Return how many more bytes this process may map; infinite if it has no limit, as under no ``ulimit -v``."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return inf
    # If the system does not tell how much is mapped, the limit counts.
    with suppress(OSError):
        limit -= int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    return limit


def _make_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("spdl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:  # Python was built for an older system. The file is deleted before anything is written.
        with tempfile.TemporaryFile(prefix="spdl-") as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, size)
        if all(_SEALS):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, sum(_SEALS))
        # So that a size that this process has no addresses for shows at once.
        mmap.mmap(fd, size).close()
    except BaseException:
        os.close(fd)
        raise
    return fd


def _received(kind: Callable[..., Any], *arguments: Any) -> Any:
    """Return what another process has sent, whose last argument is its descriptor."""
    *others, duplicate = arguments
    return kind(*others, duplicate.detach())


_LEAST = 4096

# How many bytes a lane keeps when it needs less, and over how many blocks the need is measured.
_KEPT = 64 << 20
_WINDOW = 256


def block_size(size: int) -> int:
    """Return the size of the block for that many bytes: four sizes for each power of two, so that blocks fit again."""
    if size <= _LEAST:
        return _LEAST
    shift = (size - 1).bit_length() - 3
    return (((size - 1) >> shift) + 1) << shift


class Slab:
    """A part of a memory, divided into blocks. It keeps ``kept`` bytes when it needs less.

    Freed blocks serve requests for the same size, the latest one first, since it is still in the processor's cache. If
    there is none, all free blocks are joined with their neighbours, and the first gap that is large enough is cut.
    """

    def __init__(self, memory: AnonymousMemory, begin: int, end: int, kept: int = 0) -> None:
        self._kept = max(kept, _KEPT)
        self._memory = memory
        self._begin = begin
        self._end = end
        # No block lies beyond, and memory was taken up to there.
        self._top = self._backed = begin
        # The sizes of the blocks in use.
        self._used: dict[int, int] = {}
        self._in_use = 0
        # The free blocks by size, how many bytes they have, and the gaps between blocks, in order.
        self._free: dict[int, list[int]] = {}
        self._free_bytes = 0
        self._gaps: list[tuple[int, int]] = []
        # The most that was in use lately, and the time before.
        self._peaks = [0, 0]
        self._until_look = _WINDOW

    def allocate(self, size: int) -> int | None:
        """Return the beginning of a block, or None if there is no room now. Raises an OSError if memory is short."""
        size = block_size(size)
        self._until_look -= 1
        if not self._until_look:
            self._look()
        free = self._free.get(size)
        if free:
            begin = free.pop()
            self._free_bytes -= size
        else:
            found = self._cut(size)
            if found is None:
                return None
            begin = found
        self._used[begin] = size
        self._in_use += size
        self._peaks[0] = max(self._peaks[0], self._in_use)
        return begin

    def free(self, blocks: Iterable[int]) -> None:
        for begin in blocks:
            size = self._used.pop(begin, 0)
            if size:
                self._in_use -= size
                self._free.setdefault(size, []).append(begin)
                self._free_bytes += size

    def has_free(self, size: int) -> bool:
        return bool(self._free.get(block_size(size)))

    def trim(self, kept: int = 0) -> None:
        """Give memory beyond the last block in use back to the system, except for a number of bytes in all."""
        self._join()
        keep = max(self._top, self._begin + (kept or self._kept))
        if self._backed > keep:
            self._memory.give_up(keep, self._backed)
            self._backed = keep

    def _look(self) -> None:
        self._until_look = _WINDOW
        peak = max(self._peaks)
        self._peaks = [self._in_use, self._peaks[0]]
        if self._backed - self._begin > 2 * peak + self._kept:
            self.trim(2 * peak + self._kept // 2)

    def _cut(self, size: int) -> int | None:
        begin = self._cut_gap(size)
        if begin is None and self._free_bytes:
            self._join()
            begin = self._cut_gap(size)
        if begin is not None:
            return begin
        begin = self._top
        end = begin + size
        if end > self._end:
            return None
        if end > self._backed:
            self._memory.back(self._backed, end)
            self._backed = end
        self._top = end
        return begin

    def _cut_gap(self, size: int) -> int | None:
        for index, (begin, end) in enumerate(self._gaps):
            if end - begin >= size:
                if end - begin == size:
                    del self._gaps[index]
                else:
                    self._gaps[index] = (begin + size, end)
                return begin
        return None

    def _join(self) -> None:
        gaps = self._gaps
        for size, blocks in self._free.items():
            gaps += [(begin, begin + size) for begin in blocks]
        gaps.sort()
        joined: list[tuple[int, int]] = []
        for begin, end in gaps:
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        if joined and joined[-1][1] == self._top:
            self._top = joined.pop()[0]
        self._gaps = joined
        self._free.clear()
        self._free_bytes = 0


class Returns:
    """Gives blocks back to the process that allocates them, by a pipe. Any thread may do so, at any time."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._owner = os.getpid()
        # A finalizer may interrupt any code, this one included.
        self._lock = RLock()
        # Blocks that the pipe had no room for.
        self.waiting = array("Q")

    def give_back(self, block: int) -> None:
        if os.getpid() != self._owner:
            # A fork has copied the views. The memory is not its to give.
            return
        with self._lock:
            self.waiting.append(block)
            self.flush()

    def flush(self) -> None:
        """Write what has been waiting, as much as the pipe has room for."""
        with self._lock:
            content = self.waiting[: 4096 // self.waiting.itemsize]
            while content and self._pipe >= 0:
                try:
                    # No more than the system writes in one piece.
                    os.write(self._pipe, content)
                except BlockingIOError:
                    return
                except OSError:  # The other process is gone, and the blocks with it.
                    self.waiting = array("Q")
                    return
                del self.waiting[: len(content)]
                content = self.waiting[: len(content)]

    def close(self) -> None:
        """Close the pipe. Blocks that are given back later are lost."""
        # A thread that this fork does not have may have held the lock when it was forked.
        with self._lock if os.getpid() == self._owner else nullcontext():
            pipe, self._pipe = self._pipe, -1
            if pipe >= 0:
                os.close(pipe)


def lend(mapped: mmap.mmap, begin: int, length: int, size: int, give_back: Callable[[int], object]) -> memoryview:
    """Return a view of a block. When it, and all that was made of it, is gone, the block is given back.

    The view keeps the mapping. ``size`` is that of the block, and ``length`` that of the view. There should be few
    different sizes: each has its own class. Whichever thread drops the last view calls ``give_back`` with ``begin``.
    """
    loan = _loan_class(size).from_buffer(mapped, begin)
    loan.begin_with(begin, give_back)
    return memoryview(loan).cast("B")[:length]


class _Loan:
    """Makes an array of ctypes a loan: an object of the standard library that shows memory, and has a finalizer.

    Before Python 3.12, classes that are written in Python cannot show memory otherwise.
    """

    def begin_with(self, begin: int, give_back: Callable[[int], object]) -> None:
        self._begin = begin
        self._give_back = give_back

    def __del__(self) -> None:
        self._give_back(self._begin)


@cache
def _loan_class(size: int) -> Any:
    return type("Loan", (_Loan, ctypes.c_ubyte * size), {})


class Counter:
    """A number that two processes share, and that wakes the one that takes it. A given descriptor is taken over.

    A thread that takes an addition sees all that was written before it: both are calls of the system. So rings need no
    atomic operations, and a process that is killed at any instruction has either published a message whole, or not at
    all.
    """

    def __init__(self, fd: int | None = None) -> None:
        # It is readable while the number is not 0.
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) if fd is None else fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (Counter, reduction.DupFd(self.fd))

    def add(self, amount: int) -> None:
        """Add to the number, and wake the process that waits for the descriptor to become readable."""
        os.eventfd_write(self.fd, amount)

    def take(self) -> int:
        try:
            return os.eventfd_read(self.fd)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

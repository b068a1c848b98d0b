"""The parent's end of the connection: reads messages and copies items out of the shared file."""

from __future__ import annotations

import os
import pickle
from array import array
from itertools import accumulate, pairwise
from math import ceil
from select import POLLIN, poll
from time import monotonic
from typing import TYPE_CHECKING, Any

from .wire import HEADER, INLINE, Header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .shared_file import SharedFile

__all__ = ["Inbox", "WorkerGone"]

# One call reads many messages if the worker is ahead.
_READ_AT_ONCE = 1 << 16
# Milliseconds. The system takes a C int.
_LONGEST_POLL = 2**31 - 1
_ITEM_SIZE = array("Q").itemsize


class WorkerGone(Exception):  # noqa: N818 - users see it as another exception.
    """Raised when the worker process has ended and everything that it sent has been read."""


class Inbox:
    """Receives the messages and items of a worker.

    Args:
        messages: The descriptor that messages come from.
        file: The shared file that holds long content.
        signs: Descriptors that become readable when the worker process ends, even if other processes hold the pipe.
    """

    def __init__(self, messages: int, file: SharedFile, signs: Iterable[int]) -> None:
        self._messages = messages
        self._file = file
        os.set_blocking(messages, False)
        self._poll = poll()
        for fd in (messages, *signs):
            self._poll.register(fd, POLLIN)
        # Bytes that were read and not used yet.
        self._unread = b""
        self._position = 0

    def receive(self, timeout: float | None) -> Header:
        """Return the next message's header.

        Raises:
            WorkerGone: If there will be no more messages.
            TimeoutError: If there is no message after ``timeout`` seconds.
        """
        position = self._position
        while True:
            begin = position + HEADER.size
            if begin <= len(self._unread):
                header = Header._make(HEADER.unpack_from(self._unread, position))
                if header.offset != INLINE or begin + header.pickled <= len(self._unread):
                    self._position = begin
                    return header
            self._unread = self._unread[position:] + self._read(timeout)
            self._position = position = 0

    def _read(self, timeout: float | None) -> bytes:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            milliseconds = None if deadline is None else min(max(0.0, deadline - monotonic()) * 1000, _LONGEST_POLL)
            ready = self._poll.poll(None if milliseconds is None else ceil(milliseconds))
            try:
                read = os.read(self._messages, _READ_AT_ONCE)
            except BlockingIOError:
                # The pipe is empty, so what became readable is a sign, and everything sent before it has been read.
                if ready:
                    raise WorkerGone from None
            else:
                if not read:
                    raise WorkerGone
                return read
            if deadline is not None and monotonic() >= deadline:
                raise TimeoutError

    def skip(self, header: Header) -> None:
        """Skip the content of the message just received."""
        if header.offset == INLINE:
            self._position += header.pickled

    def load(self, header: Header) -> Any:
        """Unpickle and return the content of the message just received. This may run code of the user."""
        if header.offset == INLINE:
            begin = self._position
            self._position = end = begin + header.pickled
            with memoryview(self._unread)[begin:end] as content:
                return pickle.loads(content)  # noqa: S301 - all messages are from our own worker process.
        begin, pickled = header.offset, header.offset + _ITEM_SIZE * header.buffers
        end = pickled + header.pickled
        if not header.buffers:
            with self._file.view(begin, end) as content:
                return pickle.loads(content)  # noqa: S301
        with self._file.view(begin, pickled) as content:
            lengths = array("Q", bytes(content))
        ends = list(accumulate(lengths, initial=end))
        buffers = []
        for first, last in pairwise(ends):
            with self._file.view(first, last) as content:
                # The only copy on this side. The item owns this memory.
                buffers.append(bytearray(content))
        with self._file.view(pickled, end) as content:
            return pickle.loads(content, buffers=buffers)  # noqa: S301

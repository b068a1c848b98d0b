"""A channel between a process and one worker: batches of items in both directions, quickly, and no silent death.

How whoever runs workers (the regions of a pipeline, for one) uses it::

    parent = ParentEnd()                        # one for each worker, made before its process
    process = context.Process(target=work, args=(parent.worker_end, ...))
    process.start()
    parent.started(process)                     # from now on its death wakes whoever waits
    parent.send([tags, item, item, ...])        # from one thread
    results = parent.receive(timeout)           # from another one, or the same
    parent.close()                              # wakes both; the worker's calls then raise `PeerGone`

    def work(end, ...):                         # in the worker
        end.begin()
        while True:
            tags, *items = end.receive()
            ...
            end.send([tags, *results])

Rules, the same at both ends:

* One thread at a time may send, and one at a time may receive. Any thread may call ``close``, but no finalizer.
* A batch is one message: it arrives whole and in order, or not at all if its sender dies before ``send`` returned. One
  batch wakes the other side once, so put as many small items into one as there are. A large array in a batch is copied
  once, by ``send``.
* An array, tensor or buffer that is received is the receiver's own, to keep and to change. It may lie in memory that
  both processes share. That memory is given back when nobody refers to the content any more, and it stays valid for as
  long as somebody does, even after both ends are closed and the other process has ended.
* An item that cannot be pickled raises `ItemNotSent`, with its index, and nothing of its batch is sent. An item that
  cannot be unpickled arrives as a `NotReadable` in its place: the other items of the batch are not lost. So put what
  must arrive in any case, such as the numbers of the items, into an item of its own.
* Messages that were sent before a death can still be received. After the last one, `PeerGone` is raised. ``send``
  raises it at once.
* A channel holds a bounded number of bytes in small items. A sender that is ahead waits for its receiver. So if both
  sides may be ahead, receive and send in different threads, or bound the batches that are under way.
* Neither end works in a process that was forked from the one that made it or that began it: its calls raise a
  `RuntimeError`, and what the fork has inherited is closed there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import weakref
from math import ceil
from multiprocessing import Pipe, parent_process
from select import POLLIN, POLLOUT, poll
from struct import Struct
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from .item_pickler import ItemPickler
from .signals import ChannelClosed, ItemNotSent, NotReadable, PeerGone
from .watch import open_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

__all__ = ["ParentEnd", "WorkerEnd"]

_LENGTH = Struct("<Q")
_TAKE = 1 << 20


class _End:
    """What both ends can do."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._owner = os.getpid()
        self._signs: list[int] = []
        self._closed = False
        self._unread = bytearray()
        self._sending = Lock()
        self._receiving = Lock()

    def __getstate__(self) -> object:
        return self._connection

    def __setstate__(self, connection: Any) -> None:
        _End.__init__(self, connection)

    def send(self, items: Sequence[object], timeout: float | None = None) -> None:
        """Send a batch of items.

        Args:
            items: The items. They may be changed when this returns.
            timeout: Seconds that the other side may take to make room. None waits as long as it takes.

        Raises:
            ItemNotSent: If an item cannot be pickled. Nothing was sent.
            TimeoutError: If there was no room in time. Nothing was sent.
            PeerGone: If the other process has ended, or has closed its end.
            ChannelClosed: If this end is closed.
        """
        self._check()
        pickler = ItemPickler()
        parts: list[bytes] = []
        for index, item in enumerate(items):
            try:
                pickler.pickle(item)
            except Exception as error:
                raise ItemNotSent(index) from error
            group = (b"".join(pickler.pieces), *map(bytes, pickler.buffers))
            parts.append(pickle.dumps(group))
            pickler.clear()
        content = pickle.dumps(parts)
        message = memoryview(_LENGTH.pack(len(content)) + content)
        deadline = None if timeout is None else monotonic() + timeout
        with self._sending:
            while message:
                if not self._wait(POLLOUT, deadline):
                    raise PeerGone
                try:
                    message = message[os.write(self._connection.fileno(), message) :]
                except (BrokenPipeError, ConnectionResetError):
                    self._check()
                    raise PeerGone from None
                deadline = None

    def receive(self, timeout: float | None = None) -> list[Any]:
        """Receive the next batch.

        Args:
            timeout: Seconds to wait for it; 0 only looks whether there is one. None waits as long as it takes.

        Returns:
            The items of one ``send`` of the other side, with a `NotReadable` for each that could not be unpickled.

        Raises:
            TimeoutError: If there was none in time.
            PeerGone: If there will be none, since the other process has ended, or has closed its end.
            ChannelClosed: If this end is closed.
        """
        self._check()
        deadline = None if timeout is None else monotonic() + timeout
        with self._receiving:
            while not self._is_complete():
                if not self._wait(POLLIN, deadline):
                    raise PeerGone
                try:
                    read = os.read(self._connection.fileno(), _TAKE)
                except ConnectionResetError:
                    read = b""
                self._check()
                if not read:
                    raise PeerGone
                self._unread += read
        (length,) = _LENGTH.unpack_from(self._unread)
        content = bytes(self._unread[_LENGTH.size : _LENGTH.size + length])
        del self._unread[: _LENGTH.size + length]
        return [_load(part) for part in pickle.loads(content)]  # noqa: S301 - from our own process.

    def descriptors(self) -> list[int]:
        """Return descriptors one of which is readable when there is something to receive, or the other side is gone.

        They are for `select.poll`, of one thread for many channels. When one is readable, call ``receive(0)`` until it
        raises TimeoutError: a batch may have been read ahead.
        """
        return [self._connection.fileno(), *self._signs]

    def _is_complete(self) -> bool:
        have = len(self._unread) - _LENGTH.size
        return have >= 0 and have >= _LENGTH.unpack_from(self._unread)[0]

    def _wait(self, event: int, deadline: float | None) -> bool:
        """Wait until the connection is ready. Return False if the other side is gone and nothing is left to read."""
        signs = poll()
        signs.register(self._connection.fileno(), event)
        for sign in self._signs:
            signs.register(sign, POLLIN)
        left = None if deadline is None else ceil(max(0.0, deadline - monotonic()) * 1000)
        ready = dict(signs.poll(left))
        self._check()
        if not ready:
            raise TimeoutError
        return self._connection.fileno() in ready

    def _check(self) -> None:
        if self._closed:
            raise ChannelClosed
        if os.getpid() != self._owner:
            raise RuntimeError(
                "This end of a channel belongs to the process that this one was forked from. Start workers here, or do "
                "not use the object that owns them."
            )


class WorkerEnd(_End):
    """The worker's end of a channel. It is an argument of the worker's process, and nothing else."""

    def begin(self) -> None:
        """Take the end over, in the worker and before anything else. From now on the parent's death wakes it."""
        self._owner = os.getpid()
        os.set_inheritable(self._connection.fileno(), False)  # noqa: FBT003 - the argument has no name.
        parent = parent_process()
        assert parent is not None
        assert parent.pid is not None
        descriptor = open_process(parent.pid)
        self._signs = [fd for fd in (parent.sentinel, descriptor) if fd is not None]

    def close(self) -> None:
        """Close the end. The parent receives what was sent, and then raises `PeerGone`."""
        self._closed = True
        self._connection.close()


class ParentEnd(_End):
    """The parent's end of a channel to one worker, which makes the worker's end too."""

    def __init__(self) -> None:
        ours, theirs = Pipe()
        super().__init__(ours)
        os.set_blocking(ours.fileno(), False)
        self.worker_end = WorkerEnd(theirs)
        self._pidfd: int | None = None
        self._begun = False
        _LIVE.add(self)

    def started(self, process: BaseProcess) -> None:
        """Give the worker's end up, once its process runs, and watch over that process."""
        self.worker_end.close()
        self._begun = True
        assert process.pid is not None
        self._pidfd = open_process(process.pid)
        self._signs = [fd for fd in (process.sentinel, self._pidfd) if fd is not None]

    def close(self) -> None:
        """Close the channel. Threads that wait in ``send`` or ``receive`` raise `ChannelClosed`. May be repeated."""
        if os.getpid() == self._owner and not self._closed:
            self._closed = True
            with socket.socket(fileno=os.dup(self._connection.fileno())) as wakes, contextlib.suppress(OSError):
                wakes.shutdown(socket.SHUT_RDWR)
            with self._sending, self._receiving:
                self._close_descriptors()
            if not self._begun:
                self.worker_end.close()

    def forget(self) -> None:
        """Close what this process has inherited by being forked."""
        self._closed = True
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        self._connection.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _load(part: bytes) -> Any:
    pickled, *buffers = pickle.loads(part)  # noqa: S301 - from our own process.
    try:
        return pickle.loads(pickled, buffers=map(bytearray, buffers))  # noqa: S301
    except Exception as error:  # noqa: BLE001 - unpickling may run any code.
        return NotReadable(error)


_LIVE: weakref.WeakSet[ParentEnd] = weakref.WeakSet()


def _forget_all() -> None:
    for end in list(_LIVE):
        end.forget()


os.register_at_fork(after_in_child=_forget_all)

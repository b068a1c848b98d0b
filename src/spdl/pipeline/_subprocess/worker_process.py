"""The parent's side of a worker process: starts it, gives it orders, and makes sure that it ends."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import multiprocessing.util  # noqa: F401 - it registers its exit hook before ours, so ours runs first.
import os
from multiprocessing.connection import wait
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl.pipeline._transport.watch import open_process

from .inbox import Inbox
from .serve import Ends, serve
from .shared_file import SharedFile
from .wire import HEADER, UNBOUNDED, Order

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from .payload import Payload

__all__ = ["GRACE", "WorkerProcess"]

# Seconds that a worker has to end when it is asked to, before it is killed.
GRACE = 3.0

# Bytes that a pipe holds on Linux by default, and the most that can be requested without privileges.
_DEFAULT_CAPACITY = 1 << 16
_LARGEST_CAPACITY = UNBOUNDED * HEADER.size


class WorkerProcess:
    """A worker process, and our ends of the connection to it. It refers to nothing that the user holds.

    Args:
        context: The multiprocessing context that starts the process.
        payload: The work for the process.
        buffer_size: How many items may be under way.
        daemon: Whether it is a daemon in the sense of multiprocessing, which may have no children.
    """

    def __init__(self, context: BaseContext, payload: Payload, buffer_size: int, *, daemon: bool) -> None:
        self._owner = os.getpid()
        self._ending = RLock()
        self._under_way = False
        # How the process ended, in words; None while it runs.
        self.ended_how: str | None = None
        self._closed = False
        order_reader, self._orders = context.Pipe(duplex=False)
        self._messages, message_writer = context.Pipe(duplex=False)
        _enlarge(self._messages.fileno(), buffer_size)
        # Made last, since it does not close itself: the system may have no descriptor left for one of the pipes.
        self._file = SharedFile()
        self._pidfd: int | None = None
        ends = Ends(order_reader, message_writer, self._file)
        foreign = (self._orders, self._messages) if context.get_start_method() == "fork" else ()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on concrete contexts only.
        self.process = process_class(
            target=serve, args=(payload, ends, buffer_size, foreign), name="spdl_subprocess", daemon=daemon
        )
        try:
            self.process.start()
        except BaseException:
            self._close_ends()
            raise
        finally:
            order_reader.close()
            message_writer.close()
        self._pidfd = open_process(self.process.pid)
        self._signs: list[int] = [fd for fd in (self.process.sentinel, self._pidfd) if fd is not None]
        self.inbox = Inbox(self._messages.fileno(), self._file, self._signs)
        _LIVE.add(self)

    def is_ours(self) -> bool:
        """Return whether this is the process that started the worker, and not a fork of it."""
        return os.getpid() == self._owner

    def order(self, order: bytes) -> None:
        """Send an order. If the worker is gone, the order is lost, and the missing next message will show that."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._orders.fileno(), order)

    def end(self, grace: float = GRACE) -> None:
        """Ask the worker to end, and kill it after ``grace`` seconds. May be called repeatedly and from any thread."""
        if not self.is_ours():
            return
        with self._ending:
            # The garbage collector may run in here and call this again.
            if self.ended_how is not None or self._under_way:
                return
            self._under_way = True
            try:
                self.order(Order.QUIT)
                self._await_end(grace)
                if self.process.is_alive():
                    self.process.kill()
                self.process.join()
                code = self.process.exitcode
                self.ended_how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
            finally:
                self._under_way = False
        _LIVE.discard(self)

    def close(self, grace: float = GRACE) -> None:
        """End the worker and close the connection. No other thread may be receiving from it."""
        if not self.is_ours() or self._closed:
            return
        self.end(grace)
        if self.ended_how is None:
            return
        self._closed = True
        self._close_ends()
        self.process.close()

    def forget(self) -> None:
        """Close the connection that a forked process has inherited from its parent."""
        # A thread of the parent may have been reading from the file; it does not exist here.
        with contextlib.suppress(BufferError):
            self._close_ends()

    def _await_end(self, grace: float) -> None:
        deadline = monotonic() + grace
        messages = self._messages.fileno()
        while (left := deadline - monotonic()) > 0:
            # The worker may be blocked in a write, because nobody has read for a while.
            ready = wait([messages, *self._signs], left)
            if not ready or any(sign in ready for sign in self._signs):
                return
            with contextlib.suppress(BlockingIOError):
                if not os.read(messages, 1 << 16):
                    wait(self._signs, max(0.0, deadline - monotonic()))
                    return

    def _close_ends(self) -> None:
        self._orders.close()
        self._messages.close()
        self._file.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _enlarge(pipe: int, buffer_size: int) -> None:
    """Make a pipe hold a message for each item that may be under way, if the system allows it."""
    needed = min(buffer_size * HEADER.size, _LARGEST_CAPACITY)
    if needed > _DEFAULT_CAPACITY and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, needed)


_LIVE: WeakSet[WorkerProcess] = WeakSet()


def _forget_all() -> None:
    for worker in list(_LIVE):
        worker.forget()


def _end_all() -> None:
    workers = [worker for worker in _LIVE if worker.is_ours()]
    for worker in workers:
        worker.order(Order.QUIT)
    for worker in workers:
        worker.end()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)

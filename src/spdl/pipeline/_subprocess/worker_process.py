"""The parent's side of a worker process: starting it, asking it for items, and seeing that it ends."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import multiprocessing.util  # noqa: F401 - registered for the exit before this module: ours comes first then.
import os
from multiprocessing.connection import wait
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .inbox import Inbox
from .serve import Ends, serve
from .shared_file import SharedFile
from .watch import open_process
from .wire import HEADER, Order

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from .payload import Payload

__all__ = ["GRACE", "WorkerProcess"]

# How long a worker may take to end when it is asked to, before it is killed.
GRACE = 3.0

# What a pipe holds on Linux, and what one may be asked to hold without privileges.
_USUAL_ROOM = 1 << 16
_MOST_ROOM = 1 << 20


class WorkerProcess:
    """A process, and the ends of what connects us with it. It refers to nothing that the user holds.

    Args:
        context: Starts the process.
        payload: What it is to do.
        buffer_size: How many items may be under way.
        daemon: Whether it is one in the sense of multiprocessing: it may have no children then.
    """

    def __init__(self, context: BaseContext, payload: Payload, buffer_size: int, *, daemon: bool) -> None:
        self._owner = os.getpid()
        self._ending = RLock()
        self._under_way = False
        # In words; None before it has.
        self.ended_how: str | None = None
        self._closed = False
        order_reader, self._orders = context.Pipe(duplex=False)
        self._messages, message_writer = context.Pipe(duplex=False)
        _make_room(self._messages.fileno(), buffer_size)
        # Last, since it does not close itself: there may be no descriptor for one of them.
        self._file = SharedFile()
        self._pidfd: int | None = None
        ends = Ends(order_reader, message_writer, self._file)
        foreign = (self._orders, self._messages) if context.get_start_method() == "fork" else ()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on the concrete ones only.
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
        """Whether this is the process that started it, and not one forked from that."""
        return os.getpid() == self._owner

    def order(self, order: bytes) -> None:
        """Ask for something. A worker that is gone does not hear it: the next message will not come."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._orders.fileno(), order)

    def end(self, grace: float = GRACE) -> None:
        """Ask it to end, and kill it if it has not after ``grace`` seconds. May be called twice, and by any thread."""
        if not self.is_ours():
            return
        with self._ending:
            # The garbage collector may run in here, and with it whatever ends this one.
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
        """End it, and let go of what connected us with it. No other thread may be receiving from it."""
        if not self.is_ours() or self._closed:
            return
        self.end(grace)
        if self.ended_how is None:
            return
        self._closed = True
        self._close_ends()
        self.process.close()

    def forget(self) -> None:
        """Close what a forked process has inherited of a worker that is not its own."""
        # Another thread may have been about to read from the file; it does not exist here.
        with contextlib.suppress(BufferError):
            self._close_ends()

    def _await_end(self, grace: float) -> None:
        deadline = monotonic() + grace
        messages = self._messages.fileno()
        while (left := deadline - monotonic()) > 0:
            # It may stand in a write, because nobody has read for a while.
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


def _make_room(pipe: int, buffer_size: int) -> None:
    """Have a pipe hold a message for each item that may be under way, as far as the system lets us."""
    needed = min(buffer_size * HEADER.size, _MOST_ROOM)
    if needed > _USUAL_ROOM and hasattr(fcntl, "F_SETPIPE_SZ"):
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

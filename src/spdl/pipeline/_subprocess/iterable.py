"""An iterable whose items are made in a worker process."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

from spdl.pipeline._transport.signals import PeerGone

from .errors import WorkerError, WorkerTimeoutError
from .wire import Kind, Order, items_per_report, kind_of, number_of
from .worker_process import GRACE

if TYPE_CHECKING:
    from spdl.pipeline._transport.lane_reader import Message

    from .worker_interpreter import WorkerInterpreter
    from .worker_process import WorkerProcess

__all__ = ["SubprocessIterable", "SubprocessIterator"]

T = TypeVar("T")

# Seconds that a worker that was silent for too long has to end.
_GRACE_AFTER_SILENCE = 0.5


class SubprocessIterable(Generic[T]):
    """An iterable whose items are made in a worker process. Each ``iter()`` begins a new pass there.

    `iterate_in_subprocess` and `run_pipeline_in_subprocess` return it. Only one pass is under way at a time. A new pass
    ends the one before, whose iterator then raises.

    The worker ends when this object is garbage collected or closed, when the interpreter exits, and after any error.
    """

    def __init__(self, worker: WorkerProcess | WorkerInterpreter, buffer_size: int, timeout: float | None) -> None:
        self._worker = worker
        self._timeout = timeout
        self._items_per_report = items_per_report(buffer_size)
        # Only one thread at a time talks to the worker.
        self._lock = Lock()
        # How many passes were begun. Each message carries the number of its pass.
        self._number = 0
        # The latest pass that came to its end.
        self._complete = 0
        # How many items were taken since the last report to the worker.
        self._taken = 0
        # Why there is no worker any more.
        self._over = ""
        weakref.finalize(self, worker.close).atexit = False

    def await_ready(self) -> None:
        """Wait until the worker has made the iterable."""
        with self._lock:
            message = self._receive("start")
            if kind_of(message.number) == Kind.ERROR:
                self._raise_error(message)
            self._worker.inbox.skip(message)

    def __iter__(self) -> SubprocessIterator[T]:
        self._check_owner()
        with self._lock:
            self._check()
            self._number += 1
            self._taken = 0
            self._worker.order(Order.ITERATE)
            return SubprocessIterator(self, self._number)

    def close(self) -> None:
        """End the worker process. Items under way are lost. Code of yours that runs there has 3 seconds to end."""
        self._over = self._over or "it was closed"
        self._worker.end()
        # This has woken a thread that waited for an item, so the lock is soon free.
        with self._lock:
            self._worker.close()

    def _check_owner(self) -> None:
        # Checked before taking the lock, which another thread may have held at the fork.
        if not self._worker.is_ours():
            raise RuntimeError(
                "The worker process belongs to the process that this one was forked from. Start one here, or do not "
                "share it."
            )

    def _check(self) -> None:
        if self._over:
            raise RuntimeError(f"The worker process is shutdown. Cannot iterate again: {self._over}.")

    def next_of(self, number: int) -> T:
        """Return the next item of the pass, or raise StopIteration."""
        inbox = self._worker.inbox
        self._check_owner()
        with self._lock:
            # Another thread may have taken the last item.
            if number == self._complete:
                raise StopIteration
            self._check()
            if number != self._number:
                raise RuntimeError(
                    "A later pass over the same worker process has ended this one: only one is under way at a time. "
                    "Start another worker process for the other loop."
                )
            while True:
                message = self._receive("produce")
                kind = kind_of(message.number)
                if message.number != number_of(number, kind) and kind != Kind.ERROR:
                    # It belongs to a loop that the parent has left.
                    inbox.skip(message)
                    continue
                if kind == Kind.ITEM:
                    return self._load(message)
                if kind == Kind.END:
                    inbox.skip(message)
                    self._complete = number
                    raise StopIteration
                self._raise_error(message)

    def _load(self, message: Message) -> T:
        try:
            item: T = self._worker.inbox.load_item(message)
        except Exception as error:
            error.add_note("The worker subprocess was ended. Failed to unpickle an item that it had sent.")
            self._end(f"an item could not be unpickled: {error}")
            raise
        finally:
            if not self._over:
                self._took()
        return item

    def _took(self) -> None:
        self._taken += 1
        if self._taken == self._items_per_report:
            self._taken = 0
            self._worker.order(Order.TAKEN)

    def stop(self, number: int) -> None:
        """End the pass if it is still under way, because the loop over it was left."""
        # Called by a finaliser, which may interrupt any code, so it must not wait. A new pass ends this one anyway.
        if self._lock.acquire(blocking=False):
            try:
                under_way = number == self._number != self._complete
                if under_way and not self._over and self._worker.is_ours():
                    self._worker.order(Order.STOP)
            finally:
                self._lock.release()

    def _receive(self, what: str) -> Message:
        try:
            return self._worker.inbox.receive(self._timeout)
        except TimeoutError:
            message = f"The worker subprocess did not produce any data for {self._timeout:g} seconds."
            self._end(message[:-1], _GRACE_AFTER_SILENCE)
            raise WorkerTimeoutError(
                f"{message} It was ended. Give a longer `timeout` if it needs that long to {what}."
            ) from None
        except PeerGone:
            if self._over:
                self._check()
            self._end("it exited unexpectedly")
            hint = ""
            if what == "start":
                hint = (
                    " It had not begun to work; stderr may say why. Processes that are not forked import the main "
                    "module, so code that starts processes belongs under `if __name__ == '__main__':` there."
                )
            raise RuntimeError(f"The worker subprocess exited unexpectedly ({self._worker.ended_how}).{hint}") from None

    def _raise_error(self, message: Message) -> NoReturn:
        error: WorkerError = self._worker.inbox.load_item(message)
        self._end(f"{error.what}: {error.raised.description}")
        raise error.unpack()

    def _end(self, why: str, grace: float = GRACE) -> None:
        self._over = self._over or why
        self._worker.close(grace)


class SubprocessIterator(Generic[T]):
    """One pass over a `SubprocessIterable`."""

    def __init__(self, iterable: SubprocessIterable[T], number: int) -> None:
        self._iterable = iterable
        self._number = number
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        try:
            return self._iterable.next_of(self._number)
        except StopIteration:
            self._ended = True
            raise

    def __del__(self) -> None:
        if not self._ended:
            self._iterable.stop(self._number)

"""An iterable whose items are made in a worker process."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

from .errors import Trouble, WorkerTimeoutError
from .inbox import WorkerGone
from .wire import Kind, Order, step
from .worker_process import GRACE

if TYPE_CHECKING:
    from .wire import Header
    from .worker_process import WorkerProcess

__all__ = ["SubprocessIterable", "SubprocessIterator"]

T = TypeVar("T")

# How long a worker that was silent for too long may still take to end.
_GRACE_AFTER_SILENCE = 0.5


class SubprocessIterable(Generic[T]):
    """What `iterate_in_subprocess` and `run_pipeline_in_subprocess` return: ``iter()`` begins a pass in the worker.

    One pass is under way at a time. A new one ends the one before it, whose iterator then raises.

    The worker ends when this is garbage collected, when the interpreter exits, at `close`, and after any error.
    """

    def __init__(self, worker: WorkerProcess, buffer_size: int, timeout: float | None) -> None:
        self._worker = worker
        self._timeout = timeout
        self._step = step(buffer_size)
        # One thread at a time talks with the worker.
        self._lock = Lock()
        # How many passes were begun. Messages bear the number of theirs.
        self._number = 0
        # The latest one that came to its end.
        self._complete = 0
        # What was taken and the worker does not know of.
        self._taken = 0
        # Why there is no worker any more.
        self._over = ""
        weakref.finalize(self, worker.close).atexit = False

    def await_ready(self) -> None:
        """Wait until the worker has made what it iterates."""
        with self._lock:
            header = self._receive("start")
            if header.kind == Kind.ERROR:
                self._raise_trouble(header)
            self._worker.inbox.skip(header)

    def __iter__(self) -> SubprocessIterator[T]:
        self._check_owner()
        with self._lock:
            self._check()
            self._number += 1
            self._taken = 0
            self._worker.order(Order.ITERATE)
            return SubprocessIterator(self, self._number)

    def close(self) -> None:
        """End the worker process. What it has under way is given up; code of yours that runs there has 3 seconds."""
        self._over = self._over or "it was closed"
        self._worker.end()
        # Whoever waited for an item has been told by that.
        with self._lock:
            self._worker.close()

    def _check_owner(self) -> None:
        # Before the lock is asked for, which may have been held by another thread at the fork.
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
                header = self._receive("produce")
                if header.number != number and header.kind != Kind.ERROR:
                    # The parent has left the loop that this was for.
                    inbox.skip(header)
                    continue
                if header.kind == Kind.ITEM:
                    return self._load(header)
                if header.kind == Kind.END:
                    inbox.skip(header)
                    self._complete = number
                    raise StopIteration
                self._raise_trouble(header)

    def _load(self, header: Header) -> T:
        try:
            item: T = self._worker.inbox.load(header)
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
        if self._taken == self._step:
            self._taken = 0
            self._worker.order(Order.TAKEN)

    def stop(self, number: int) -> None:
        """End the pass if it is still under way: whoever iterated has left the loop."""
        # From a finaliser, which may run inside anything: it must not wait. A new pass ends this one in any case.
        if self._lock.acquire(blocking=False):
            try:
                under_way = number == self._number != self._complete
                if under_way and not self._over and self._worker.is_ours():
                    self._worker.order(Order.STOP)
            finally:
                self._lock.release()

    def _receive(self, what: str) -> Header:
        try:
            return self._worker.inbox.receive(self._timeout)
        except TimeoutError:
            message = f"The worker subprocess did not produce any data for {self._timeout:g} seconds."
            self._end(message[:-1], _GRACE_AFTER_SILENCE)
            raise WorkerTimeoutError(
                f"{message} It was ended. Give a longer `timeout` if it needs that long to {what}."
            ) from None
        except WorkerGone:
            if self._over:
                self._check()
            self._end("it exited unexpectedly")
            hint = ""
            if what == "start":
                hint = (
                    " It had not begun to work; stderr may say why. Processes that are not forked import the main "
                    "module: what starts others belongs under `if __name__ == '__main__':` there."
                )
            raise RuntimeError(f"The worker subprocess exited unexpectedly ({self._worker.ended_how}).{hint}") from None

    def _raise_trouble(self, header: Header) -> NoReturn:
        trouble: Trouble = self._worker.inbox.load(header)
        self._end(f"{trouble.what}: {trouble.raised.description}")
        raise trouble.unpack()

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

"""The connection of a pipeline with one worker of a region: a channel to a process, an interpreter or threads.

How code that runs workers uses it::

    parent = ParentEnd()                        # one for each worker, made before its process
    process = context.Process(target=work, args=(parent.worker_end, ...))
    process.start()
    parent.worker_end.close()                   # the process has its own
    parent.started([process.sentinel])          # from now on its death wakes the thread that waits
    parent.send([tags, item, item, ...])        # from one thread
    results = parent.receive(timeout)           # from another one, or the same
    parent.close()                              # wakes both; the worker's calls then raise `PeerGone`

    def work(end, ...):                         # in the worker
        end.begin()
        while True:
            tags, *items = end.receive()
            ...
            end.send([tags, *results])

Rules, the same at both ends, wherever the worker is. Between threads, the receiver gets the objects themselves.

* One thread at a time may send, and one at a time may receive. Any thread may call ``close``, but no finalizer.
* A batch is one message: it arrives whole and in order, or not at all if its sender dies before ``send`` returned. One
  batch wakes the other side once, so put as many small items into one as there are.
* An array, tensor or buffer is copied once, by ``send``, unless it lies in memory of `shared_storage`. What is received
  is the receiver's own, to keep and to change, and stays valid for as long as something refers to it.
* An item that cannot be pickled raises `ItemNotSent`, with its index, and nothing of its batch is sent. An item that
  cannot be unpickled arrives as a `NotReadable` in its place. So put what must arrive in any case, such as the numbers
  of the items, into a separate item.
* Messages that were sent before a death can still be received. After the last one, `PeerGone` is raised. ``send``
  raises it when it waits for room, so listen too.
* A channel holds 256 KiB of small items, and any number of large ones. A sender that is ahead waits for its receiver.
  So if both sides may be ahead, receive and send in different threads, or bound the batches that are under way.
* To an interpreter, an array arrives as a memoryview, and a memoryview from there as an array: numpy cannot be imported
  there.
* In a process that was forked from the one that made it, the parent's end is closed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from multiprocessing import parent_process
from select import POLLIN, poll
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

from spdl._processes import renew_in_children
from spdl.pipeline._elsewhere.item_pickling import general_reducers, reducers_from_interpreter, reducers_to_interpreter
from spdl.pipeline._elsewhere.lane import ChannelClosed, LaneEnds, LaneReader, PeerGone, make_lane
from spdl.pipeline._elsewhere.lane_writer import LaneWriter, serve_storage
from spdl.pipeline._elsewhere.memory import Counter
from spdl.pipeline._stages.process_work import open_process

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.item_pickling import Reducers


class _ChannelEnd:
    def __init__(self, out: LaneEnds, into: LaneEnds) -> None:
        self._out = out
        self._into = into
        self._owner = os.getpid()
        self._writer: LaneWriter | None = None
        self._reader: LaneReader | None = None
        # Descriptors that become readable when the other process ends.
        self._signs: list[int] = []
        self._closed = False
        # Wakes the thread that waits for the end of all.
        self._ended: Counter | None = None
        self._sending = Lock()
        self._receiving = Lock()
        self._closing = Lock()

    def send(self, items: Sequence[object]) -> None:
        """Send a batch of items, which may be changed when this returns. It waits until there is room.

        Raises:
            ItemNotSent: If an item cannot be pickled. Nothing was sent.
            PeerGone: If the other process has ended, or has closed its end, and there is no room left.
            ChannelClosed: If this end is closed.
            OSError: If the system does not have enough memory. Nothing was sent.
        """
        with self._sending:
            writer = self._writer
            if writer is None or self._closed:
                raise ChannelClosed
            writer.send(0, items)

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
        with self._receiving:
            reader = self._reader
            if reader is None or self._closed:
                raise ChannelClosed
            message = reader.receive(timeout)
            if self._closed:
                # The wake-up was not for a message.
                raise ChannelClosed
            return reader.load(message)

    def has_room(self) -> bool:
        """Return whether a batch, or two, can be sent without waiting. The thread that asks is the one who sends."""
        writer = self._writer
        return writer is not None and not self._closed and writer.has_room()

    def await_end(self) -> None:
        """Wait until the other process has ended, or either end is closed. It may be waited for beside all else."""
        with self._closing:
            if self._closed:
                return
            ended = self._ended = Counter()
            signs = poll()
            for fd in (ended.fd, *self._signs):
                signs.register(fd, POLLIN)
            # If the other end of the pipe was closed, that is reported although nothing is asked for.
            signs.register(self._out.returns, 0)
        try:
            signs.poll()
        finally:
            with self._closing:
                self._ended = None
                ended.close()

    def descriptors(self) -> list[int]:
        """Return descriptors. One is readable when there is something to receive, or the other side is gone.

        They are for `select.poll`, of one thread for many channels. When one is readable, call ``receive(0)`` until it
        raises TimeoutError: a batch may have been read ahead.
        """
        return [self._into.sent.fd, *self._signs]

    def _open(self, signs: list[int], reducers: Reducers = general_reducers) -> LaneWriter:
        self._signs = signs
        writer = self._writer = LaneWriter(self._out, signs, self._on_sign, reducers=reducers)
        self._reader = LaneReader(self._into, signs)
        return writer

    def _on_sign(self) -> None:
        raise ChannelClosed if self._closed else PeerGone

    def close(self) -> None:
        """Close the end, which the threads that wait at it leave by `ChannelClosed`. May be repeated.

        The other side receives what was sent, and then raises `PeerGone`.
        """
        if os.getpid() != self._owner:
            return
        # Another thread may close it at the same time, and other files soon get the numbers of closed descriptors.
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if self._writer is not None:
                self._into.sent.add(1)
                self._writer.interrupt()
            with self._sending, self._receiving:
                if self._ended is not None:
                    self._ended.add(1)
                self._close_handles()

    def _close_handles(self) -> None:
        self._signs = []
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        (self._out if writer is None else writer).close()
        (self._into if reader is None else reader).close()


class WorkerEnd(_ChannelEnd):
    """The worker's end of a channel. It can be pickled only as an argument of the worker's process."""

    def __getstate__(self) -> object:
        return self._out, self._into

    def __setstate__(self, state: Any) -> None:
        _ChannelEnd.__init__(self, *state)

    def numbers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return what `begin_in_interpreter` takes: numbers, which another interpreter of this process can be given."""
        return self._out.numbers(), self._into.numbers()

    @classmethod
    def begin_in_interpreter(cls, out: Sequence[int], into: Sequence[int]) -> WorkerEnd:
        """Return the end, in a worker that is another interpreter, with its own descriptors."""
        end = cls(LaneEnds.copy_of(out), LaneEnds.copy_of(into))
        # Both ends are in one process, so there is no other process whose death would wake this end.
        serve_storage(end._open([], reducers_from_interpreter))
        return end

    def begin(self) -> None:
        """Take the end over, in the worker and before anything else. From now on the parent's death wakes it."""
        self._owner = os.getpid()
        parent = parent_process()
        assert parent is not None
        assert parent.pid is not None
        descriptor = open_process(parent.pid)
        serve_storage(self._open([fd for fd in (parent.sentinel, descriptor) if fd is not None]))


class ParentEnd(_ChannelEnd):
    """The parent's end of a channel to one worker, which makes the worker's end too."""

    def __init__(self) -> None:
        out, worker_into = make_lane()
        try:
            worker_out, into = make_lane()
        except BaseException:
            out.close()
            worker_into.close()
            raise
        super().__init__(out, into)
        self.worker_end = WorkerEnd(worker_out, worker_into)
        renew_in_children(self)

    def started(self, signs: list[int], *, in_interpreter: bool = False) -> None:
        """Begin, once the worker runs. Whoever has started it closes the worker's end here."""
        self._open(signs, reducers_to_interpreter if in_interpreter else general_reducers)

    def _renew(self) -> None:
        """Close what this process has inherited by being forked."""
        if not self._closed:
            self._closed = True
            self._close_handles()


# Messages that wait at most on each way. A worker need not wait for each to be read, and not be far ahead either.
_CAPACITY = 4


class _Way:
    def __init__(self) -> None:
        self.messages: deque[list[Any]] = deque()
        # Opened at each change.
        self.changed = Condition()
        # The sender has closed its end, or the receiver has.
        self.no_more = self.unwanted = False

    def end(self) -> None:
        """Note that nothing more will be sent. Called with ``changed`` held, as all here."""
        self.no_more = True
        self.changed.notify_all()

    def refuse(self) -> list[list[Any]]:
        """Note that nothing more is wanted. Return what was sent and not received."""
        self.unwanted = True
        self.changed.notify_all()
        refused = list(self.messages)
        self.messages.clear()
        return refused


class ThreadEnd:
    """One end of a channel to threads of this process, with the methods of the others.

    If the other end waits for many channels, ``wakes`` becomes readable for it when ``out`` changes.
    """

    def __init__(self, out: _Way, into: _Way, wakes: Counter | None, woken: Counter | None) -> None:
        self._out = out
        self._into = into
        self._wakes = wakes
        self._woken = woken
        self._owner = os.getpid()

    def send(self, items: Sequence[object]) -> None:
        out = self._out
        with out.changed:
            out.changed.wait_for(lambda: len(out.messages) < _CAPACITY or out.no_more or out.unwanted)
            if out.no_more:
                raise ChannelClosed
            if out.unwanted:
                raise PeerGone
            out.messages.append(list(items))
            out.changed.notify_all()
            self._wake()

    def receive(self, timeout: float | None = None) -> list[Any]:
        into = self._into
        with into.changed:
            if not into.messages and timeout != 0:
                into.changed.wait_for(lambda: into.messages or into.no_more or into.unwanted, timeout=timeout)
            if into.unwanted:
                raise ChannelClosed
            if into.messages:
                into.changed.notify_all()
                return into.messages.popleft()
            if into.no_more:
                raise PeerGone
            if self._woken is not None:
                self._woken.take()
            raise TimeoutError

    def has_room(self) -> bool:
        out = self._out
        return len(out.messages) + 2 <= _CAPACITY and not (out.no_more or out.unwanted)

    def await_end(self) -> None:
        into = self._into
        with into.changed:
            into.changed.wait_for(lambda: into.no_more or into.unwanted)

    def descriptors(self) -> list[int]:
        return [] if self._woken is None else [self._woken.fd]

    def close(self) -> None:
        if os.getpid() != self._owner:
            # The other end is not in this process.
            return
        with self._into.changed:
            dropped = self._into.refuse()
            woken, self._woken = self._woken, None
        with self._out.changed:
            self._out.end()
            self._wake()
            wakes, self._wakes = self._wakes, None
        for counter in (woken, wakes):
            if counter is not None:
                counter.close()
        # Without a lock, since that may run user code.
        del dropped

    def _wake(self) -> None:
        if self._wakes is not None:
            self._wakes.add(1)


def make_thread_channel() -> tuple[ThreadEnd, ThreadEnd]:
    """Make a channel, and return the pipeline's end and the worker's."""
    there, back = _Way(), _Way()
    woken = Counter()
    try:
        wakes = Counter(os.dup(woken.fd))
    except BaseException:
        woken.close()
        raise
    return ThreadEnd(there, back, None, woken), ThreadEnd(back, there, wakes, None)

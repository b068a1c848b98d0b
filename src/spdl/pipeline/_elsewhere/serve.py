"""The main function of a worker process: makes an iterable, and iterates it whenever the parent asks.

The parent gives orders of one byte each, by a pipe. The worker answers with messages in a lane.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from multiprocessing import parent_process
from select import POLLIN, poll
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spdl.pipeline._declare.op import place_of
from spdl.pipeline._elsewhere.arena import Room
from spdl.pipeline._elsewhere.item_pickling import general_reducers, reducers_from_interpreter
from spdl.pipeline._elsewhere.lane import ItemNotSent, LaneEnds
from spdl.pipeline._elsewhere.lane_writer import LaneWriter, serve_storage
from spdl.pipeline._elsewhere.worker_messages import Fault
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.failures import Diagnosed, PipelineFailure
from spdl.pipeline._stages.process_work import Raised, WorkerTraceback, end_with, ignore_ctrl_c, pack, pack_error

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl.pipeline._elsewhere.arena import ArenaBound


class ParentOrder:
    # Begin a pass, whatever is under way.
    ITERATE = b"i"
    # End the pass that is under way.
    STOP = b"s"
    # Items were received, as many as `items_per_report` says.
    TAKEN = b"t"
    # End the process.
    QUIT = b"q"


class MessageKind(IntEnum):
    READY = 0
    ITEM = 1
    END = 2
    ERROR = 3


# A message's number is the number of its pass, with its kind in the lowest bits.
_KIND_BITS = 2
_NUMBERS = 1 << 31


def number_of(number: int, kind: int) -> int:
    return (number << _KIND_BITS | kind) % _NUMBERS


def kind_of(number: int) -> int:
    return number & (1 << _KIND_BITS) - 1


# The buffer size that stands for no bound.
UNBOUNDED = 1 << 15

# Bytes in the ring of a small item, generously, and of the smallest ring, for large items.
_SMALL = 128
_LEAST_RING = 1 << 18

# More items per report would let the worker wait while the parent is busy with items that it has.
_MOST_PER_REPORT = 256


def ring_size(buffer_size: int) -> int:
    """Return the bytes of a ring that holds that many small items."""
    return max(_LEAST_RING, 1 << (buffer_size * _SMALL - 1).bit_length())


def items_per_report(buffer_size: int) -> int:
    """Return how many items the parent takes between its reports. A report costs more than taking a small item."""
    return max(1, min(buffer_size // 8, _MOST_PER_REPORT))


class WorkerTimeoutError(RuntimeError, TimeoutError):
    """Raised when a worker process sends nothing for too long."""


class WorkerError(NamedTuple):
    """An exception of the worker, and a sentence that says what failed there."""

    what: str
    raised: Raised
    # The exceptions of a failed pipeline, packed one by one: one that cannot be pickled must not hide the others.
    members: list[Fault] | None

    @classmethod
    def of(cls, what: str, error: BaseException) -> WorkerError:
        members = None
        if isinstance(error, PipelineFailure):
            members = [Fault.of(None, member, pack_error) for member in error.exceptions]
        return cls(what, pack_error(error), members)

    def unpack(self) -> Exception | Diagnosed:
        """Return the exception, with the worker's traceback as its cause. It keeps its type if it can be pickled."""
        note = f"The worker subprocess quit. {self.what}"
        if self.members is not None:
            error: BaseException = PipelineFailure([("", member.unpack()) for member in self.members])
            error.__cause__ = WorkerTraceback(self.raised.traceback)
        else:
            error = self.raised.unpack()
        if isinstance(error, Diagnosed):
            return error
        if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
            error.add_note(f"{note}.")
            return error
        # Any other exception would end this process, or a loop, without saying why.
        wrapped = RuntimeError(f"{note}: {self.raised.description}")
        wrapped.__cause__ = error
        return wrapped


class Payload:
    """A value for a child process.

    A child that is not forked unpickles its arguments before any of our code runs. An error there goes to stderr and
    is lost. So the value travels as a pickle within the pickle, and `load` unpickles it.
    """

    def __init__(self, value: Any, pickled: bytes | None = None) -> None:
        self._value = value
        self._pickled = pickled

    def __reduce__(self) -> tuple[Any, ...]:
        return Payload, (None, pack(self._value))

    def load(self) -> Any:
        """Return the value and forget it, so that it can end before its process. Unpickling may run any code."""
        value, pickled, self._value, self._pickled = self._value, self._pickled, None, None
        return value if pickled is None else pickle.loads(pickled)  # noqa: S301 - from our own parent process.


class Dismissed(Exception):  # noqa: N818 - not an error: the worker is no longer needed.
    """Raised when the parent has asked the worker to end, is gone, or has received an error, after which it ends."""


class _PassAbandoned(Exception):  # noqa: N818 - not an error: the parent has left the pass.
    """Raised to end the sending of an item that is no longer wanted."""


class IterableOutbox:
    """Sends the items of one pass after the other. Methods raise Dismissed if the parent wants no more passes."""

    def __init__(
        self, orders: int, lane: LaneEnds, buffer_size: int, bound: ArenaBound | None, *, in_interpreter: bool = False
    ) -> None:
        self._orders = orders
        self._writer = LaneWriter(
            lane,
            [orders],
            self._take_orders_meanwhile,
            None if bound is None else Room(bound),
            reducers=reducers_from_interpreter if in_interpreter else general_reducers,
        )
        serve_storage(self._writer)
        self._buffer_size = buffer_size
        self._items_per_report = items_per_report(buffer_size)
        self._poll = poll()
        self._poll.register(orders, POLLIN)
        # How many passes were begun, and how many requested. The number of a pass tells its messages from older ones.
        self._number = 0
        self._requested = 0
        # True while the parent still iterates the latest pass that it requested.
        self._wanted = False
        self._sends_item = False
        self._credits = 0

    def await_pass(self) -> None:
        """Wait until the parent requests a pass, and begin it."""
        while self._requested == self._number:
            self._take_orders()
        self._number = self._requested
        self._credits = self._buffer_size
        self._writer.trim()

    def is_wanted(self) -> bool:
        """Return whether the parent still wants the pass that is under way."""
        while self._poll.poll(0):
            self._take_orders()
        return self._is_current()

    def _is_current(self) -> bool:
        return self._wanted and self._requested == self._number

    def send_item(self, item: object) -> bool:
        """Send an item once the parent has taken enough. Return False if the parent has left the pass.

        If pickling raises, nothing was sent.
        """
        while not self._credits:
            if not self._is_current():
                return False
            self._take_orders()
        self._sends_item = True
        try:
            self.send(MessageKind.ITEM, item)
        except _PassAbandoned:
            return False
        finally:
            self._sends_item = False
        self._credits -= 1
        return True

    def close(self) -> None:
        self._writer.close()

    def send(self, kind: MessageKind, content: object = None) -> None:
        """Send a message, which other than an item must be picklable."""
        try:
            self._writer.send(number_of(self._number, kind), (content,))
        except ItemNotSent as not_sent:
            raise not_sent.error from None

    def _take_orders_meanwhile(self) -> None:
        self._take_orders()
        if self._sends_item and not self._is_current():
            raise _PassAbandoned

    def _take_orders(self) -> None:
        orders = os.read(self._orders, 4096)
        if not orders or ParentOrder.QUIT in orders:
            raise Dismissed
        for order in orders:
            if order == ParentOrder.ITERATE[0]:
                self._requested += 1
                self._wanted = True
            elif order == ParentOrder.STOP[0]:
                self._wanted = False
            elif self._requested == self._number:
                self._credits += self._items_per_report


# Seconds that a worker has to end in order when its parent is gone.
_GRACE = 1.0


def serve(
    payload: Payload, orders: Connection, lane: LaneEnds, buffer_size: int, bound: ArenaBound | None, *, forked: bool
) -> None:
    """Work in a process until the parent wants no more passes."""
    for fd in (orders.fileno(), *lane.descriptors()):
        # Programs that the user's code starts must not keep them open.
        os.set_inheritable(fd, False)  # noqa: FBT003 - the argument has no name.
    ignore_ctrl_c()
    if forked and (torch := sys.modules.get("torch")):
        # Torch's threads were not forked, so work that it gives them would never be done.
        torch.set_num_threads(1)
    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    end_with(parent.pid, orders.fileno(), grace=_GRACE)
    work(IterableOutbox(orders.fileno(), lane, buffer_size, bound), payload)


def work(outbox: IterableOutbox, payload: Payload) -> None:
    """Make the iterable, and iterate it until the parent wants no more passes."""
    with suppress(Dismissed):
        iterable = _make(outbox, payload)
        try:
            outbox.send(MessageKind.READY)
            _iterate(outbox, iterable)
        finally:
            _close(iterable)


@contextmanager
def _reporting_errors(outbox: IterableOutbox, what: str) -> Iterator[None]:
    try:
        yield
    except Dismissed:
        raise
    except BaseException as error:  # noqa: BLE001 - anything that the user's code raises is reported.
        _report_error(outbox, what, error)


def _report_error(outbox: IterableOutbox, what: str, error: BaseException) -> NoReturn:
    outbox.send(MessageKind.ERROR, WorkerError.of(what, error))
    raise Dismissed from error


def _make(outbox: IterableOutbox, payload: Payload) -> Iterable[Any]:
    with _reporting_errors(outbox, "Failed to receive its work"):
        fn, initializers = payload.load()
    for initializer in initializers:
        with _reporting_errors(outbox, "Initializer failed"):
            initializer()
    with _reporting_errors(outbox, "Failed to create the iterable"):
        iterable = fn()
        if not isinstance(iterable, Iterable):
            raise TypeError(f"`fn` must return an iterable, got {type(iterable).__name__!r} from {place_of(fn)}.")
    return iterable


def _iterate(outbox: IterableOutbox, iterable: Iterable[Any]) -> None:
    first = True
    while True:
        outbox.await_pass()
        with _reporting_errors(outbox, "Failed to create the iterator"):
            if not first and isinstance(iterable, GeneratorType):
                raise iterated_twice("`fn` returned an iterable that", iterable)
            iterator = iter(iterable)
        try:
            count = _run_pass(outbox, iterator)
        finally:
            if iterator is not iterable:
                with _reporting_errors(outbox, "Failed to close the iterator"):
                    _close(iterator)
        with _reporting_errors(outbox, "Failed to fetch the next item"):
            if count == 0 and not first and (iterator is iterable or isinstance(iterable, Pipeline)):
                raise iterated_twice("`fn` returned an iterable that", iterable)
        if count is not None:
            outbox.send(MessageKind.END)
        first = False


def _run_pass(outbox: IterableOutbox, iterator: Iterator[Any]) -> int | None:
    """Send the iterator's items. Return how many there were, or None if the parent left the pass early."""
    # Not with `_reporting_errors`, which costs half as much as sending a small item.
    count = 0
    while outbox.is_wanted():
        try:
            item = next(iterator)
        except StopIteration:
            return count
        except BaseException as error:  # noqa: BLE001 - anything that the user's code raises is reported.
            _report_error(outbox, "Failed to fetch the next item", error)
        try:
            if not outbox.send_item(item):
                return None
        except Dismissed:
            raise
        except BaseException as error:  # noqa: BLE001 - anything that pickling raises is reported.
            kind = type(item).__name__
            what = f"Failed to send item {count} of the pass, of type {kind!r}: items are pickled"
            _report_error(outbox, what, error)
        count += 1
        del item
    return None


def _close(iterable: object) -> None:
    """Close a generator, so that its ``finally`` blocks run, or any other iterable with a ``close()``."""
    close: Callable[[], object] | None = getattr(iterable, "close", None)
    if close is not None:
        close()


def iterated_twice(what: str, iterable: object) -> RuntimeError:
    return RuntimeError(
        f"{what} can be iterated only once, {place_of(iterable)}, and it was iterated again. Give one that can be "
        "iterated again, such as a list or an object whose `__iter__` makes a generator."
    )


def serve_interpreter(payload: bytes, orders: int, lane: Sequence[int], buffer_size: int) -> None:
    """Work in an interpreter: as `serve`, with the numbers of descriptors that it copies."""
    orders = os.dup(orders)
    ends = LaneEnds.copy_of(lane)
    outbox = IterableOutbox(orders, ends, buffer_size, None, in_interpreter=True)
    try:
        work(outbox, Payload(None, payload))
    finally:
        outbox.close()
        os.close(orders)

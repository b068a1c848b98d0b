"""The main function of a worker process: makes an iterable, and iterates it whenever the parent asks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spdl.pipeline._declare.op import place_of
from spdl.pipeline._pipeline.pipeline import Pipeline
from spdl.pipeline._transport.watch import end_with

from .errors import WorkerError
from .outbox import Dismissed, Outbox
from .wire import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from spdl.pipeline._transport.arena import Arena
    from spdl.pipeline._transport.lane import Ends as LaneEnds

    from .payload import Payload

__all__ = ["Ends", "serve", "work"]

# Seconds that a worker has to end in order when its parent is gone.
_GRACE = 1.0


class Ends(NamedTuple):
    """The worker's ends of the connection to its parent."""

    orders: Connection
    lane: LaneEnds
    arena: Arena | None


class _Quit(Exception):  # noqa: N818 - not an error: the parent has received one.
    """Raised to end the worker after it has reported an error."""


def serve(payload: Payload, ends: Ends, buffer_size: int, foreign: Sequence[Connection]) -> None:
    """Work until the parent wants no more passes.

    Args:
        payload: The function that makes the iterable, and the initializers.
        ends: The worker's ends of the connection.
        buffer_size: How many items may be under way.
        foreign: The parent's ends, which a forked worker has inherited.
    """
    for connection in foreign:
        connection.close()
    for fd in (ends.orders.fileno(), *ends.lane.descriptors(), *(ends.arena.descriptors() if ends.arena else ())):
        # Programs that the user's code starts must not keep them open.
        os.set_inheritable(fd, False)  # noqa: FBT003 - the argument has no name.
    # A terminal sends Ctrl-C to all processes; the parent then ends this one in order. Programs that are started here
    # would inherit SIG_IGN, but not a handler that does nothing.
    signal.signal(signal.SIGINT, lambda *_: None)
    if foreign and (torch := sys.modules.get("torch")):
        # Torch's threads were not forked, so work that it gives them would never be done.
        torch.set_num_threads(1)
    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    end_with(parent.pid, ends.orders.fileno(), grace=_GRACE)
    work(Outbox(ends.orders.fileno(), ends.lane, buffer_size, ends.arena), payload)


def work(outbox: Outbox, payload: Payload) -> None:
    """Make the iterable, and iterate it until the parent wants no more passes."""
    with suppress(Dismissed, _Quit):
        iterable = _make(outbox, payload)
        try:
            outbox.send(Kind.READY)
            _iterate(outbox, iterable)
        finally:
            _close(iterable)


@contextmanager
def _reporting_errors(outbox: Outbox, what: str) -> Iterator[None]:
    """Report any exception in the block to the parent."""
    try:
        yield
    except (Dismissed, _Quit):
        raise
    except BaseException as error:  # noqa: BLE001 - anything that the user's code raises is reported.
        _report_error(outbox, what, error)


def _report_error(outbox: Outbox, what: str, error: BaseException) -> NoReturn:
    outbox.send(Kind.ERROR, WorkerError.of(what, error))
    raise _Quit from error


def _make(outbox: Outbox, payload: Payload) -> Iterable[Any]:
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


def _iterate(outbox: Outbox, iterable: Iterable[Any]) -> None:
    first = True
    while True:
        outbox.await_pass()
        with _reporting_errors(outbox, "Failed to create the iterator"):
            if not first and isinstance(iterable, GeneratorType):
                raise _iterated_twice(iterable)
            iterator = iter(iterable)
        try:
            count = _run_pass(outbox, iterator)
        finally:
            if iterator is not iterable:
                with _reporting_errors(outbox, "Failed to close the iterator"):
                    _close(iterator)
        with _reporting_errors(outbox, "Failed to fetch the next item"):
            if count == 0 and not first and (iterator is iterable or isinstance(iterable, Pipeline)):
                raise _iterated_twice(iterable)
        if count is not None:
            outbox.send(Kind.END)
        first = False


def _run_pass(outbox: Outbox, iterator: Iterator[Any]) -> int | None:
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


def _iterated_twice(iterable: object) -> RuntimeError:
    return RuntimeError(
        f"`fn` returned an iterable that can be iterated only once, {place_of(iterable)}, and it was iterated again. "
        "Return one that can be iterated again, such as a list or an object whose `__iter__` makes a generator."
    )

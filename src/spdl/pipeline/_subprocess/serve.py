"""What runs in a worker process: it makes an iterable, and iterates it whenever it is asked to."""

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

from .errors import Trouble
from .outbox import Dismissed, Outbox
from .watch import end_with
from .wire import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from .payload import Payload
    from .shared_file import SharedFile

__all__ = ["Ends", "serve"]

# How long a worker whose parent is gone may take to end in order.
_GRACE = 1.0


class Ends(NamedTuple):
    """The worker's ends of what connects it with its parent."""

    orders: Connection
    messages: Connection
    file: SharedFile


class _Quit(Exception):  # noqa: N818 - it is no error: the parent was told of one.
    """The worker has told what went wrong, and ends."""


def serve(payload: Payload, ends: Ends, buffer_size: int, foreign: Sequence[Connection]) -> None:
    """Work until the parent wants no more.

    Args:
        payload: What to iterate: the function that makes it, and the initializers.
        ends: The worker's ends of the connection.
        buffer_size: How many items may be under way.
        foreign: The parent's ends, which a forked worker has inherited.
    """
    for connection in foreign:
        connection.close()
    for fd in (ends.orders.fileno(), ends.messages.fileno(), ends.file.fd):
        # A program that the user's code starts must not keep them open.
        os.set_inheritable(fd, False)  # noqa: FBT003 - it takes it in no other way.
    # Ctrl-C is sent to all processes at a terminal. The parent's ends this one in order. A handler that does nothing
    # is not handed on to programs that are started here, as SIG_IGN would be.
    signal.signal(signal.SIGINT, lambda *_: None)
    if foreign and (torch := sys.modules.get("torch")):
        # The threads that torch computes with were not forked, and whatever it gives them to do would never be done.
        torch.set_num_threads(1)
    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    end_with(parent.pid, ends.orders.fileno(), grace=_GRACE)
    outbox = Outbox(ends.orders.fileno(), ends.messages.fileno(), ends.file, buffer_size)
    with suppress(Dismissed, _Quit):
        iterable = _make(outbox, payload)
        try:
            outbox.send(Kind.READY)
            _iterate(outbox, iterable)
        finally:
            _close(iterable)


@contextmanager
def _telling(outbox: Outbox, what: str) -> Iterator[None]:
    """Tell the parent what goes wrong in here."""
    try:
        yield
    except (Dismissed, _Quit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is told.
        _tell(outbox, what, error)


def _tell(outbox: Outbox, what: str, error: BaseException) -> NoReturn:
    outbox.send(Kind.ERROR, Trouble.of(what, error))
    raise _Quit from error


def _make(outbox: Outbox, payload: Payload) -> Iterable[Any]:
    with _telling(outbox, "Failed to receive what it was to do"):
        fn, initializers = payload.load()
    for initializer in initializers:
        with _telling(outbox, "Initializer failed"):
            initializer()
    with _telling(outbox, "Failed to create the iterable"):
        iterable = fn()
        if not isinstance(iterable, Iterable):
            raise TypeError(f"`fn` must return an iterable, got {type(iterable).__name__!r} from {place_of(fn)}.")
    return iterable


def _iterate(outbox: Outbox, iterable: Iterable[Any]) -> None:
    first = True
    while True:
        outbox.await_pass()
        with _telling(outbox, "Failed to create the iterator"):
            if not first and isinstance(iterable, GeneratorType):
                raise _iterated_twice(iterable)
            iterator = iter(iterable)
        try:
            count = _run_pass(outbox, iterator)
        finally:
            if iterator is not iterable:
                with _telling(outbox, "Failed to close the iterator"):
                    _close(iterator)
        with _telling(outbox, "Failed to fetch the next item"):
            if count == 0 and not first and (iterator is iterable or isinstance(iterable, Pipeline)):
                raise _iterated_twice(iterable)
        if count is not None:
            outbox.send(Kind.END)
        first = False


def _run_pass(outbox: Outbox, iterator: Iterator[Any]) -> int | None:
    """Send what the iterator gives. Returns how many items that were, or None if the parent did not want them all."""
    # Without `_telling`, which costs half as much as sending a small item.
    count = 0
    while outbox.is_wanted():
        try:
            item = next(iterator)
        except StopIteration:
            return count
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is told.
            _tell(outbox, "Failed to fetch the next item", error)
        try:
            if not outbox.send_item(item):
                return None
        except Dismissed:
            raise
        except BaseException as error:  # noqa: BLE001 - as above.
            kind = type(item).__name__
            _tell(outbox, f"Failed to send item {count} of the pass, of type {kind!r}: items are pickled", error)
        count += 1
        del item
    return None


def _close(iterable: object) -> None:
    """Have a generator run what it has under ``finally``, and others likewise."""
    close: Callable[[], object] | None = getattr(iterable, "close", None)
    if close is not None:
        close()


def _iterated_twice(iterable: object) -> RuntimeError:
    return RuntimeError(
        f"`fn` returned what can be iterated only once, {place_of(iterable)}, and it was iterated again. Have it "
        "return an object that starts anew, such as a list or one whose `__iter__` makes a generator."
    )

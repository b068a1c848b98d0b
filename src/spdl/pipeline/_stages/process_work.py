"""Work in other processes: an op on some items with an outcome for each, and an eye on the parent."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import parent_process
from multiprocessing.reduction import ForkingPickler
from select import poll
from threading import Thread
from types import AsyncGeneratorType, CoroutineType, GeneratorType, NoneType
from typing import Any, NamedTuple

from spdl._counted import bytes_of_thread
from spdl.pipeline._report.failures import traceback_of, type_and_message
from spdl.pipeline._world import perf_counter, thread_time


class Done(NamedTuple):
    """The value that the op returned; ``several`` is set if it lists a generator's results."""

    value: Parcel
    several: bool

    def unpack(self) -> Any:
        value = unwrap(self.value)
        return iter(value) if self.several else value


class Raised(NamedTuple):
    """The exception that the op raised."""

    # None if the exception cannot be pickled, or not be made again from that.
    error: bytes | None
    description: str
    traceback: str

    def unpack(self) -> BaseException:
        """The exception, with the worker's traceback as its cause."""
        error: BaseException = RuntimeError(self.description)
        if self.error is not None:
            try:
                error = pickle.loads(self.error)  # noqa: S301 - as above.
            except BaseException:  # noqa: BLE001 - what it needs exists in the worker only. The description says the rest.
                error = RuntimeError(self.description)
        # A user's class may have its own idea of causes.
        with contextlib.suppress(Exception):
            error.__cause__ = WorkerTraceback(self.traceback)
        return error


class WorkerTraceback(Exception):  # noqa: N818 - it is only shown as the cause of an exception.
    """The traceback of an exception in another process, as text: frames cannot leave their process."""

    def __str__(self) -> str:
        return f"in a worker process\n{self.args[0]}"


# A value as pools exchange it: in a tuple if it cannot fail to be pickled and made again, or else as its pickle. A
# pickle is copied once more than the value itself on either side, which takes most of the time for large ones.
Parcel = tuple[Any] | bytes

_PLAIN = frozenset({bytes, bytearray, str, bool, int, float, complex, NoneType})

# If looking at more takes longer than pickling it.
_MOST_LOOKED_AT = 64

# A hand-over that has taken so long begins no more items, except for the first.
MOST_SECONDS = 0.005

# The outcomes of the items, or of the first of them, in their order, what each took, and the CPU seconds of all.
Report = tuple[list[Done | Raised], list[float], float, int]


def pack(value: object) -> bytes:
    """Pickle as multiprocessing does, which knows how to share sockets, and the tensors of some frameworks."""
    return bytes(ForkingPickler.dumps(value))


def wrap(value: object) -> Parcel:
    """Make a value fit to be sent: an item that cannot be is then no matter of the others' or of the pool's."""
    return (value,) if _is_plain(value, 2) else pack(value)


def unwrap(parcel: Parcel) -> Any:
    """The value again. Runs user code: whatever unpickling calls."""
    # It comes from our own process or worker, as all that pools exchange.
    return parcel[0] if type(parcel) is tuple else pickle.loads(parcel)  # type: ignore[arg-type] # noqa: S301


def _is_plain(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is list or kind is tuple:
        return depth > 0 and len(value) <= _MOST_LOOKED_AT and all(_is_plain(part, depth - 1) for part in value)
    if kind is dict:
        return (
            depth > 0
            and len(value) <= _MOST_LOOKED_AT
            and all(type(key) is str and _is_plain(part, depth - 1) for key, part in value.items())
        )
    numpy = sys.modules.get("numpy")
    # A record's fields may hold objects, and a dtype made by the user may hold metadata.
    return numpy is not None and kind is numpy.ndarray and value.dtype.isbuiltin == 1 and not value.dtype.hasobject


def work(op: Callable[[Any], Any], items: Sequence[Parcel]) -> Report:
    """Run the op on each item. An item that fails does not affect the others.

    Items are left over if this takes long, since the op has become slow: another process may be free to take them,
    and a pipeline that stops does not want them any more.
    """
    # Bytes that this thread read before the fork do not count.
    bytes_of_thread()
    cpu = thread_time()
    outcomes: list[Done | Raised] = []
    seconds: list[float] = []
    began = perf_counter()
    for item in items:
        begin = perf_counter()
        if outcomes and begin - began > MOST_SECONDS:
            break
        outcomes.append(_outcome(op, item))
        seconds.append(perf_counter() - begin)
    return outcomes, seconds, thread_time() - cpu, bytes_of_thread()


def _outcome(op: Callable[[Any], Any], item: Parcel) -> Done | Raised:
    try:
        value = op(unwrap(item))
        several = isinstance(value, GeneratorType)
        if several:
            value = list(value)
        elif isinstance(value, CoroutineType | AsyncGeneratorType):
            if isinstance(value, CoroutineType):
                value.close()
            raise TypeError(  # noqa: TRY301 - it is reported like an exception of the op.
                f"The op returned {type(value).__name__!r}, which cannot leave the process it runs in. Give an op "
                "that returns one no executor: it then runs on the pipeline's event loop."
            )
        return Done(wrap(value), several)
    except BaseException as error:  # noqa: BLE001 - it is raised again where the item came from.
        return pack_error(error)


def pack_error(error: BaseException) -> Raised:
    """Make an exception fit to leave its process, with its traceback as text."""
    text = traceback_of(error)
    packed = None
    try:
        # Many exceptions can be pickled but not made again, since their __init__ takes other arguments than `args`.
        packed = pack(error)
        if type(pickle.loads(packed)) is not type(error):  # noqa: S301 - as above.
            packed = None
    except BaseException:  # noqa: BLE001 - whatever the exception's own class does.
        packed = None
    return Raised(packed, type_and_message(error), text)


def ignore_ctrl_c() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the parent, which then ends this one in order."""
    # Programs that are started here would inherit SIG_IGN, but not a handler that does nothing.
    signal.signal(signal.SIGINT, lambda *_: None)


def open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None if the system has none.

    Multiprocessing uses pipes for this, but they stay open in every process that was forked since.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # It has ended, or the system does not allow it.
        return None


def end_with(pid: int, *pipes: int, grace: float) -> None:
    """End this process, which then has that many seconds, when its parent has ended, or the other ends of its pipes."""
    signs = poll()
    for pipe in pipes:
        # No event is asked for: poll always reports that the other end was closed.
        signs.register(pipe, 0)
    parent = parent_process()
    if parent is not None:
        signs.register(parent.sentinel)
    descriptor = open_process(pid)
    if descriptor is not None:
        signs.register(descriptor)

    def watch() -> None:
        signs.poll()
        time.sleep(grace)
        # There is no one to report to, and a thread can end its process in no other way.
        os._exit(1)

    Thread(target=watch, name="spdl_parent_watcher", daemon=True).start()

"""Traces of what a process does when, for https://ui.perfetto.dev."""

from __future__ import annotations

import gc
import logging
import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import TracebackType
from typing import IO, TypeAlias, cast

from spdl._check import check_int, check_path, check_str, refuse
from spdl._files import naming
from spdl._program import command_words, program_name
from spdl._trace_file import Events, trace_content, write_events
from spdl.io._common.native import native

_LOG = logging.getLogger("spdl.io")

_COUNTERS = 8
_MOST_KILOBYTES = 1 << 20

# The trace of this process, as the native part numbers it; 0 if none is on. An event looks at nothing else.
_current = 0
_path = ""


class _Off:
    """The span of an event while no trace is on. Its methods are C's own: two of Python's would take twice the time."""

    __slots__ = ()
    __enter__ = type(None)  # Returns None.
    __exit__ = "".format  # Takes anything, and returns what counts as false.


_OFF = cast("AbstractContextManager[None]", _Off())


class _Event:
    __slots__ = ("_name", "_trace")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._trace: int = native.trace_begin(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        native.trace_end(self._trace)


@contextmanager
def tracing(
    output: str | os.PathLike[str],
    buffer_size: int = 4096,
    process_name: str | None = None,
    enable: bool = True,  # noqa: FBT001, FBT002 - the reference's signature.
) -> Iterator[None]:
    """Record what the threads of this process do when, into a file that https://ui.perfetto.dev shows.

    The trace has a row for each thread, under its name. On it are the calls of `spdl.io` that demux, decode, filter,
    convert, encode or transfer, the images of a batch, the time that a call then waited for the GIL, and your own
    `trace_event`, `trace_counter` and `trace_gc`. It is kept in memory and written at the end of the body, as JSON in
    the Trace Event Format. Calls that are still running then have no end in it.

    It does not include other processes, not even a pipeline's: trace them there, each into its own file.

    Args:
        output: The path of the file. An existing one is replaced. One whose name ends with ``.gz`` is compressed, which
            takes a twentieth of the room.
        buffer_size: The memory for what is recorded, in KiB. If there is more, the latest is kept, at least half of the
            memory full, and the log of ``spdl.io`` says so. An event takes 32 bytes and its name.
        process_name: The name of the process in the trace; by default the name of the program's file.
        enable: False traces nothing, and makes no file.

    Yields:
        None: The body of the ``with`` statement is what is traced.

    Raises:
        OSError: If the file cannot be opened, or, at the end, if it could not be written to. It names the path.
        RuntimeError: If this process is traced already.
        TypeError, ValueError: If an argument has another type, or `buffer_size` is below 1, or above a GiB.

    Example:
        >>> path = photo.with_suffix(".json.gz")
        >>> with tracing(path):
        ...     with trace_event("one photo"):
        ...         image = load_image(photo)
        ...     trace_counter(0, image.nbytes)
        >>> path.stat().st_size > 0
        True
    """
    if not enable:
        yield
        return
    check_path("output", output)
    kilobytes = check_int("buffer_size", buffer_size, least=1, most=_MOST_KILOBYTES)
    process_name = program_name(command_words()) if process_name is None else check_str("process_name", process_name)
    path = os.fsdecode(output)
    if _current != 0:
        raise RuntimeError(f"this process is being traced already, into {_path!r}: one trace at a time")
    with open(path, "wb") as file:  # noqa: PTH123 - it may be any kind of path.
        number = _start(path, kilobytes * 1024)
        try:
            yield
        finally:
            if (recorded := _stop(number)) is not None:
                with naming(path):
                    write_recorded(path, file, process_name, recorded)
                    file.close()  # The rest is written now.
                if recorded[-1]:
                    _LOG.warning(
                        "The trace %s has the latest events only: more happened than `buffer_size` holds, %d KiB.",
                        path,
                        kilobytes,
                    )


def trace_event(name: str) -> AbstractContextManager[None]:
    """Return a context manager whose body is an event of the trace, on the row of the current thread.

    Events may nest. Without a trace nothing is recorded, which costs about as much as a call of an empty function. The
    body should stay on its thread, as a coroutine's does not: events of one thread end in the reverse order of their
    beginnings.

    Args:
        name: Its name in the trace. Beyond 512 bytes it is cut.

    Raises:
        TypeError: If a trace is on, and `name` is not a str.

    Example:
        >>> with trace_event("augment"):
        ...     image = load_image(photo)
    """
    return _Event(name) if _current else _OFF


def trace_counter(i: int, val: float) -> None:
    """Record the value of a counter, which the trace draws over time. Without a trace, nothing is recorded.

    Args:
        i: The counter, from 0 to 7.
        val: Its value from now on, an int within 64 bits or a float.

    Raises:
        RuntimeError: If there is no such counter, as in spdl 0.8.0.
        TypeError: If `val` is not a number.

    Example:
        >>> trace_counter(0, 12)
    """
    if not 0 <= i < _COUNTERS:
        refuse(RuntimeError, "i", f"the number of a counter, from 0 to {_COUNTERS - 1}", i)
    if _current:
        native.trace_count(i, val)


def trace_gc() -> None:
    """Have every run of the garbage collector recorded as an event, in this trace and all later ones.

    The event is on the thread that the collector runs on. All others that need the GIL wait for it.

    Example:
        >>> trace_gc()
    """
    if _COLLECTIONS not in gc.callbacks:
        gc.callbacks.append(_COLLECTIONS)


class _Collections:
    """Records the runs of the collector. There is never more than one at a time."""

    def __init__(self) -> None:
        self._event = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Record the beginning or the end of one.

        It may begin while the thread holds any lock of the interpreter's own modules, so the name of the thread is not
        looked up.
        """
        if phase == "start":
            self._event = native.trace_begin_unnamed(f"gc, generation {info['generation']}") if _current else 0
        elif self._event:
            native.trace_end(self._event)


_COLLECTIONS = _Collections()


def _start(path: str, buffer_bytes: int) -> int:
    global _current, _path  # noqa: PLW0603
    _forget_in_children()
    number = native.trace_start(buffer_bytes)
    if number == 0:
        raise RuntimeError("this process is being traced already: one trace at a time")
    _path = path
    _current = number
    return number


def _stop(number: int) -> Recorded | None:
    global _current  # noqa: PLW0603
    if _current != number:
        return None  # The process was forked from the one that is traced.
    _current = 0
    return native.trace_stop(number)


@cache
def _forget_in_children() -> None:
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    global _current  # noqa: PLW0603
    if _current:
        _current = 0
        native.trace_forget()


Recorded: TypeAlias = tuple[list[tuple[int, int, bytes]], bytes, bytes, bool]
"""The threads (the row, the system's number, the name), the older records and the newer ones, and whether there were
more."""

# Records as the native part keeps them: the time in nanoseconds, the row or the counter, the kind, and the size of what
# follows, which is a name or a value.
_HEAD = struct.Struct("=QIHH")
_BEGIN, _END, _INTEGER = range(3)


def write_recorded(path: str, file: IO[bytes], process_name: str, recorded: Recorded) -> None:
    with trace_content(path, file) as content:
        write_events(content, _events(process_name, recorded))


def _events(process_name: str, recorded: Recorded) -> Iterator[str]:
    threads, older, newer, _ = recorded
    events = Events()
    yield from events.of_process(process_name)
    rows = {number: events.row(number, thread) for number, thread, _ in threads}
    for number, _, name in threads:
        yield events.of_row(rows[number], name.decode("utf-8", "replace"))
    begun = dict.fromkeys(rows, 0)
    for records in (older, newer):
        place = 0
        while place < len(records):
            nanoseconds, of, kind, size = _HEAD.unpack_from(records, place)
            place += _HEAD.size + size
            more, at = records[place - size : place], events.at_nanoseconds(nanoseconds)
            if kind == _BEGIN:
                begun[of] += 1
                yield events.begin(rows[of], more.decode("utf-8", "replace"), at)
            elif kind == _END:
                # The beginning may have been dropped.
                if begun[of]:
                    begun[of] -= 1
                    yield events.end(rows[of], at)
            else:
                (value,) = struct.unpack("=q" if kind == _INTEGER else "=d", more)
                yield events.count(f"counter {of}", at, "value", value)

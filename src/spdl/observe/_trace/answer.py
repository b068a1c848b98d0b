"""Does what another process of the user asks of this one while it runs: records a trace, or tries other limits."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._processes import TRACES, before_children_are_awaited
from spdl._trace_file import compressed
from spdl.observe._trace.folder import write_trace
from spdl.observe._trace.messages import MessageStream, MessageStreamError, are_seconds
from spdl.pipeline._declare import defaults
from spdl.pipeline._engine.lifetime import set_limits
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.page_file import engines, is_private
from spdl.pipeline._report.recorder import MAX_EVENTS, Recorder
from spdl.pipeline._stages.tracing import attach_all, detach_all

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine


# The asker ends the trial long before. If it is killed, the system closes the connection.
_MOST_SECONDS = 600.0
_MOST = 1024


def try_limits(asked: object, channel: MessageStream) -> None:
    """Set limits, say so, and put them back when the other side says so or has ended."""
    found = _find(asked)
    if isinstance(found, str):
        channel.say(error=found)
        return
    engine, node, concurrency, num_threads = found
    with engine.lock:
        before, threads_before = node.concurrency, engine.workers.num_threads
        threads = max(threads_before, num_threads)
        set_limits(engine, {node: concurrency}, threads, engine.sink.capacity)
    try:
        channel.say(pipelines=1)
        with suppress(MessageStreamError, OSError):
            channel.hear(_MOST_SECONDS)
    finally:
        with engine.lock:
            # The program may have set others in the meantime, which stay.
            back = before if node.concurrency == concurrency else node.concurrency
            now = engine.workers.num_threads
            set_limits(engine, {node: back}, threads_before if now == threads else now, engine.sink.capacity)


def _find(asked: Any) -> tuple[Engine, Node, int, int] | str:
    """Return the limits that should be set, or the reason why they cannot be."""
    try:
        number, name, numbers = asked["pipeline"], asked["stage"], (asked["concurrency"], asked["num_threads"])
    except (KeyError, TypeError):
        return "it was asked to try limits without saying which"
    if not all(isinstance(each, int) and 1 <= each <= _MOST for each in numbers):
        return f"it was asked to try limits that are not from 1 to {_MOST}"
    engine = next((each for each in engines() if each.pipeline_id == number), None)
    if engine is None:
        return f"it has no pipeline {number} any more"
    nodes = [node for node in engine.nodes if node.name == name and node.is_stage]
    if len(nodes) != 1 or not nodes[0].adjustable or nodes[0].copies != 1:
        return f"the concurrency of stage {name!r} cannot be changed while it runs"
    if nodes[0].left_open:
        return f"the concurrency of stage {name!r} is tuned already"
    return engine, nodes[0], *numbers


_LOG = logging.getLogger("spdl.observe")

# The other process sends its request at once, and takes the answer, each within this number of seconds.
_ASKS_WITHIN, _TAKES_WITHIN = 10.0, 60.0
# A process that ends waits so long for what it has recorded to be taken.
_END_WAITS = 30.0


def answer(path: str) -> None:
    """Record and send the requested trace. It is called in its own thread, and asks nothing of the others.

    The socket lies in the user's own folder, so no other user can put one there.
    """
    asked_at = Path(path)
    if not is_private(asked_at.parent):
        return
    with contextlib.suppress(OSError, MessageStreamError), _removed_afterwards(asked_at), _connection() as connection:
        connection.settimeout(_ASKS_WITHIN)
        connection.connect(path)
        channel = MessageStream(connection)
        if not channel.is_of_this_user():
            return
        channel.say(pid=os.getpid())
        asked = channel.hear(_ASKS_WITHIN)
        seconds = asked.get("seconds")
        if "try" in asked:
            try_limits(asked["try"], channel)
        elif are_seconds(seconds):
            _Recording(connection, channel).run(seconds)
        else:
            channel.say(error="the requested time is invalid")


@contextlib.contextmanager
def _removed_afterwards(asked_at: Path) -> Iterator[None]:
    # A socket left by a killed process would be found again and again. By then it may belong to another process.
    found = asked_at.lstat().st_ino
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if asked_at.lstat().st_ino == found:
                asked_at.unlink()


class _Recording:
    """A recording that goes on. There is one at a time."""

    def __init__(self, connection: socket.socket, channel: MessageStream) -> None:
        self._connection = connection
        self._channel = channel
        self._recorder = Recorder(MAX_EVENTS)
        self._process = os.getpid()
        self._told_to_end = False
        self._detached = threading.Event()
        self._ended = threading.Event()

    def run(self, seconds: float) -> None:
        try:
            # Other code that finds the recorder claimed can end this, and a forked process then lets go of it.
            with _current(self):
                self._record(seconds)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - as below.
            # It must not be the program that shows it, nor end for it.
            _LOG.warning("The pipelines could not be recorded: %r", error)
            self._channel.say(error=f"it could not record its pipelines: {error!r}")
        finally:
            self._recorder.forget()
            self._detached.set()
            self._ended.set()

    def _record(self, seconds: float) -> None:
        if not defaults.claim_recorder(self._recorder):
            self._channel.say(error="it records its pipelines already, by `record_trace` or `spdl record -- PROGRAM`")
            return
        wanted = False
        try:
            self._channel.say(pipelines=attach_all(self._recorder))
            wanted = self._wait(seconds)
        finally:
            defaults.release_recorder()
            self._recorder.close()
            detach_all(self._recorder)
            self._detached.set()
        if wanted:
            self._send()

    def _wait(self, seconds: float) -> bool:
        try:
            self._channel.hear(seconds)
        except TimeoutError:
            return True
        except MessageStreamError:
            return self._told_to_end
        return True

    def _send(self) -> None:
        trace = BytesIO()
        with compressed(trace) as content:
            write_trace(self._recorder, content)
        self._connection.settimeout(_TAKES_WITHIN)
        with trace.getbuffer() as content:
            self._channel.say(size=len(content), only_latest=MAX_EVENTS if self._recorder.is_full() else 0)
            self._channel.send(content)

    def end(self, *, sent: bool) -> None:
        """End the recording earlier, and wait until no pipeline is recorded, or until the trace was sent."""
        if os.getpid() != self._process:
            return
        self._told_to_end = True
        with contextlib.suppress(OSError):
            # Nothing more is read. The recorded events can still be sent.
            self._connection.shutdown(socket.SHUT_RD)
        (self._ended if sent else self._detached).wait(_END_WAITS)


class _Current:
    connection: socket.socket | None = None
    recording: _Recording | None = None


@contextlib.contextmanager
def _connection() -> Iterator[socket.socket]:
    """Make a connection that a process forked at the same time does not inherit."""
    _see_to_forks()
    with socket.socket(socket.AF_UNIX) as connection:
        _Current.connection = connection
        try:
            yield connection
        finally:
            connection.close()
            _Current.connection = None


@contextlib.contextmanager
def _current(recording: _Recording) -> Iterator[None]:
    _see_to_the_end()
    before_children_are_awaited(_end_and_send, TRACES)
    _Current.recording = recording
    try:
        yield
    finally:
        _Current.recording = None


def end_answer(*, sent: bool = False) -> None:
    """End a recording that goes on for another process, which gets the events recorded until now.

    Wait until the trace was sent, or else until no pipeline is recorded any more.
    """
    if (recording := _Current.recording) is not None:
        recording.end(sent=sent)


@cache
def _see_to_the_end() -> None:
    # Functions registered later run first; the end of the pipelines is not among them.
    atexit.register(_end_and_send)


@cache
def _see_to_forks() -> None:
    os.register_at_fork(after_in_child=_leave_in_child)


def _end_and_send() -> None:
    end_answer(sent=True)


def _leave_in_child() -> None:
    connection, _Current.connection = _Current.connection, None
    recording, _Current.recording = _Current.recording, None
    if connection is not None:
        # This copy would stay open when the parent ends.
        connection.close()
    if recording is not None:
        defaults.release_recorder()

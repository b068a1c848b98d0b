"""The parent's side of a worker process or interpreter: starts it, gives it orders, and makes sure that it ends."""

from __future__ import annotations

import atexit
import multiprocessing.util  # It registers its exit hook before ours, so ours runs first.
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import wait
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited
from spdl.pipeline._elsewhere.lane import LaneEnds, NotReadable, make_lane
from spdl.pipeline._elsewhere.lane_reader import LaneReader, Message
from spdl.pipeline._elsewhere.serve import ParentOrder, Payload, ProcessEnds, ring_size, serve
from spdl.pipeline._stages.process_work import open_process

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from spdl.pipeline._elsewhere.arena import Ledger


class Inbox(LaneReader):
    """Receives the messages of a worker, one item in each."""

    def load_item(self, message: Message) -> Any:
        """Unpickle and return the content of the message just received. This may run code of the user."""
        (item,) = self.load(message)
        if isinstance(item, NotReadable):
            raise item.error
        return item


def exit_in_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit status {code}"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    hint = ", as the system does if memory runs out" if -code == signal.SIGKILL else ""
    return f"killed by signal {name}{hint}"


# Seconds that a worker has to end when it is asked to, before it is killed.
GRACE = 3.0


class IterableWorker:
    """A worker that makes an iterable's items, and our ends of the connection to it.

    It refers to nothing that the user holds.
    """

    inbox: Inbox

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._ending = RLock()
        self._under_way = False
        # How it ended, in words; None while it runs.
        self.ended_how: str | None = None
        self._closed = False
        self._order_reader, self._orders = multiprocessing.Pipe(duplex=False)

    def is_ours(self) -> bool:
        """Return whether this process has started the worker, and is not a fork of the one that has."""
        return os.getpid() == self._owner

    def order(self, order: bytes) -> None:
        """Send an order. If the worker is gone, the order is lost, and the missing next message will show that."""
        with suppress(BrokenPipeError):
            os.write(self._orders.fileno(), order)

    def end(self, grace: float = GRACE) -> None:
        """Ask the worker to end, and wait ``grace`` seconds. May be called repeatedly and from any thread."""
        if not self.is_ours():
            return
        with self._ending:
            # The garbage collector may run in here and call this again.
            if self.ended_how is not None or self._under_way:
                return
            self._under_way = True
            try:
                self.order(ParentOrder.QUIT)
                self.ended_how = self._await_end(grace)
            finally:
                self._under_way = False
        _LIVE.discard(self)

    def _await_end(self, grace: float) -> str:
        raise NotImplementedError

    def close(self, grace: float = GRACE) -> None:
        """End the worker and close the connection. No other thread may be receiving from it."""
        if not self.is_ours():
            return
        with self._ending:
            self.end(grace)
            if self._closed or self.ended_how is None:
                return
            self._closed = True
            self._close_ends()

    def forget(self) -> None:
        """Close what a forked process has inherited of the connection."""

    def _close_ends(self) -> None:
        self._orders.close()

    def _started(self) -> None:
        _LIVE.add(self)
        before_children_are_awaited(_end_all, WORKERS)


class WorkerProcess(IterableWorker):
    """A worker process, which is killed if it does not end in time.

    Args:
        context: The multiprocessing context that starts the process.
        buffer_size: How many items may be under way.
        ledger: Bounds the arrays, if they are bounded.
        daemon: Whether it is a daemon in the sense of multiprocessing, which may have no children.
    """

    def __init__(
        self, context: BaseContext, payload: Payload, buffer_size: int, ledger: Ledger | None, *, daemon: bool
    ) -> None:
        super().__init__()
        # Made last, since it does not close itself: the system may have no descriptor left for the pipe.
        lane_writer, lane_reader = make_lane(ring_size(buffer_size))
        self._lane: LaneEnds | Inbox = lane_reader
        self._pidfd: int | None = None
        ends = ProcessEnds(self._order_reader, lane_writer, None if ledger is None else ledger.bound)
        foreign = (self._orders,) if context.get_start_method() == "fork" else ()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on concrete contexts only.
        self.process = process_class(
            target=serve, args=(payload, ends, buffer_size, foreign), name="spdl_subprocess", daemon=daemon
        )
        try:
            self.process.start()
        except BaseException:
            self._close_handles()
            raise
        finally:
            self._order_reader.close()
            lane_writer.close()
        self._signs: list[int] = [self.process.sentinel]
        try:
            self._pidfd = open_process(self.process.pid)
            if self._pidfd is not None:
                self._signs.append(self._pidfd)
            self.inbox = self._lane = Inbox(lane_reader, self._signs, ledger)
        except BaseException:
            # The system has no descriptor left.
            self.close(grace=0.0)
            raise
        self._started()

    def _await_end(self, grace: float) -> str:
        wait(self._signs, grace)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        return exit_in_words(self.process.exitcode)

    def forget(self) -> None:
        self._close_handles()

    def _close_ends(self) -> None:
        self._close_handles()
        self.process.close()

    def _close_handles(self) -> None:
        super()._close_ends()
        self._lane.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


_LIVE: WeakSet[IterableWorker] = WeakSet()


def _forget_all() -> None:
    for worker in list(_LIVE):
        worker.forget()


def _end_all() -> None:
    workers = [worker for worker in list(_LIVE) if worker.is_ours()]
    for worker in workers:
        worker.order(ParentOrder.QUIT)
    for worker in workers:
        worker.end()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)


# The program that a new interpreter begins with, with the variables that it is given.
_PRELUDE = "import sys\nsys.path[:] = search_path\n"


def interpreter_maker(name: str) -> Callable[[], Any]:
    """Return the function that makes an interpreter.

    Args:
        name: The part that asks for one, for the message.

    Raises:
        RuntimeError: If this Python has none.
    """
    try:
        from concurrent import interpreters  # type: ignore[attr-defined] # noqa: PLC0415 - Python 3.14 has it.
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(f"{name} requires Python 3.14 or later. Current version: {version}") from None
    make: Callable[[], Any] = interpreters.create
    return make


class RunningInterpreter:
    """An interpreter. It cannot be killed: if code there never returns, it stays, and the process does not end.

    Args:
        make: Makes one with the methods of `concurrent.interpreters.Interpreter`.
        variables: The variables in the program's main module: bytes, strings, numbers, and tuples of these.
        handles: Called when it has ended, in order: what it has copies of can be closed then.

    Attributes:
        sign: A descriptor that becomes readable when it has ended.
        why: The reason for its end, in words, if it raised something.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        program: str,
        variables: dict[str, Any],
        handles: Sequence[Callable[[], None]],
    ) -> None:
        with ExitStack() as undo:
            interpreter = make()
            undo.callback(interpreter.close)
            interpreter.prepare_main(search_path=tuple(sys.path), **variables)
            self.why = ""
            self.sign, running = os.pipe()
            undo.callback(os.close, self.sign)
            undo.callback(os.close, running)
            self._program = _PRELUDE + program
            self._handles: list[Callable[[], None]] = [*handles, lambda: os.close(running)]
            self._thread = Thread(target=self._run, args=(interpreter,), name="spdl_subinterpreter", daemon=True)
            self._thread.start()
            # From here on the thread and `close` see to them.
            undo.pop_all()

    def _run(self, interpreter: Any) -> None:
        try:
            # The program reports errors of user code itself. After other errors, its next message is missing.
            try:
                # The private module of 3.13 returns what the program has raised.
                failed = interpreter.exec(self._program)
                self.why = "" if failed is None else str(getattr(failed, "formatted", failed))
            except Exception as error:  # noqa: BLE001 - as above.
                self.why = str(error)
            with suppress(Exception):
                interpreter.close()
        finally:
            for close in self._handles:
                close()

    def await_end(self, seconds: float | None) -> bool:
        """Wait so long for its end, or as long as it takes. Return whether it has ended."""
        return bool(wait([self.sign], seconds))

    def close(self) -> None:
        """Let go of it, once it has ended or no thread waits for that any more."""
        if self.await_end(0):
            self._thread.join()
        os.close(self.sign)


_PROGRAM = """
from spdl.pipeline._elsewhere.serve import serve_interpreter
serve_interpreter(payload, orders, lane, buffer_size)
"""


class WorkerInterpreter(IterableWorker):
    """A worker interpreter, in its own thread.

    It cannot be killed: if code there never returns, it stays, and the process does not end.

    Args:
        make: Makes an interpreter with the methods of `concurrent.interpreters.Interpreter`.
        buffer_size: How many items may be under way.
    """

    def __init__(self, make: Callable[[], Any], payload: bytes, buffer_size: int) -> None:
        super().__init__()
        with ExitStack() as undo:
            undo.callback(self._orders.close)
            at_start = undo.enter_context(ExitStack())
            at_start.callback(self._order_reader.close)
            lane_writer, lane_reader = make_lane(ring_size(buffer_size))
            undo.callback(lane_reader.close)
            at_start.callback(lane_writer.close)
            variables = {
                "payload": payload,
                "orders": self._order_reader.fileno(),
                "lane": lane_writer.numbers(),
                "buffer_size": buffer_size,
            }
            # It has copies of what it is given.
            handles = (lane_writer.close, self._order_reader.close)
            self._interpreter = RunningInterpreter(make, _PROGRAM, variables, handles)
            at_start.pop_all()
            undo.callback(self._interpreter.close)
            self.inbox = Inbox(lane_reader, [self._interpreter.sign])
            undo.pop_all()
        self._started()

    def _await_end(self, grace: float) -> str:
        return "its interpreter has ended" if self._interpreter.await_end(grace) else "its interpreter did not end"

    def _close_ends(self) -> None:
        self.inbox.close()
        super()._close_ends()
        self._interpreter.close()

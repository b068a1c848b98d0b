"""Processes and interpreters that were started: how their end is awaited, and the worker that makes an iterable."""

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
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited, renew_in_children
from spdl.pipeline._elsewhere.lane import LaneEnds, LaneReader, make_lane
from spdl.pipeline._elsewhere.serve import ParentOrder, ring_size
from spdl.pipeline._stages.process_work import open_process

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext

    from spdl.pipeline._elsewhere.arena import Ledger

# What a worker has copies of. It is closed here once the worker needs it no more.
Handles: TypeAlias = "Sequence[Callable[[], None]]"


def exit_in_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit status {code}"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    hint = ", as the system does if memory runs out" if -code == signal.SIGKILL else ""
    return f"killed by signal {name}{hint}"


# The status that multiprocessing reports for a process whose fork server has ended before it could say.
_UNKNOWN = 255


class RunningProcess:
    """A process of multiprocessing. It gets copies of ``handles``. Its ``signs`` are readable when it has ended."""

    def __init__(
        self,
        context: BaseContext,
        target: Callable[..., object],
        arguments: tuple[Any, ...],
        name: str,
        handles: Handles,
        *,
        daemon: bool = False,
    ) -> None:
        self._method = context.get_start_method()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on concrete contexts only.
        self._process = process_class(target=target, args=arguments, name=name, daemon=daemon)
        try:
            self._process.start()
        finally:
            for close in handles:
                close()
        self._pidfd = open_process(self._process.pid)
        self.signs = [fd for fd in (self._process.sentinel, self._pidfd) if fd is not None]
        renew_in_children(self)

    def await_end(self, grace: float | None) -> str:
        """Wait that many seconds for its end, and then kill it. Return how it ended, in words."""
        wait(self.signs, grace)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        code = self._process.exitcode
        server_may_have_ended = code == _UNKNOWN and self._method == "forkserver"
        return exit_in_words(code) + (", or multiprocessing's fork server was killed" if server_may_have_ended else "")

    def close(self) -> None:
        self._renew()
        self._process.close()

    def _renew(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)


# The program that a new interpreter begins with, with the variables that it is given.
_PRELUDE = "import sys\nsys.path[:] = search_path\n"


def interpreter_maker(name: str) -> Callable[[], Any]:
    """Return the function that makes an interpreter, or raise a RuntimeError that says what needs one."""
    try:
        from concurrent import interpreters  # type: ignore[attr-defined] # noqa: PLC0415 - Python 3.14 has it.
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(f"{name} requires Python 3.14 or later. Current version: {version}") from None
    make: Callable[[], Any] = interpreters.create
    return make


class RunningInterpreter:
    """An interpreter in its own thread. It cannot be killed: if code there never returns, this process does not end.

    The program gets its variables in its main module, and copies ``handles``. Its sign is readable when it has ended.
    """

    def __init__(self, make: Callable[[], Any], program: str, variables: dict[str, Any], handles: Handles) -> None:
        with ExitStack() as undo:
            for close in handles:
                undo.callback(close)
            interpreter = make()
            undo.callback(interpreter.close)
            interpreter.prepare_main(search_path=tuple(sys.path), **variables)
            self._why = ""
            sign, running = os.pipe()
            self.signs = [sign]
            undo.callback(os.close, sign)
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
                self._why = "" if failed is None else f": {getattr(failed, 'formatted', failed)}"
            except Exception as error:  # noqa: BLE001 - as above.
                self._why = f": {error}"
            with suppress(Exception):
                interpreter.close()
        finally:
            for close in self._handles:
                close()

    def await_end(self, seconds: float | None) -> str:
        """Wait that long for its end, or as long as it takes. Return how it ended, in words."""
        return f"its interpreter has ended{self._why}" if wait(self.signs, seconds) else "its interpreter did not end"

    def close(self) -> None:
        """Let go of it, once it has ended or no thread waits for that any more."""
        if wait(self.signs, 0):
            self._thread.join()
        os.close(self.signs[0])


Running: TypeAlias = RunningProcess | RunningInterpreter

# Seconds that a worker has to end when it is asked to, before it is killed.
GRACE = 3.0


class IterableWorker:
    """A worker that makes an iterable's items, and our ends of the connection to it.

    It refers to nothing that the user holds. ``start`` closes the worker's ends here. How it ended is None until then.
    """

    def __init__(
        self, start: Callable[[Connection, LaneEnds], Running], buffer_size: int, ledger: Ledger | None = None
    ) -> None:
        self._owner = os.getpid()
        self._ending = RLock()
        self._under_way = self._closed = False
        self.ended_how: str | None = None
        with ExitStack() as undo:
            # The lane is made first: the system may have no descriptor left for the pipe.
            lane, reader = make_lane(ring_size(buffer_size))
            self._lane: LaneEnds | LaneReader = reader
            undo.callback(reader.close)
            with ExitStack() as unused:
                unused.callback(lane.close)
                orders, self._orders = multiprocessing.Pipe(duplex=False)
                unused.pop_all()
            undo.callback(self._orders.close)
            # A worker that is forked closes what it inherits of our ends.
            renew_in_children(self)
            self._running = start(orders, lane)
            undo.callback(self._running.close)
            undo.callback(self._running.await_end, 0.0)
            self.inbox = self._lane = LaneReader(reader, self._running.signs, ledger)
            undo.pop_all()
        _LIVE.add(self)
        before_children_are_awaited(_end_all, WORKERS)

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
                self.ended_how = self._running.await_end(grace)
            finally:
                self._under_way = False
        _LIVE.discard(self)

    def close(self, grace: float = GRACE) -> None:
        """End the worker and close the connection. No other thread may be receiving from it."""
        if not self.is_ours():
            return
        with self._ending:
            self.end(grace)
            if self._closed or self.ended_how is None:
                return
            self._closed = True
            self._renew()
            self._running.close()

    def _renew(self) -> None:
        """Close our ends, also in a process that has inherited them by being forked."""
        self._orders.close()
        self._lane.close()


_LIVE: WeakSet[IterableWorker] = WeakSet()


def _end_all() -> None:
    workers = [worker for worker in list(_LIVE) if worker.is_ours()]
    for worker in workers:
        worker.order(ParentOrder.QUIT)
    for worker in workers:
        worker.end()


atexit.register(_end_all)

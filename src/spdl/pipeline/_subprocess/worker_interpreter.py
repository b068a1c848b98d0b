"""The parent's side of a worker interpreter: another interpreter of this process, with a GIL of its own."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited
from spdl.pipeline._transport.interpreter import RunningInterpreter
from spdl.pipeline._transport.lane import make_lane

from .inbox import Inbox
from .wire import Order, ring_size
from .worker_process import GRACE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WorkerInterpreter"]

_PROGRAM = """
from spdl.pipeline._subprocess.serve_interpreter import serve_interpreter
serve_interpreter(payload, orders, lane, buffer_size)
"""


class WorkerInterpreter:
    """A worker interpreter, in a thread of its own, and our ends of the connection to it.

    It cannot be killed: if code there never returns, it stays, and the process does not end.

    Args:
        make: Makes an interpreter with the methods of `concurrent.interpreters.Interpreter`.
        payload: The pickled work.
        buffer_size: How many items may be under way.
    """

    def __init__(self, make: Callable[[], Any], payload: bytes, buffer_size: int) -> None:
        self._owner = os.getpid()
        self._closing = RLock()
        self._closed = False
        # How it ended, in words; None while it runs.
        self.ended_how: str | None = None
        with ExitStack() as undo:
            order_reader, self._orders = os.pipe()
            undo.callback(os.close, self._orders)
            at_start = undo.enter_context(ExitStack())
            at_start.callback(os.close, order_reader)
            lane_writer, lane_reader = make_lane(ring_size(buffer_size))
            undo.callback(lane_reader.close)
            at_start.callback(lane_writer.close)
            variables = {
                "payload": payload,
                "orders": order_reader,
                "lane": lane_writer.numbers(),
                "buffer_size": buffer_size,
            }
            # It has copies of what it is given.
            handles = (lane_writer.close, lambda: os.close(order_reader))
            self._interpreter = RunningInterpreter(make, _PROGRAM, variables, handles)
            at_start.pop_all()
            undo.callback(self._interpreter.close)
            self.inbox = Inbox(lane_reader, [self._interpreter.sign])
            undo.pop_all()
        _LIVE.add(self)
        before_children_are_awaited(_end_all, WORKERS)

    def is_ours(self) -> bool:
        """Return whether this is the process that has the interpreter, and not a fork of it."""
        return os.getpid() == self._owner

    def order(self, order: bytes) -> None:
        """Send an order. If the worker is gone, the order is lost, and the missing next message will show that."""
        with suppress(BrokenPipeError):
            os.write(self._orders, order)

    def end(self, grace: float = GRACE) -> None:
        """Ask the worker to end, and wait ``grace`` seconds. May be called repeatedly and from any thread."""
        if not self.is_ours() or self.ended_how is not None:
            return
        self.order(Order.QUIT)
        ended = self._interpreter.await_end(grace)
        if self.ended_how is None:
            self.ended_how = "its interpreter has ended" if ended else "its interpreter did not end"
        _LIVE.discard(self)

    def close(self, grace: float = GRACE) -> None:
        """End the worker and close the connection. No other thread may be receiving from it."""
        if not self.is_ours():
            return
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self.end(grace)
            self.inbox.close()
            os.close(self._orders)
            self._interpreter.close()


_LIVE: WeakSet[WorkerInterpreter] = WeakSet()


def _end_all() -> None:
    for worker in list(_LIVE):
        worker.end()


atexit.register(_end_all)

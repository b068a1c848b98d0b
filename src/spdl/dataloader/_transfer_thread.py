"""The thread in which a loader transfers."""

from __future__ import annotations

import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl._type_vars import T

__all__ = ["TransferThread"]

P = ParamSpec("P")

_Calls: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], object]] | None]"


class TransferThread(ThreadPoolExecutor):
    """A pool of one thread, which ends with the pool and does not keep the process alive.

    The interpreter waits at its exit for the threads of a plain pool: for ever, if a call does not return.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._calls: _Calls = SimpleQueue()
        self._starting = Lock()
        self._started = False
        weakref.finalize(self, self._calls.put, None)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in the thread, after those that were submitted before."""
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        with self._starting:
            if not self._started:
                self._started = True
                Thread(target=_serve, args=(self._calls,), name="spdl_transfer", daemon=True).start()
        return future


def _serve(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        future, function = call
        if future.set_running_or_notify_cancel():
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited.
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        # Do not keep them alive until the next call.
        del call, future, function

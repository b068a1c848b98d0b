"""The thread that carries all requests of a store, and how callers wait for it."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from spdl.store._protocol.errors import StoreError
from spdl.store._reading.calls import Call
from spdl.store._reading.dispatcher import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._reading.attempts import Answer, Exchange, Request
    from spdl.store._reading.dispatcher import Surroundings

__all__ = ["Line"]


class Line:
    """One thread that sends the requests of all callers, and receives the answers.

    If each caller did so itself, threads would hand over the GIL at every piece of every answer. Callers only wait, and
    can be interrupted. The thread starts with the first call, and ends after `close` or with the process.

    Args:
        surroundings: What requests are sent by.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._transport = surroundings.transport
        self._lock = threading.Lock()
        self._errands: deque[Callable[[Dispatcher], None]] = deque()
        self._asleep = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers of all requests.

        Raises:
            FileNotFoundError: If the object of one is missing.
            StoreError: If one cannot be answered. All others are cancelled.
        """
        if not requests:
            return []
        self._transport.prepare()
        call = Call(requests)
        try:
            self._tell(lambda dispatcher: dispatcher.add(call))
            while (found := call.news.get()) is not None:
                index, refused = found
                if refused.renew():
                    self._tell(lambda dispatcher, index=index: dispatcher.resume(call, index))  # type: ignore[misc]
                else:
                    reason = refused.reason
                    self._tell(lambda dispatcher, reason=reason: dispatcher.drop(call, StoreError(reason)))  # type: ignore[misc]
        except BaseException:
            self._tell(lambda dispatcher: dispatcher.drop(call))
            raise
        return call.answers()

    def _tell(self, errand: Callable[[Dispatcher], None]) -> None:
        with self._lock:
            self._errands.append(errand)
            if self._thread is None:
                # It notes itself that it runs: whoever is interrupted here may have started it, or not.
                threading.Thread(target=self._run, name="spdl-store", daemon=True).start()
            if self._asleep:
                self._asleep = False
                self._transport.wake()

    def close(self) -> None:
        """End the thread, and let go what the transport keeps, when all calls have ended. The next call starts it anew.

        This waits for the end only if there are no calls.
        """
        if os.getpid() != self._process:  # The thread is in another process. This one was forked from there just now.
            return
        idle: SimpleQueue[bool] = SimpleQueue()
        with self._lock:
            thread = self._thread
            if thread is None:
                return
            self._errands.append(lambda dispatcher: self._close(dispatcher, idle))
            self._transport.wake()
        if idle.get():
            thread.join()

    def close_soon(self) -> None:
        """Have the thread end when all calls have ended. Takes no lock, and waits for nothing.

        The collector may call it in the middle of anything, such as the beginning or the end of a thread.
        """
        if self._thread is None or os.getpid() != self._process:
            return
        self._errands.append(lambda dispatcher: self._close(dispatcher, SimpleQueue()))
        self._transport.wake()

    def _close(self, dispatcher: Dispatcher, idle: SimpleQueue[bool]) -> None:
        self._closing = True
        idle.put(dispatcher.idle)

    # ---- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._lock:
            if self._thread is not None or not self._errands:
                return
            self._thread = threading.current_thread()
            self._closing = False
        dispatcher = Dispatcher(self._surroundings)
        try:
            self._work(dispatcher)
        except BaseException as error:  # noqa: BLE001 - nobody may wait for ever.
            self._give_up(dispatcher, error)

    def _work(self, dispatcher: Dispatcher) -> None:
        transport = self._transport
        transport.begin()
        done: Sequence[Exchange] = ()
        while True:
            while self._errands:
                self._errands.popleft()(dispatcher)
            dispatcher.step(done)
            done = ()  # Answers are large.
            dispatcher.tell_callers()
            with self._lock:
                if self._errands:
                    continue
                if self._closing and dispatcher.idle:
                    transport.rest()
                    self._thread = None
                    return
            if nap := dispatcher.nap():
                time.sleep(nap)
            with self._lock:
                self._asleep = not self._errands
            done = transport.wait(dispatcher.pause() if self._asleep else 0.0)
            self._asleep = False

    def _give_up(self, dispatcher: Dispatcher, error: BaseException) -> None:
        failure = StoreError(f"the thread that carries requests has ended: {error!r}")
        failure.__cause__ = error
        with self._lock:
            self._thread = None
            while self._errands:
                self._errands.popleft()(dispatcher)
            dispatcher.drop_all(failure)
            dispatcher.tell_callers()
            self._transport.rest()

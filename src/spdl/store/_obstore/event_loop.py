"""The event loop on which obstore's requests run, so that they can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["EventLoop"]


class EventLoop:
    """An event loop in a thread, which is started when it is first needed. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, None], started: Callable[[asyncio.Task[None]], None]) -> None:
        """Have a coroutine run; `started` is called with its task, in the loop's thread."""
        loop = self._running()
        loop.call_soon_threadsafe(lambda: started(loop.create_task(work)))

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread."""
        self._running().call_soon_threadsafe(function)

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None:
            with self._lock:
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._thread = threading.Thread(target=self._loop.run_forever, name="spdl-obstore", daemon=True)
                    self._thread.start()
                loop = self._loop
        return loop

    def stop(self) -> None:
        """End the thread. It is started again if it is needed again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if thread is not threading.current_thread():
                thread.join()
                loop.close()

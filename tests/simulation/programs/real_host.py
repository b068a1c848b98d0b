"""The real world: threads of the system, and time that passes."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from .host import Host


class RealHost(Host):
    """The real world. It keeps one pool of processes for all programs, since starting processes takes long."""

    def __init__(self) -> None:
        self._processes: Executor | None = None
        self._others: set[threading.Thread] = set()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def step(self) -> None:
        """Do nothing: the system switches threads when it likes."""

    def thread_pool(self, workers: int, *, fails_at: int = -1) -> Executor:
        return ThreadPoolExecutor(workers, thread_name_prefix="pool")

    def process_pool(self, workers: int) -> Executor:
        if self._processes is not None:
            try:
                self._processes.submit(abs, 0)
            except RuntimeError:
                # A program has shut it down.
                self._processes = None
        if self._processes is None:
            self._processes = ProcessPoolExecutor(2, get_context("forkserver"))
            self._processes.submit(abs, 0).result()
        return self._processes

    def release(self, pool: Executor) -> None:
        if pool is not self._processes:
            # A program that hangs may leave an op in it.
            pool.shutdown(wait=False)

    def watch(self, work: Callable[[], None]) -> str:
        # A program that hung before may have left threads.
        self._others = set(threading.enumerate())
        return super().watch(work)

    def close(self) -> None:
        """End the pool of processes."""
        if self._processes is not None:
            self._processes.shutdown()

    def describe_threads(self) -> str:
        frames = sys._current_frames()
        lines = []
        for thread in threading.enumerate():
            lines.append(f"Thread {thread.name}:\n")
            lines += traceback.format_stack(frames.get(thread.ident or 0), 12) if thread.ident in frames else []
        return "".join(lines)

    def threads_left(self) -> list[str]:
        mine = set(threading.enumerate()) - self._others
        return [thread.name for thread in mine if thread.name.startswith("spdl_")]

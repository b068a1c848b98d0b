"""Workers that are processes."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util  # It registers its exit hook before ours, so ours runs first.
import os
import signal
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl.pipeline._transport.channel import ParentEnd

from .packing import packed
from .start_worker import run_worker

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from spdl.pipeline._declare.placement import ProcessPoolExecutorConfig
    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Processes"]


class Processes:
    """Starts processes.

    Args:
        config: How they are started.
    """

    def __init__(self, config: ProcessPoolExecutorConfig) -> None:
        self._method = config.mp_context or _method()
        # The pickled work, or the work itself for processes that are forked.
        self._payload: Job | bytes = b""

    def prepare(self, region: str, job: Job) -> None:
        """Pickle the work.

        Raises:
            TypeError: If something that the workers need cannot be pickled.
            RuntimeError: If this process may have no children.
        """
        if multiprocessing.current_process().daemon:
            raise RuntimeError(
                f"{region} needs processes, and this process, {multiprocessing.current_process().name!r}, is a "
                "daemon, which may not have children. Start it with daemon=False."
            )
        if self._method != "fork":
            self._payload = packed(region, job)
            return
        self._payload = job
        if threading.active_count() > 1:
            warnings.warn(
                f"{region} forks its workers from a process that has threads, whose locks may be held for ever "
                "there. Leave `mp_context` out, or start the pipeline before other threads.",
                RuntimeWarning,
                stacklevel=2,
            )

    def start(self, number: int) -> _Process:
        """Start a process.

        Raises:
            RuntimeError: If this process was forked and is to use a fork server that its parent has started.
        """
        try:
            return _Process(multiprocessing.get_context(self._method), self._payload, number)
        except ChildProcessError as error:
            if self._method != "forkserver" or not _FORKS:
                raise
            raise RuntimeError(
                'Workers cannot be started by "forkserver" here: this process was forked from one that has a fork '
                'server, which starts no processes for others. Leave `mp_context` out, or give "spawn".'
            ) from error

    def let_go(self) -> list[Any]:
        """Return the work, and forget it."""
        payload, self._payload = self._payload, b""
        return [payload]


class _Process:
    """A worker process and the connection to it. It is the region's thread's.

    Args:
        context: Starts the process.
        payload: The work.
        number: The worker's number in the region.
    """

    def __init__(self, context: BaseContext, payload: Job | bytes, number: int) -> None:
        self._owner = os.getpid()
        self.channel = ParentEnd()
        process_class: Any = context.Process  # type: ignore[attr-defined] # Typeshed has it on concrete contexts only.
        self._process = process_class(
            target=run_worker, args=(self.channel.worker_end, payload), name=f"spdl_region_{number}", daemon=False
        )
        try:
            self._process.start()
        except BaseException:
            self.channel.close()
            raise
        try:
            self.channel.started(self._process)
        except BaseException:
            # The system has no descriptor left.
            self.end(grace=0.0)
            raise
        _LIVE.add(self)

    def close(self) -> None:
        """Have the process end by itself."""
        if os.getpid() == self._owner:
            self.channel.close()

    def end(self, grace: float) -> str:
        """Close the connection, wait for the process, kill it if it takes long; return how it ended, in words."""
        if os.getpid() != self._owner:
            return ""
        self.channel.close()
        self._process.join(grace)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process.close()
        _LIVE.discard(self)
        return _in_words(code)

    def engines(self) -> list[Engine]:
        """Return nothing: its stages do not run here."""
        return []


def _in_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended with status {code}"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    hint = ", as the system does where memory runs out" if -code == signal.SIGKILL else ""
    return f"it was killed by signal {name}{hint}"


def _method() -> str:
    methods = multiprocessing.get_all_start_methods()
    # A forked process has inherited what is known of its parent's fork server, which does not start processes for it.
    preferred = ("spawn", "fork") if _FORKS else ("forkserver", "spawn", "fork")
    return next(method for method in preferred if method in methods)


# Not empty if this process was forked.
_FORKS: list[int] = []
os.register_at_fork(after_in_child=lambda: _FORKS.append(os.getpid()))

_LIVE: WeakSet[_Process] = WeakSet()


def _close_all() -> None:
    for worker in list(_LIVE):
        worker.close()


atexit.register(_close_all)

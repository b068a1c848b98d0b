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
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited
from spdl.pipeline._transport.channel import ParentEnd

from .packing import packed
from .start_worker import run_worker

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from spdl.pipeline._declare.placement import ProcessPoolExecutorConfig
    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Processes"]

# When the fork server is killed, its socket is closed a moment before the system tells that it has ended. Only then
# multiprocessing starts another one. So many seconds are given to both, in which it is tried so often; and so many
# requests may be lost with a server.
_SERVER_SECONDS = 5.0
_TRY_AGAIN = 0.02
_MOST_LOST = 3

# What multiprocessing takes for the status of a process whose fork server has ended before it could tell.
_UNKNOWN = 255

_INHERITED = (
    'Workers cannot be started by "forkserver" here: this process was forked from one that has a fork server, which '
    'starts no processes for others. Leave `mp_context` out, or give "spawn".'
)
_TAKEN = (
    'Workers cannot be started by "forkserver" any more: the fork server has ended, and something else than '
    "multiprocessing has waited for it, as `os.waitpid(-1, ...)` does, or SIGCHLD is ignored. So multiprocessing "
    'starts no other. Give `mp_context="spawn"`.'
)


class Processes:
    """Starts processes.

    Args:
        config: How they are started.
    """

    def __init__(self, config: ProcessPoolExecutorConfig) -> None:
        self._method = config.mp_context or _method()
        self._region = ""
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
        self._region = region
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
            RuntimeError: If the fork server that is to start it is another process's, or does not stay.
        """
        give_up_at = monotonic() + _SERVER_SECONDS
        lost = 0
        while True:
            try:
                return _Process(multiprocessing.get_context(self._method), self._payload, number)
            except ChildProcessError as error:
                if self._method != "forkserver":
                    raise
                raise RuntimeError(_INHERITED if _FORKS else _TAKEN) from error
            except (ConnectionError, EOFError) as error:
                if self._method != "forkserver":
                    raise
                # One that ends may have taken the request, and so may a process that ends before it has read its work.
                lost += not isinstance(error, ConnectionRefusedError)
                if lost == _MOST_LOST or monotonic() >= give_up_at:
                    raise RuntimeError(
                        f"The processes of {self._region} cannot be started: multiprocessing's fork server, or what it "
                        f"starts, ends at once each time ({type(error).__name__}: {error}). Mend what it prints, if it "
                        'does, or give `mp_context="spawn"`, which needs no server.'
                    ) from error
            sleep(_TRY_AGAIN)

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
        self._method = context.get_start_method()
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
        before_children_are_awaited(_close_all, WORKERS)

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
        return _in_words(code, self._method)

    def engines(self) -> list[Engine]:
        """Return nothing: its stages do not run here."""
        return []


def _in_words(code: int | None, method: str) -> str:
    if code is None or code >= 0:
        hint = ", or multiprocessing's fork server was killed" if code == _UNKNOWN and method == "forkserver" else ""
        return f"it ended with status {code}{hint}"
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

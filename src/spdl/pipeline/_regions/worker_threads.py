"""Workers that are threads of this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spdl.pipeline._transport.thread_channel import make_thread_channel
from spdl.pipeline._world import Thread

from .start_worker import run_worker_here

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Threads"]


class Threads:
    """Starts threads."""

    def __init__(self) -> None:
        self._job: Job | None = None

    def prepare(self, region: str, job: Job) -> None:  # noqa: ARG002 - as the others.
        """Note the work."""
        self._job = job

    def start(self, number: int) -> _Threads:
        """Start a worker."""
        assert self._job is not None
        return _Threads(self._job, number)

    def let_go(self) -> list[Any]:
        """Return the work, and forget it."""
        job, self._job = self._job, None
        return [job]


class _Threads:
    """A worker: a thread that begins others, and the connection to it."""

    def __init__(self, job: Job, number: int) -> None:
        self._owner = os.getpid()
        self.channel, end = make_thread_channel()
        self._engines: list[Engine] = []
        name = f"spdl_region_{job.pipeline_id}_{number}"
        self._thread = Thread(target=run_worker_here, args=(end, job, self._engines), name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.channel.close()
            end.close()
            raise

    def close(self) -> None:
        """Have the threads end by themselves."""
        if os.getpid() == self._owner:
            self.channel.close()

    def end(self, grace: float) -> str:
        """Close the connection and wait for the threads, as long as it takes unless ``grace`` is 0."""
        if os.getpid() != self._owner:
            return ""
        self.channel.close()
        self._thread.join(grace and None)
        return "its threads still run" if self._thread.is_alive() else "its threads have ended"

    def engines(self) -> list[Engine]:
        """Return the engine that runs its stages."""
        return list(self._engines)

"""Workers that are threads of this process."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.records import AggregateConfig, PathVariantsConfig
from spdl.pipeline._transport.thread_channel import make_thread_channel
from spdl.pipeline._world import Thread

from .start_worker import run_worker_here

if TYPE_CHECKING:
    from spdl.pipeline._declare.records import StageConfig
    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Threads"]


class Threads:
    """Starts threads."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._region = ""

    def prepare(self, region: str, job: Job) -> None:
        """Note the work.

        Raises:
            TypeError: If an aggregator cannot be copied.
        """
        self._region = region
        self._job = job
        # If there is one that cannot be, it shows here.
        self._stages_of_one_worker(job)

    def start(self, number: int) -> _Threads:
        """Start a worker."""
        assert self._job is not None
        return _Threads(self._job._replace(stages=self._stages_of_one_worker(self._job)), number)

    def _stages_of_one_worker(self, job: Job) -> tuple[StageConfig, ...]:
        return tuple(self._own(stage) for stage in job.stages)

    def _own(self, stage: StageConfig) -> StageConfig:
        """Return a stage with an aggregator of its own, since this keeps what has come to one worker."""
        if isinstance(stage, PathVariantsConfig):
            return replace(stage, paths=tuple(tuple(map(self._own, path)) for path in stage.paths))
        if not isinstance(stage, AggregateConfig):
            return stage
        try:
            return replace(stage, op=deepcopy(stage.op))
        except Exception as error:
            raise TypeError(
                f"Stage {stage.name!r}: the aggregator cannot be copied for each of the workers of {self._region}: "
                f"{error}. Leave it behind the region, or give its class a method `__deepcopy__`."
            ) from error

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

"""What a worker begins with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._transport.channel import WorkerEnd
    from spdl.pipeline._transport.thread_channel import ThreadEnd

    from .messages import Job

__all__ = ["run_worker", "run_worker_here"]


def run_worker(end: WorkerEnd, payload: Job | bytes) -> None:
    """Run a worker's process. Its work stands above all that makes pipelines, of which the region is a part."""
    _begin().begin_process(end, payload)


def run_worker_here(end: ThreadEnd, job: Job, engines: list[Engine]) -> None:
    """Run a worker in this thread, and tell which engine it is."""
    _begin().begin_threads(end, job, engines)


def _begin() -> Any:
    return import_module("spdl.pipeline._region_worker.begin")

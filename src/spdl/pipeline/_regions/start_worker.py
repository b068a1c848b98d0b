"""What a worker's process begins with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spdl.pipeline._transport.channel import WorkerEnd

    from .messages import Job

__all__ = ["run_worker"]


def run_worker(end: WorkerEnd, payload: Job | bytes) -> None:
    """Run a worker. Its work stands above all that makes pipelines, of which the region is a part."""
    import_module("spdl.pipeline._region_worker.work").work(end, payload)

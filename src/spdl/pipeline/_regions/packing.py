"""Pickles the work of a region's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._declare.records import AggregateConfig, PathVariantsConfig, PipeConfig
from spdl.pipeline._nodes.executors.process_work import pack

from .every_stage import every_stage

if TYPE_CHECKING:
    from .messages import Job

__all__ = ["packed"]


def packed(region: str, job: Job) -> bytes:
    """Return the pickled work.

    Raises:
        TypeError: If a part of it cannot be pickled. The message names the part.
    """
    for stage in every_stage(job.stages):
        if isinstance(stage, PipeConfig | AggregateConfig):
            _check(f"Stage {stage.name!r}: the op", region, stage.op)
        elif isinstance(stage, PathVariantsConfig):
            _check(f"Stage {stage.name!r}: the router", region, stage.router)
    _check("The initializer", region, (job.initializer, job.initargs))
    _check("The factory of hooks, or the class of queues,", region, job.instrumentation)
    _check("The declaration", region, job.stages)
    return pack(job)


def _check(what: str, region: str, value: object) -> None:
    try:
        pack(value)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to the workers of {region}: {error}. Use functions that are defined at the "
            "top level of a module, or a functools.partial of one."
        ) from error

"""Makes the nodes of a region."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl._locate import callers_line
from spdl.pipeline._declare.context_parameter import context_parameter
from spdl.pipeline._declare.left_open import LeftOpen
from spdl.pipeline._declare.records import PathVariantsConfig, PipeConfig
from spdl.pipeline._nodes.aggregate import GatheringNode
from spdl.pipeline._regions.every_stage import every_stage
from spdl.pipeline._regions.messages import Job
from spdl.pipeline._regions.mirror import MirrorNode
from spdl.pipeline._regions.region_node import RegionNode
from spdl.pipeline._regions.staff import Staff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.records import StageConfig
    from spdl.pipeline._declare.regions import Region
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node

__all__ = ["make_region"]

# Names of stages that a region's own name has.
_NAMED = 3

# If nobody says how many items or results cross at once, it is no more than this.
_MOST = 64


def make_region(
    engine: Engine,
    region: Region,
    patterns: Sequence[Node],
    instrumentation: tuple[tuple[Any, Any, float], tuple[list[Any], list[Any]]],
    first_id: int,
) -> RegionNode:
    """Return the node of a region.

    Args:
        engine: The engine.
        region: The declaration.
        patterns: The nodes of its stages, as they would run here.
        instrumentation: What makes hooks and queues in the workers.
        first_id: The number of its first stage.

    Raises:
        ValueError: If the stages cannot run in that many workers.
    """
    workers = region.workers()
    given, chosen = instrumentation
    every = list(every_stage(region.stages))
    gathers = [pattern.name for pattern in patterns if isinstance(pattern, GatheringNode)]
    ordered = all(pattern.keeps_order() for pattern in patterns) and any(
        isinstance(stage, PipeConfig) and stage.output_order == "input" for stage in every
    )
    job = Job(
        stages=tuple(map(_for_worker, region.stages)),
        pipeline_id=engine.pipeline_id,
        stage_id=first_id,
        most=_most(region.exit.buffer_size),
        initializer=workers.initializer,
        initargs=workers.initargs,
        instrumentation=given,
        defaults=chosen,
    )
    staff = Staff(workers, job, _most(region.entry.buffer_size))
    if ordered and gathers and staff.size > 1:
        raise ValueError(
            f"The region {region.entry!r} cannot both keep the order and gather items in {staff.size} workers "
            f"({callers_line()}): each gathers what came to it. Put `aggregate` behind the region, give the region one "
            'worker, or leave out `output_order="input"`.'
        )
    mirrors = [MirrorNode(engine, pattern, place, staff.size) for place, pattern in enumerate(patterns)]
    names = [pattern.name for pattern in patterns]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return RegionNode(
        engine,
        f"region({shown})",
        staff,
        mirrors,
        most=job.most,
        ordered=ordered,
        gathers=gathers,
        with_contexts=any(isinstance(it, PipeConfig) and context_parameter(it.op) is not None for it in every),
    )


def _most(size: int) -> int:
    return _MOST if isinstance(size, LeftOpen) else size


def _for_worker(stage: StageConfig) -> StageConfig:
    """Return a stage as it is sent to workers: limits of failures, and who is told of them, stay here."""
    if isinstance(stage, PathVariantsConfig):
        return replace(stage, paths=tuple(tuple(map(_for_worker, path)) for path in stage.paths))
    if isinstance(stage, PipeConfig):
        policy = replace(stage.policy, max_failures=None, on_failure=None)
        return replace(stage, executor=None, policy=policy)
    return stage

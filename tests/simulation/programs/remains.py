"""Looks what is left of a pipeline that has ended, or was asked to stop: threads, and items in memory."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Any

from spdl.pipeline import Pipeline, PipelineFailure
from tests.simulation.programs.inside import world

from .item import live_items
from .program import Aggregate, all_pipes, all_stages

if TYPE_CHECKING:
    from .check import Seen
    from .host import Host
    from .item import Item
    from .lab import Lab
    from .program import Program

__all__ = ["check_freed", "look_for_threads", "look_what_is_kept"]

# References that threads hold on their way out go a moment later.
_FREED_SECONDS = 2.0
# How long it takes at most until the threads end of a pipeline that was asked to stop.
_ENDED_SECONDS = 1.0


def look_for_threads(lab: Lab, seen: Seen) -> None:
    """Look whether a pipeline that was asked to stop ends, though nobody waits for it."""
    program = lab.program
    inner = any(source.kind == "pipeline" for source in program.sources)
    if not (lab.rest.exact and seen.stopped_early) or inner or program.consumer.count % 2:
        return
    lab.host.sleep(_ENDED_SECONDS)
    if not any(lab.running.values()) and (left := lab.host.threads_left()):
        lab.report(f"threads run {_ENDED_SECONDS:g} s after the pipeline was asked to stop: {left}")


def look_what_is_kept(pipeline: Pipeline[Any], lab: Lab, seen: Seen) -> None:
    """Report the items that a stopped pipeline keeps when what it had finished has been read."""
    if seen.failure or _keeps_items(lab.program):
        return
    lab.made.clear()
    with contextlib.suppress(EOFError, PipelineFailure):
        while True:
            pipeline.get_item()
    if alive := _items_left(lab.host):
        lab.report(f"a pipeline that has ended keeps {len(alive)} items, such as {alive[:3]}")


def check_freed(lab: Lab) -> list[str]:
    """Return whether items are in memory when nobody has the pipeline any more."""
    lab.made.clear()
    alive = _items_left(lab.host)
    return [f"{len(alive)} items are still in memory, such as {alive[:3]}"] if alive else []


def _items_left(host: Host) -> list[Item]:
    """Return the items that are in memory, and stay there."""
    deadline = world.monotonic() + _FREED_SECONDS
    if live_items():
        gc.collect()
    while live_items() and world.monotonic() < deadline:
        host.sleep(1.0 if host.simulated else 0.01)
        gc.collect()
    return live_items()


def _keeps_items(program: Program) -> bool:
    """Return whether the program itself may keep items, or others that it runs beside the pipeline."""
    return bool(
        program.queue
        or program.hooks
        or program.merge
        or program.continuous
        or program.consumer.reading.startswith("interrupt")
        or any(source.kind == "pipeline" for source in program.sources)
        or any(isinstance(stage, Aggregate) and stage.seed for stage in all_stages(program))
        # An op that is given up runs on.
        or any(pipe.drop_overdue for pipe in all_pipes(program))
    )

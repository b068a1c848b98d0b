"""What does not change of an engine, for those who watch it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spdl._cores import available_cores
from spdl._program import command_words
from spdl.pipeline._declare.op import name_of
from spdl.pipeline._metrics.head import PageHead, StageHead
from spdl.pipeline._metrics.page_columns import COLUMNS
from spdl.pipeline._metrics.process_identity import pid_namespace, started_ticks

if TYPE_CHECKING:
    from .engine import Engine
    from .node import Node

__all__ = ["describe"]

# So much is told of the command, which may be a program of its own.
_WORDS, _WORD = 9, 100

# What launchers tell the processes of a job. Where they meet tells one job from another.
_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def describe(engine: Engine) -> PageHead:
    """Return what does not change of an engine. Looks at the user's ops, so it is called without the lock."""
    pid = os.getpid()
    return PageHead(
        pid=pid,
        started_ticks=started_ticks(pid),
        pid_namespace=pid_namespace(),
        pipeline=engine.pipeline_id,
        command=tuple(word[:_WORD] for word in command_words()[: _WORDS - 1]),
        ranks={name: os.environ[name] for name in _RANKS if name in os.environ},
        cores=available_cores(),
        gil=getattr(sys, "_is_gil_enabled", lambda: True)(),
        sources=tuple(source.name for source in sorted(engine.sources, key=lambda source: source.index)),
        stages=tuple(map(_describe, engine.nodes)),
        loader=engine.loader,
    )


def _describe(node: Node) -> StageHead:
    executor = getattr(node, "executor", None) is not None
    served = "loop" if node.on_loop else "executor" if executor else "threads" if node.on_workers else "engine"
    return StageHead(
        name=node.name,
        kind=type(node).__name__,
        op=name_of(node.op),
        served_by=served,
        ordered=node.order is not None,
        adjustable=node.adjustable,
        declared=node.is_stage,
        feeders=tuple(feeder.column - COLUMNS for feeder in node.feeders),
        processes=node.num_processes(),
        copies=node.num_copies(),
    )

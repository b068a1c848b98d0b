"""Opens the page through which other processes watch an engine."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spdl._cores import available_cores
from spdl._program import command_words
from spdl.pipeline._declare.op import name_of
from spdl.pipeline._metrics.page import Page, no_page
from spdl.pipeline._metrics.page_columns import COLUMNS
from spdl.pipeline._metrics.page_file import make_page_file
from spdl.pipeline._metrics.process_identity import pid_namespace, started_ticks
from spdl.pipeline._metrics.record_request import RequestWatch, request_path
from spdl.pipeline._metrics.stacks_file import enable_stacks
from spdl.pipeline._metrics.sweep import sweep

if TYPE_CHECKING:
    from .engine import Engine
    from .node import Node

__all__ = ["describe", "open_page"]

# How many threads have a row, at least: some may be added, and executors have threads of their own.
_ROWS = 64
_ROWS_PER_THREAD = 4

# So much is told of the command, which may be a program of its own.
_WORDS, _WORD = 9, 100

# What launchers tell the processes of a job. Where they meet tells one job from another.
_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def describe(engine: Engine) -> dict[str, Any]:
    """Return what other processes are told of an engine. Looks at the user's ops, so it is called without the lock."""
    pid = os.getpid()
    _sweep_once(pid)
    if os.environ.get("SPDL_STACKS") == "1":
        enable_stacks()
    return {
        "pid": pid,
        "started_ticks": started_ticks(pid),
        "pid_namespace": pid_namespace(),
        "pipeline": engine.pipeline_id,
        "command": [word[:_WORD] for word in command_words()[: _WORDS - 1]],
        "ranks": {name: os.environ[name] for name in _RANKS if name in os.environ},
        "cores": available_cores(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "sources": [source.name for source in sorted(engine.sources, key=lambda source: source.index)],
        "stages": [_describe(node) for node in engine.nodes],
        **({} if engine.loader is None else {"loader": engine.loader.pack()}),
    }


@lru_cache(1)
def _sweep_once(pid: int) -> None:  # noqa: ARG001 - once in each process, the forked ones included.
    sweep()


def open_page(engine: Engine, about: dict[str, Any]) -> Page:
    """Return the page of an engine that begins; one that nobody sees, if there is no place for it."""
    sources, stages = len(engine.sources), len(engine.nodes)
    file = make_page_file(
        f"{about['pid']}-{engine.pipeline_id}",
        about,
        sources=sources,
        stages=stages,
        rows=max(_ROWS, _ROWS_PER_THREAD * engine.workers.num_threads),
    )
    columns = COLUMNS + sources + stages
    if file is None:
        return no_page(columns)
    asked_at = request_path(about["pid"], about["started_ticks"], about["pid_namespace"])
    return Page(columns, file, RequestWatch(asked_at))


def _describe(node: Node) -> dict[str, Any]:
    executor = getattr(node, "executor", None) is not None
    served = "loop" if node.on_loop else "executor" if executor else "threads" if node.on_workers else "engine"
    return {
        "name": node.name,
        "kind": type(node).__name__,
        "op": name_of(node.op),
        "served_by": served,
        "ordered": node.order is not None,
        "adjustable": node.adjustable,
        "declared": node.is_stage,
        "feeders": [feeder.column for feeder in node.feeders],
        "processes": node.num_processes(),
        "copies": node.num_copies(),
    }

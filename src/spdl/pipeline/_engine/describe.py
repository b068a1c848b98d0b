"""The view of a running engine from outside: its description, its statistics, its page."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from functools import lru_cache, partial

from spdl._cores import available_cores
from spdl._program import command_words
from spdl.pipeline._declare.op import name_of
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.counters import StoreCounts
from spdl.pipeline._report.page import COLUMNS, Page
from spdl.pipeline._report.page_file import (
    enable_stacks,
    look_for_request,
    make_page_file,
    pid_namespace,
    request_path,
    started_ticks,
    sweep,
)
from spdl.pipeline._report.sample import Sample, sample_of
from spdl.pipeline._report.statistics import PageHead, PipelineStatistics, StageHead, statistics_of
from spdl.pipeline._world import perf_counter

# How many words of the command line are reported, and how many characters of each.
_WORDS, _WORD = 9, 100

# The variables that launchers set for the processes of a job. The address and port distinguish one job from another.
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


def collect(engine: Engine) -> PipelineStatistics:
    """Read an engine's counters, without its lock."""
    head = engine.head or describe(engine)
    now = 0.0
    if engine.started_at:
        now = engine.stopped_at or perf_counter()
        if engine.head is None:
            # Nobody else watches it.
            engine.describe(head)
    sample, stores = sample_of(engine, now), engine.stores.counts()
    return statistics_of(head, sample, stores, partial(_sentence, head, sample, stores))


def _sentence(head: PageHead, sample: Sample, stores: tuple[StoreCounts, ...]) -> str:
    from spdl.observe._verdict.diagnose import sentence  # noqa: PLC0415 - it stands above, and few read the sentence.

    return sentence(head, sample, stores)


# How many threads have a row, at least: some may be added, and executors have their own threads.
_ROWS = 64
_ROWS_PER_THREAD = 4


def prepare_page() -> None:
    """Do what is done before the first page of a process is made. Called without the lock."""
    _sweep_once(os.getpid())
    if os.environ.get("SPDL_STACKS") == "1":
        enable_stacks()


@lru_cache(1)
def _sweep_once(pid: int) -> None:  # noqa: ARG001 - once in each process, the forked ones included.
    sweep()


def open_page(engine: Engine, head: PageHead) -> Page:
    """Return the page of a new engine, or a page without readers if its file cannot be made."""
    rows = max(_ROWS, _ROWS_PER_THREAD * engine.workers.num_threads)
    file = make_page_file(f"{head.pid}-{engine.pipeline_id}", asdict(head), rows=rows)
    columns = COLUMNS + len(head.sources) + len(head.stages)
    if file is None:
        return Page(columns)
    asked_at = str(request_path(head.pid, head.started_ticks, head.pid_namespace))
    return Page(columns, file, partial(look_for_request, asked_at))

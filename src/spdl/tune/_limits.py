"""The limits that the tuner sets, how far they may go, and what it reads of an engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from spdl._cores import cores_per_process
from spdl.pipeline._engine.describe import describe
from spdl.pipeline._engine.node import Node
from spdl.pipeline._report.sample import Sample, sample_of
from spdl.pipeline._report.statistics import PageHead

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._report.threads import CoreWaits


@dataclass(frozen=True, slots=True)
class Limits:
    num_threads: int
    concurrency: tuple[int, ...]
    buffer_size: int


@dataclass(frozen=True, slots=True)
class StageBudget:
    """How far one stage's concurrency may go. It is pinned if it was set by hand, or cannot be changed.

    It counts for all `copies`, the workers of a region that run the stage, each with the same.
    """

    name: str
    most: int
    pinned: bool
    on_threads: bool
    why: str = "it may not be more"
    copies: int = 1

    def rounded_up(self, slots: int) -> int:
        return -(-slots // self.copies) * self.copies

    def in_words(self, slots: int) -> str:
        """Return a concurrency in the unit of the declaration: for each copy."""
        each = slots // self.copies
        return f"{each} in each of {self.copies} workers" if self.copies > 1 else str(each)


@dataclass(frozen=True, slots=True)
class Budgets:
    """How far all limits may go. Those that were set by hand are pinned."""

    cores: float
    stages: tuple[StageBudget, ...]
    num_threads: int
    threads_pinned: bool
    buffer_size: int
    buffer_pinned: bool

    def pin(self, stage: str, concurrency: int) -> Budgets:
        pinned = [replace(each, most=concurrency, pinned=True) if each.name == stage else each for each in self.stages]
        return replace(self, stages=tuple(pinned))

    def cap(self, most: Mapping[int, int]) -> Budgets:
        """Return the same with less for stages, given by their index, for which more was useless."""
        if not most:
            return self
        stages = [
            replace(each, most=min(each.most, most[index]), why="more of its ops are in each other's way")
            if index in most
            else each
            for index, each in enumerate(self.stages)
        ]
        return replace(self, stages=tuple(stages))

    def needed_threads(self, concurrency: Iterable[int], current: int) -> int:
        """Return how many threads stages of these concurrencies can keep busy, within the allowed number."""
        if self.threads_pinned:
            return current
        wanted = sum(each for each, stage in zip(concurrency, self.stages, strict=True) if stage.on_threads)
        return max(1, min(self.num_threads, wanted))


# Ops that wait take no core: this number of threads, or this number for each core if that is more, may wait at once.
# Each holds an item, so this bounds the memory as well.
_THREADS = 64
_THREADS_PER_CORE = 4
# An async op that waits takes no thread.
_REQUESTS = 256
# So many finished items may wait for the consumer.
_BUFFER = 16


def stages_of(engine: Engine) -> list[Node]:
    return [node for node in engine.nodes if node.is_stage]


def limits_of(engine: Engine) -> Limits:
    slots = tuple(node.concurrency for node in stages_of(engine))
    return Limits(engine.workers.num_threads, slots, engine.sink.capacity)


def budgets_of(engine: Engine, *, threads_pinned: bool) -> Budgets:
    cores = cores_per_process()
    most = max(_THREADS, _THREADS_PER_CORE * ceil(cores))
    threads = engine.workers.num_threads if threads_pinned else most
    buffer_pinned = not engine.sink.left_open
    return Budgets(
        cores=cores,
        stages=tuple(_stage(node, threads, most) for node in stages_of(engine)),
        num_threads=threads,
        threads_pinned=threads_pinned,
        buffer_size=engine.sink.capacity if buffer_pinned else _BUFFER,
        buffer_pinned=buffer_pinned,
    )


def _stage(node: Node, threads: int, threads_of_copies: int) -> StageBudget:
    served = node.for_workers()
    on_threads = served is not None and served.on_workers
    executor = getattr(node, "executor", None) or getattr(getattr(node, "elsewhere", None), "executor", None)
    most = threads if on_threads else _REQUESTS
    if node.on_threads_of_copies:
        # Threads of its workers, in all of them together.
        most = threads_of_copies
    if executor is not None:
        # More would wait there.
        most = getattr(executor, "_max_workers", 0) or node.concurrency
    pinned = not (node.adjustable and node.left_open)
    if not pinned:
        # As many in each copy.
        most = max(node.concurrency, most // node.copies * node.copies)
    return StageBudget(
        node.name, node.concurrency if pinned else most, pinned=pinned, on_threads=on_threads, copies=node.copies
    )


def head_of(engine: Engine) -> PageHead:
    """Return what does not change of an engine, with the declared stages alone."""
    head = describe(engine)
    return replace(head, stages=tuple(stage for stage in head.stages if stage.declared))


def sample_for(engine: Engine, stages: Sequence[Node], waits: CoreWaits, now: float) -> Sample:
    """Read the counters of the declared stages and of the process, without the engine's lock."""
    sample = sample_of(engine, now)
    return replace(
        sample,
        stages=tuple(its for its, node in zip(sample.stages, engine.nodes, strict=True) if node.is_stage),
        consumer_waiting_since=engine.page.consumer_waits_since(),
        cpu_seconds=_cpu_seconds(engine, stages),
        core_seconds=waits.read(engine.workers.threads) + sum(node.coreless_elsewhere for node in engine.nodes),
        lags=any(node.lags() for node in engine.nodes),
    )


def _cpu_seconds(engine: Engine, stages: Sequence[Node]) -> float:
    """Return the CPU seconds of this process, and of the processes that run ops of its stages."""
    executors = [getattr(node, "executor", None) for node in stages]
    in_processes = [node for node, each in zip(stages, executors, strict=True) if hasattr(each, "_processes")]
    elsewhere = sum(node.counters.cpu_seconds for node in in_processes)
    elsewhere += sum(node.cpu_elsewhere for node in engine.nodes)
    return time.process_time() + elsewhere

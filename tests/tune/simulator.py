"""The scheduler in virtual time: stages with slots, shared threads, cores and one GIL, a source and a consumer.

A pipeline can be run there with limits that stay, or with the tuner at work.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spdl.pipeline._report.sample import Sample, SourceSample, StageSample
from spdl.pipeline._report.statistics import PageHead, StageHead
from spdl.tune._climb import Climb
from spdl.tune._limits import Budgets, Limits, StageBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "MOST",
    "TICK",
    "Graph",
    "Machine",
    "Stage",
    "World",
    "budgets_of",
    "go_on",
    "head_of",
    "limited",
    "run",
    "start_of",
    "tune",
    "tuned_world",
]

# The highest number of threads, and the highest concurrency.
MOST = 32
# Seconds between two looks of the tuner.
TICK = 0.05
# As the engine's channels.
_CAPACITY = 2


@dataclass(frozen=True)
class Stage:
    """What an op of a stage takes: mean seconds of each kind."""

    io: float = 0.0
    native: float = 0.0
    gil: float = 0.0
    on_threads: bool = True
    # So many items make one result.
    batch: int = 1
    # The deviation of the logarithm of a duration.
    sigma: float = 0.0
    pinned: int | None = None
    # How many ops at once have an effect: beyond it, they wait for each other inside, as for a disk.
    inner: int = 1000
    # It runs in so many workers of a region, each of which has as many slots as the others.
    copies: int = 1

    @property
    def seconds(self) -> float:
        return self.io + self.native + self.gil


@dataclass(frozen=True)
class Machine:
    cores: float = 2.0
    # By so much each thread more that waits for the GIL slows down the one that holds it.
    convoy: float = 0.01
    # So many threads of other processes want a core all the time.
    others: int = 0


@dataclass(frozen=True)
class Graph:
    stages: tuple[Stage, ...]
    source: float = 0.0
    consumer: float = 0.0
    machine: Machine = field(default_factory=Machine)
    # New limits are in force after so many seconds.
    lag: float = 0.0
    # So many items may be in flight; 0 is no limit. Each stage makes one of one then.
    room: int = 0


class World:
    """The state of a run. Time passes in `advance`."""

    def __init__(self, graph: Graph, limits: Limits, seed: int) -> None:
        self.graph = graph
        self.limits = limits
        self.random = random.Random(seed)
        self.now = self.cpu = self.coreless = 0.0
        count = len(graph.stages)
        # In front of each stage, and of the consumer.
        self.queues = [0] * (count + 1)
        self.running = [0] * count
        self.done = [0] * count
        self.busy = [0.0] * count
        self.gathered = [0] * count
        self.permits = limits.num_threads
        self.read = self.taken = 0
        self.waited = self.source_seconds = self.short = 0.0
        self.waiting_since: float | None = 0.0
        # What ends at a time, at so much native work, at so much work under the GIL.
        self.timed: list[tuple[float, int, Callable[[], None]]] = []
        self.native: list[tuple[float, int, Callable[[], None]]] = []
        self.gil: list[tuple[float, int, Callable[[], None]]] = []
        self.native_work = self.gil_work = 0.0
        self.numbers = 0
        self.pulling = False
        self.lagging = 0
        self.slowed = [1.0] * count
        self.inner = [0] * count
        self.queued_inside: list[list[Callable[[], None]]] = [[] for _ in graph.stages]
        self.settle()

    # ---- time ----

    def at(self, heap: list[tuple[float, int, Callable[[], None]]], when: float, action: Callable[[], None]) -> None:
        self.numbers += 1
        heapq.heappush(heap, (when, self.numbers, action))

    def advance(self, until: float) -> None:
        machine = self.graph.machine
        while self.now < until:
            native, held = len(self.native), len(self.gil)
            demand = native + min(1, held)
            share = min(1.0, machine.cores / (demand + machine.others)) if demand else 1.0
            gil_rate = share / held / (1 + machine.convoy * (held - 1)) if held else 0.0
            next_time = self.timed[0][0] if self.timed else math.inf
            step = min(until, next_time) - self.now
            heap = self.timed if next_time <= until else None
            if native and (left := (self.native[0][0] - self.native_work) / share) < step:
                step, heap = left, self.native
            if held and (left := (self.gil[0][0] - self.gil_work) / gil_rate) < step:
                step, heap = left, self.gil
            step = max(0.0, step)
            self.short += step * self.is_short()
            self.now += step
            self.cpu += step * share * demand
            self.coreless += step * (1 - share) * demand
            self.native_work += step * share if native else 0.0
            self.gil_work += step * gil_rate
            if heap is None:
                self.now = until
                return
            heapq.heappop(heap)[2]()

    # ---- the scheduler ----

    def settle(self) -> None:
        """Start everything that can start, nearest the sink first."""
        self.consume()
        again = True
        while again:
            again = False
            for index in reversed(range(len(self.running))):
                while self.ready(index):
                    self.start(index)
                    again = True
            if self.pull():
                again = True

    def ready(self, index: int) -> bool:
        slots = self.limits.concurrency[index]
        capacity = self.limits.buffer_size if index + 1 == len(self.running) else _CAPACITY
        return (
            self.queues[index] > 0
            and self.running[index] < slots
            and self.running[index] + self.queues[index + 1] < capacity + slots
            and (self.permits > 0 or not self.graph.stages[index].on_threads)
        )

    def start(self, index: int) -> None:
        stage = self.graph.stages[index]
        self.queues[index] -= 1
        self.running[index] += 1
        self.permits -= stage.on_threads
        began = self.now
        if self.inner[index] >= stage.inner:
            self.queued_inside[index].append(lambda: self.phases(index, began))
        else:
            self.inner[index] += 1
            self.phases(index, began)

    def phases(self, index: int, began: float) -> None:
        stage = self.graph.stages[index]
        factor = self.slowed[index]
        if stage.sigma:
            factor *= math.exp(self.random.gauss(-(stage.sigma**2) / 2, stage.sigma))
        parts = [(0, stage.io * factor), (1, stage.native * factor), (2, stage.gil * factor)]

        def go_on() -> None:
            while parts:
                kind, seconds = parts.pop(0)
                if seconds <= 0:
                    continue
                if kind == 0:
                    self.at(self.timed, self.now + seconds, go_on)
                elif kind == 1:
                    self.at(self.native, self.native_work + seconds, go_on)
                else:
                    self.at(self.gil, self.gil_work + seconds, go_on)
                return
            self.end(index, began)

        go_on()

    def end(self, index: int, began: float) -> None:
        stage = self.graph.stages[index]
        self.inner[index] -= 1
        if self.queued_inside[index]:
            self.inner[index] += 1
            self.queued_inside[index].pop(0)()
        self.running[index] -= 1
        self.permits += stage.on_threads
        self.done[index] += 1
        self.busy[index] += self.now - began
        self.gathered[index] += 1
        if self.gathered[index] >= stage.batch:
            self.gathered[index] = 0
            self.queues[index + 1] += 1
        self.settle()

    def is_short(self) -> bool:
        """Return whether the source has an item for which there is no room in flight."""
        return 0 < self.graph.room <= self.taken - self.read and not self.pulling and self.queues[0] < _CAPACITY

    def pull(self) -> bool:
        if self.pulling or self.queues[0] >= _CAPACITY or self.is_short():
            return False
        self.taken += 1
        if not self.graph.source:
            self.queues[0] += 1
            return True
        self.pulling = True
        self.at(self.timed, self.now + self.graph.source, self.pulled)
        return False

    def pulled(self) -> None:
        self.pulling = False
        self.source_seconds += self.graph.source
        self.queues[0] += 1
        self.settle()

    def consume(self) -> None:
        while self.waiting_since is not None and self.queues[-1]:
            self.queues[-1] -= 1
            self.read += 1
            self.waited += self.now - self.waiting_since
            self.waiting_since = self.now
            if self.graph.consumer:
                self.waiting_since = None
                self.at(self.timed, self.now + self.graph.consumer, self.consumed)

    def consumed(self) -> None:
        self.waiting_since = self.now
        self.settle()

    def pause(self, seconds: float) -> None:
        """Have the consumer, which waits, do something else for so long once it has its next item."""
        assert not self.graph.consumer
        graph = self.graph
        self.graph = replace(graph, consumer=seconds)

        def end() -> None:
            self.graph = graph

        # It takes one item within that time.
        self.at(self.timed, self.now + 0.9 * seconds, end)

    # ---- the tuner's view ----

    def change(self, limits: Limits) -> None:
        for slots, stage in zip(limits.concurrency, self.graph.stages, strict=True):
            assert slots > 0
            assert slots % stage.copies == 0
        if self.graph.lag:
            self.lagging += 1
            self.at(self.timed, self.now + self.graph.lag, lambda: self.learn(limits))
        else:
            self.put_in_force(limits)

    def learn(self, limits: Limits) -> None:
        self.lagging -= 1
        self.put_in_force(limits)

    def put_in_force(self, limits: Limits) -> None:
        self.permits += limits.num_threads - self.limits.num_threads
        self.limits = limits
        self.settle()

    def observe(self) -> Sample:
        stages = [
            StageSample(completed=done, busy_seconds=busy, running=running, concurrency=slots, capacity=_CAPACITY)
            for done, busy, running, slots in zip(
                self.done, self.busy, self.running, self.limits.concurrency, strict=True
            )
        ]
        return Sample(
            now=self.now,
            seen_at=self.now,
            num_threads=self.limits.num_threads,
            delivered=self.read,
            consumer_waited=self.waited,
            # At the very beginning, too.
            consumer_waiting_since=0.0 if self.waiting_since is None else max(1e-9, self.waiting_since),
            seconds_short_of_bytes=self.short,
            max_bytes=self.graph.room,
            sources=(SourceSample(busy_seconds=self.source_seconds),),
            stages=tuple(stages),
            cpu_seconds=self.cpu + 1e-9,
            core_seconds=self.coreless,
            lags=self.lagging > 0,
        )


def run(graph: Graph, limits: Limits, seconds: float, seed: int = 0, settling: float = 0.5) -> float:
    """Return the rate at which results come out under these limits."""
    world = World(graph, limits, seed)
    world.advance(settling)
    read, now = world.read, world.now
    world.advance(settling + seconds)
    return (world.read - read) / (world.now - now)


# ---- the tuner at work ----


def start_of(graph: Graph) -> Limits:
    """Return the limits that a pipeline has by default."""
    return limited(graph, [stage.pinned or stage.copies for stage in graph.stages])


def budgets_of(graph: Graph) -> Budgets:
    """Return how far the limits of a graph may go."""
    stages = tuple(
        StageBudget(
            f"stage {index}",
            stage.pinned or MOST // stage.copies * stage.copies,
            stage.pinned is not None,
            stage.on_threads,
            copies=stage.copies,
        )
        for index, stage in enumerate(graph.stages)
    )
    return Budgets(graph.machine.cores, stages, MOST, threads_pinned=False, buffer_size=3, buffer_pinned=True)


def limited(graph: Graph, slots: Sequence[int]) -> Limits:
    """Return limits with these concurrencies, and as many threads as they can use."""
    threads = sum(each for each, stage in zip(slots, graph.stages, strict=True) if stage.on_threads)
    return Limits(max(1, min(MOST, threads)), tuple(slots), 3)


def head_of(graph: Graph) -> PageHead:
    """Return what does not change of a graph."""
    stages = [
        StageHead(
            name=budget.name,
            kind="FunctionNode",
            op="op",
            served_by="threads" if stage.on_threads else "loop",
            ordered=False,
            adjustable=not budget.pinned,
            declared=True,
            feeders=(index,),
        )
        for index, (stage, budget) in enumerate(zip(graph.stages, budgets_of(graph).stages, strict=True))
    ]
    return PageHead(
        pid=0,
        started_ticks=0,
        pid_namespace=0,
        pipeline=0,
        command=(),
        ranks={},
        cores=graph.machine.cores,
        gil=True,
        sources=("src",),
        stages=tuple(stages),
    )


def tuned_world(graph: Graph, seed: int = 0) -> tuple[World, Climb]:
    """Return a graph at its start, and the tuner that is to tune it."""
    start = start_of(graph)
    return World(graph, start, seed), Climb(head_of(graph), start, budgets_of(graph))


def tune(graph: Graph, seconds: float, seed: int = 0) -> tuple[World, Climb]:
    """Run a graph for so long with the tuner at work."""
    world, session = tuned_world(graph, seed)
    go_on(world, session, seconds)
    return world, session


def go_on(world: World, session: Climb, seconds: float) -> None:
    """Go on for so long."""
    for _ in range(round(seconds / TICK)):
        world.advance(world.now + TICK)
        if session.observe(world.observe()):
            world.change(session.limits)
